/* Memory of other allocators, given to the functions that are the guard's: each as the C library alone would serve
 * it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_memalign(size_t, size_t);

static int wrong;

static void check(const char *what, int is_right)
{
    if (!is_right) {
        printf("%s\n", what);
        wrong = 1;
    }
}

/* Its size, its content when it grows, and its end. */
static void use(const char *from, unsigned char *memory, size_t size)
{
    check(from, memory != NULL && malloc_usable_size(memory) >= size);
    memset(memory, 7, size);
    memory = realloc(memory, 4 * size);
    check(from, memory != NULL && malloc_usable_size(memory) >= 4 * size);
    for (size_t at = 0; at < size; at++)
        check(from, memory[at] == 7);
    memory = reallocarray(memory, 8, size);
    check(from, memory != NULL && memory[size - 1] == 7);
    free(memory);
}

int main(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *(*looked_up)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    for (size_t size = 16; size <= 1 << 20; size *= 16) {
        use("__libc_malloc", __libc_malloc(size), size);
        use("__libc_calloc", __libc_calloc(1, size), size);
        use("__libc_memalign", __libc_memalign(256, size), size);
        use("dlsym", looked_up(size), size);
        use("malloc", malloc(size), size);
        use("memalign", memalign(256, size), size);
        use("aligned_alloc", aligned_alloc(256, size), size);
        use("valloc", valloc(size), size);
        use("pvalloc", pvalloc(size), size);
        void *aligned;
        use("posix_memalign", posix_memalign(&aligned, 256, size) ? NULL : aligned, size);
        use("reallocarray", reallocarray(NULL, 1, size), size);
    }
    check("null", malloc_usable_size(NULL) == 0);
    free(__libc_malloc(1));
    free(realloc(__libc_malloc(1), 0));
    puts(wrong ? "wrong" : "right");
    return wrong;
}
