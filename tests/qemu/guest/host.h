/* host: what a program of a guest needs to ask its host (../host.sh) on the report port, while instructions are
   counted. The guest stops itself until it has the answer, by what a panic would do: else its clock, which skips idle
   time, would leap to the next timer before the host can answer. So how long the host takes makes no difference. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <termios.h>
#include <unistd.h>

#include "must.h"

/* pvpanic's port, and its word for a panic (QEMU's docs/specs/pvpanic.txt). */
enum { PANIC_PORT = 0x505, PANICKED = 1 };

/* The host's answer, without its "ok". */
static const char *ask_host(const char *request) {
    static int port = -1;
    static char answer[256];
    char line[128];
    size_t got = 0;
    if (port < 0) {
        port = open("/dev/ttyS1", O_RDWR | O_NOCTTY);
        must(port >= 0 && ioperm(PANIC_PORT, 1, 1) == 0, "the report port");
    }
    int length = snprintf(line, sizeof line, "host %s\n", request);
    must(write(port, line, (size_t)length) == length && tcdrain(port) == 0, "the report port");
    outb(PANICKED, PANIC_PORT);
    do {
        must(read(port, answer + got, 1) == 1, "the host's answer");
    } while (answer[got] != '\n' && ++got < sizeof answer - 1);
    answer[got] = 0;
    must(!strncmp(answer, "ok", 2), answer);
    return answer + strspn(answer, "ok ");
}
