/* How the replicas of a rank agree on what a message was.
 *
 * Problem: a replica gets a message from its own team, and digests of the same message from the teams before it. If
 * they differ, it does not know which is wrong, and the other replicas may know nothing of it. Idea: it asks the
 * replicas whose digests it does not have, and the majority decides [Fiala15, 3.3.2.1]. The digests that came from the
 * teams before it count as votes of their replicas; those are asked only if there is no majority otherwise. A replica
 * whose message is not the majority's fetches it from one that still has it; one that is asked by a replica with
 * another digest sends its message at once if it is short. Why this way: Fiala's handshake between two neighbours
 * [Fiala15, figure 3.7] infers from the places on the ring who has the right message. That holds for three replicas of
 * which one sender is wrong. With four or more, two wrong neighbours in a row mislead it; and if only a receiver is
 * hit, nobody answers it. In that common case, few notices are needed here, too: two replicas see a difference, and
 * each asks one other. One gets the right message in reply, and the other a digest. Then the one that had the wrong
 * message says that it is done.
 *
 * A replica compares with as many teams as a majority has beside itself (compared_teams()). So it never takes a wrong
 * message for right while a majority is right, even if all wrong ones are alike. For two and three replicas that is one
 * team, as in [Fiala15, figure 3.4].
 *
 * Messages are numbered in the order in which the program receives them, which is the same for all replicas. A replica
 * that is asked for a message that it has not received yet answers when it has. One that is asked for a message that it
 * has handed to the program knows its digest, but has it no longer.
 *
 * Pure: who has the connections passes on what comes and sends what is to be sent. */
#ifndef RAMPART_AGREEMENT_H
#define RAMPART_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

/* The most replicas of a rank. */
#define MOST_REPLICAS 16

/* Messages of up to so many bytes are sent to a replica that has asked with another digest. Two replicas may do so at
 * once: both must be able to write that much before either reads. */
#define MOST_OFFERED 8192

/* What is compared of a message. */
struct digest {
    uint64_t bytes;
    uint64_t low, high;
};

enum notice_kind {
    NOTICE_ASK,         /* for the digest of a message; with the sender's own */
    NOTICE_DIGEST,      /* of a message that the sender has */
    NOTICE_DONE_DIGEST, /* of one that it is done with */
    NOTICE_FORGOTTEN,   /* it was too long ago */
    NOTICE_FETCH,       /* asks for a message itself */
    NOTICE_MESSAGE,     /* with the message behind it; the digest is what has arrived */
    NOTICE_NOT_HELD,    /* the sender has the message no longer, or has a wrong one */
    NOTICE_SETTLED,     /* the sender is done with it */
    /* Not of the agreement. */
    NOTICE_PATH,     /* the sender has done so many steps, whose hash is in the digest (paths.h) */
    NOTICE_MARKS,    /* with so many marks of what it received behind it (log.h) */
    NOTICE_COMPARED, /* the marks up to this number are compared */
    NOTICE_ASK_PATH, /* for the hash of so many steps */
    NOTICE_VOTE,     /* the sender's vote on a step */
    NOTICE_OUT,      /* these teams are dropped (drops.h) */
    NOTICE_AT_END,   /* the sender has come to the end of the program, after so many steps */
    NOTICE_LEAVES,   /* the sender is about to leave before the end of the program, after so many steps */
    NOTICE_OVER,     /* all have: those that are dropped end, too (ending.h) */
    NOTICE_TAKE,     /* with decisions that the sender has followed behind it (succession.h) */
};

/* What replicas tell each other. */
struct notice {
    enum notice_kind kind;
    uint64_t number; /* of the message */
    struct digest digest;
};

enum agreement_state {
    AGREEMENT_WAITS,    /* for others */
    AGREEMENT_ACCEPTED, /* the message is right, or was replaced by the right one */
    AGREEMENT_STOPPED,  /* no majority, or nobody has the right message any more: the program must not have it */
};

enum knowledge {
    UNKNOWN,
    CLAIMED, /* the sender in its team has told it */
    KNOWN,   /* the replica itself has */
};

/* What is known of another replica. Numbers of messages begin with 1. */
struct peer {
    bool is_lost;
    uint64_t settled; /* it is done with the messages up to this one */
    uint64_t asks, fetches; /* what it waits for; 0: nothing */
    struct digest asks_with; /* its own digest of what it asks for */
    /* In the present vote. */
    enum knowledge knowledge;
    struct digest digest;
    bool is_asked, has_none;
    bool knows_own; /* digest; if that is wrong, the peer waits until this replica has the right message */
};

struct outgoing {
    int to;
    struct notice notice;
};

struct agreement {
    int replicas, own;
    uint64_t number; /* of the last message that was compared */
    enum agreement_state state;
    bool is_here; /* the message: the program does not have it yet */
    bool is_voting, is_replaced;
    int fetching; /* from this replica; -1: from none */
    struct peer peers[MOST_REPLICAS]; /* the own one too */
    /* What is to be sent; each peer has few questions at a time. */
    struct outgoing out[6 * MOST_REPLICAS];
    int first_out, outs;
    struct digest *remembered; /* by number, so many: a replica may be that far behind */
    uint64_t memory;
};

bool same_digest(const struct digest *one, const struct digest *other);

/* From how many teams before its own a replica gets digests. */
int compared_teams(int replicas);

/* `remembered` has room for so many digests. */
void agreement_begin(struct agreement *agreement, int replicas, int own, struct digest *remembered, uint64_t memory);

/* The next message has come, with this digest. `count` digests came from other teams: others[i] from team of[i]. Not
 * while one is waited for. */
void agreement_compare(struct agreement *agreement, const struct digest *mine, const struct digest *others,
                       const int of[], int count);

/* Whether so many digests of other teams do not make a majority of those that are left: then all are asked. Teams that
 * are dropped send none. */
bool agreement_lacks(const struct agreement *agreement, int count);

/* Whether a digest that is known, of a replica that counts, is another one. */
bool agreement_differs(const struct agreement *agreement);

/* The program gets the message, which was accepted, or which the user wants all the same: nobody else can have it from
 * now on. */
void agreement_hand_over(struct agreement *agreement);

/* A notice has come; or the replica has died, or left the common path. */
void agreement_hear(struct agreement *agreement, int from, const struct notice *notice);
void agreement_lose(struct agreement *agreement, int replica);

/* Takes the next notice that is to be sent. Those with a message take it from where it was received: they are sent
 * before the program may have it. */
bool agreement_say(struct agreement *agreement, int *to, struct notice *notice);

/* A mask of the replicas whose digests of the present message, as far as they are known or claimed, are not those of
 * the majority; 0 if there is none. */
uint32_t agreement_wrong(const struct agreement *agreement);

#endif
