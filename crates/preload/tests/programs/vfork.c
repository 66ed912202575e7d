/* Executes its arguments in a vfork child, which shares the heap until it does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    (void)count;
    char *block = strdup("mine");
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execvp(arguments[1], arguments + 1);
            _exit(127);
        }
        int status;
        waitpid(child, &status, 0);
        if (status) return 1;
    }
    puts(block);
    free(block);
    return 0;
}
