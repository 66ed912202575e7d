/* See injector.h. */
#include "injector.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "connections.h"
#include "digest.h"
#include "events.h"
#include "leaving.h"
#include "teams.h"
#include "timesteps.h"

/* What becomes of a call. */
enum change { CHANGE_NOTHING, CHANGE_TAG, CHANGE_LENGTH, CHANGE_TARGET, CHANGE_SKIP, CHANGE_LOOP,
              CHANGE_CRASH, CHANGE_ABORT, CHANGE_EXIT, CHANGES };

static const char *const changes[CHANGES] = { "nothing", "tag", "length", "target", "skip", "loop",
                                              "crash", "abort", "exit" };

static struct {
    bool is_on;
    enum change change;
    uint64_t calls; /* that may be changed */
    uint64_t odds, at;
    int64_t step;   /* -1: none; no more after the first hit */
    uint64_t state; /* of the random numbers: the program's own are left alone */
    uint64_t sent;  /* messages */
} injector;

/* SplitMix64 [Steele14]. */
static uint64_t random_number(void)
{
    uint64_t mixed = injector.state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* The number of this name among the words; -1 if it is not there. */
static int64_t wanted(const char *words, const char *name)
{
    size_t length = strlen(name);
    for (const char *word = words; word; word = strchr(word, ' ') ? strchr(word, ' ') + 1 : NULL) {
        if (!strncmp(word, name, length) && word[length] == '=')
            return strtoll(word + length + 1, NULL, 10);
    }
    return -1;
}

static enum change wanted_change(const char *words)
{
    const char *word = strstr(words, "change=");
    for (int i = 0; word && i < CHANGES; i++) {
        size_t length = strlen(changes[i]);
        word = strstr(words, "change=") + strlen("change=");
        if (!strncmp(word, changes[i], length) && (!word[length] || word[length] == ' '))
            return (enum change)i;
    }
    return CHANGE_NOTHING;
}

void begin_injector(void)
{
    const char *words = getenv("RAMPART_INJECT");
    if (!words)
        return;
    int64_t rank = wanted(words, "rank"), replica = wanted(words, "replica");
    int64_t odds = wanted(words, "odds"), at = wanted(words, "at"), seed = wanted(words, "seed");
    injector.step = wanted(words, "step");
    injector.is_on = (rank < 0 || rank == teams.rank) && (replica < 0 || replica == teams.replica);
    injector.change = wanted_change(words);
    injector.odds = odds > 0 ? (uint64_t)odds : 0;
    injector.at = at > 0 ? (uint64_t)at : 0;
    injector.state = (uint64_t)seed * UINT64_C(1000003) + (uint64_t)(teams.replica * teams.ranks + teams.rank);
}

/* Whether this message is hit. */
static bool is_hit(void)
{
    injector.sent++;
    if (injector.at)
        return injector.sent == injector.at;
    if (injector.step >= 0 && timestep() >= (uint64_t)injector.step) {
        injector.step = -1;
        return true;
    }
    return injector.odds && random_number() % injector.odds == 0;
}

void inject(void *buffer, size_t bytes, MPI_Datatype type, int peer, int tag)
{
    if (!injector.is_on || injector.change || !bytes || !is_hit())
        return;
    uint64_t bit = random_number() % (8 * (uint64_t)bytes);
    struct packed packed = pack(buffer, bytes, type);
    unsigned char *data = packed.copy ? packed.copy : buffer;
    data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    if (packed.copy)
        unpack(buffer, data, bytes, type);
    release_packed(&packed);
    tell("injected message %llu to %d tag %d bytes %zu bit %llu compared %llu step %llu",
         (unsigned long long)injector.sent, peer, tag, bytes, (unsigned long long)bit,
         (unsigned long long)connections_tally().compared, (unsigned long long)timestep());
}

/* As a program does whose loop never ends. */
static void compute_for_ever(void)
{
    for (volatile unsigned rounds = 0;; rounds++)
        ;
}

void change_call(int *count, int *peer, int *tag, int peers)
{
    if (!injector.is_on || !injector.change || *peer < 0 || ++injector.calls != injector.at)
        return;
    tell("injected message %llu to %d tag %d bytes 0 bit -1 compared %llu step %llu",
         (unsigned long long)injector.calls, *peer, *tag, (unsigned long long)connections_tally().compared,
         (unsigned long long)timestep());
    switch (injector.change) {
    case CHANGE_TAG:
        *tag += 1;
        break;
    case CHANGE_LENGTH:
        *count /= 2;
        break;
    case CHANGE_TARGET:
        *peer = (*peer + 1) % peers;
        break;
    case CHANGE_SKIP:
        *peer = MPI_PROC_NULL;
        break;
    case CHANGE_LOOP:
        compute_for_ever();
        break;
    case CHANGE_CRASH:
        crash();
        break;
    case CHANGE_ABORT:
        MPI_Abort(MPI_COMM_WORLD, 1);
        break;
    case CHANGE_EXIT:
        leave_by_exit();
    case CHANGE_NOTHING:
    case CHANGES:
        break;
    }
}
