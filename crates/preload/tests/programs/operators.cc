// What C++ allocates comes from malloc.
#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct alignas(4096) Page { char bytes[4096]; };

// Keeps the compiler from leaving out an allocation that nobody uses.
void *volatile sink;

int main() {
    auto owns = reinterpret_cast<int (*)(const void *)>(dlsym(RTLD_DEFAULT, "rampart_guard_owns"));
    int outside = 0;
    auto check = [&](const void *block) { outside += !owns(block); };
    auto number = std::make_unique<int>(1);
    check(number.get());
    auto page = std::make_unique<Page[]>(3);
    check(page.get());
    std::vector<std::string> words(1000, std::string(100, 'x'));
    for (auto &word : words) check(word.data());
    std::map<int, std::string> map;
    std::thread([&] { for (int i = 0; i < 1000; i++) check(&(map[i] = std::to_string(i))); }).join();
    try { throw std::runtime_error("thrown"); } catch (const std::exception &thrown) { check(&thrown); }
    try { sink = new char[std::size_t(1) << 62]; outside++; } catch (const std::bad_alloc &) { std::puts("refused"); }
    std::printf("outside: %d\n", outside);
}
