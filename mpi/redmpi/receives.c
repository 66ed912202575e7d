/* See receives.h. */
#include "receives.h"

#include <limits.h>
#include <stdlib.h>

#include "compare.h"
#include "deaths.h"
#include "decisions.h"
#include "drops.h"
#include "early.h"
#include "events.h"
#include "handlers.h"
#include "heap.h"
#include "history.h"
#include "log.h"
#include "partitions.h"
#include "protocol.h"
#include "waits.h"

/* Uncertain receives, in the order in which they were posted. */
struct list {
    struct request *first, *last;
};
static struct list uncertain;

/* Those whose message was decided by another replica, or that are behind such a one, and whose message is not here: if
 * that replica has left the path, the message may never come. In the same order. */
static struct list revocable;

static uint64_t posted;
static int open_wildcards;

bool receives_need_us(void)
{
    return open_wildcards || await_letters();
}

bool was_posted(uint64_t number)
{
    return number <= posted;
}

static bool may_match(int wanted, int other, int any)
{
    return wanted == other || wanted == any || other == any;
}

/* Source and tag. */
static bool match_in_both(int peer, int other_peer, int tag, int other_tag)
{
    return may_match(peer, other_peer, MPI_ANY_SOURCE) && may_match(tag, other_tag, MPI_ANY_TAG);
}

/* Whether there is a message that both could take. */
static bool overlap(const struct request *one, MPI_Comm comm, int source, int tag)
{
    return one->comm == comm && match_in_both(one->peer, source, one->tag, tag);
}

/* The same, as the program has posted both. */
static bool could_take_same(const struct request *one, const struct request *other)
{
    return one->comm == other->comm &&
           match_in_both(one->wanted_peer, other->wanted_peer, one->wanted_tag, other->wanted_tag);
}

/* Whether a receive that is listed before `end` overlaps. */
static bool is_behind(const struct request *end, MPI_Comm comm, int source, int tag)
{
    for (const struct request *one = uncertain.first; one != end; one = one->later) {
        if (overlap(one, comm, source, tag))
            return true;
    }
    return false;
}

bool is_held_back(MPI_Comm comm, int source, int tag)
{
    return is_behind(NULL, comm, source, tag);
}

/* Where its number says. */
static void insert(struct list *list, struct request *request)
{
    struct request *earlier = list->last;
    while (earlier && earlier->number > request->number)
        earlier = earlier->earlier;
    request->earlier = earlier;
    request->later = earlier ? earlier->later : list->first;
    *(earlier ? &earlier->later : &list->first) = request;
    *(request->later ? &request->later->earlier : &list->last) = request;
}

static void take_out(struct list *list, struct request *request)
{
    *(request->earlier ? &request->earlier->later : &list->first) = request->later;
    *(request->later ? &request->later->earlier : &list->last) = request->earlier;
}

static void list(struct request *request)
{
    request->is_uncertain = true;
    insert(&uncertain, request);
}

static void unlist(struct request *request)
{
    take_out(&uncertain, request);
    request->is_uncertain = false;
}

static void make_revocable(struct request *request)
{
    if (!may_drop() || request->is_here)
        return;
    request->is_revocable = true;
    insert(&revocable, request);
}

/* A decision counts from now on, and so do those about earlier receives that could have taken the same message: it was
 * made after them. */
static void keep(struct request *request)
{
    if (request->is_kept)
        return;
    request->is_kept = true;
    for (struct request *one = revocable.first; one && one->number < request->number; one = one->later) {
        if (could_take_same(one, request))
            keep(one);
    }
    if (request->wanted_peer == MPI_ANY_SOURCE)
        keep_resolved(request->number, request->peer, request->tag);
}

/* Its message is here. */
static void make_final(struct request *request)
{
    if (request->is_revocable)
        take_out(&revocable, request);
    request->is_revocable = false;
    if (may_drop())
        keep(request);
}

/* Whether it may come to be behind one that is revoked. */
static bool is_behind_revocable(const struct request *request)
{
    for (const struct request *one = revocable.first; one; one = one->later) {
        if (could_take_same(one, request))
            return true;
    }
    return false;
}

/* While a receive from any source is open, the memory that it names stays as it is: its message arrives elsewhere.
 * It is there earlier in some replicas than in others, and programs such as HPCCG and miniFE send that very memory. */
static void prepare_landing(struct request *request)
{
    if (!request->is_blocking && !is_derived(request->type) && request->room <= INT_MAX)
        request->landing = malloc_as_it_is(request->room);
}

static void land(struct request *request)
{
    MPI_Count bytes;
    if (!request->landing)
        return;
    if (request->result == MPI_SUCCESS && !request->is_cancelled) {
        PMPI_Get_elements_x(&request->status, MPI_BYTE, &bytes);
        unpack(request->buffer, request->landing, (size_t)bytes, request->type);
    }
    free(request->landing);
    request->landing = NULL;
}

static int post_data(struct request *request)
{
    request->is_posted = true;
    if (request->landing)
        return PMPI_Irecv(request->landing, (int)request->room, MPI_BYTE, request->peer, request->tag, request->comm,
                          &request->data);
    return PMPI_Irecv(request->buffer, request->count, request->type, request->peer, request->tag, request->comm,
                      &request->data);
}

static size_t room_of_envelope(const struct request *request)
{
    return sends_copies() ? envelope_room(request->room, most_whole()) : sizeof(struct envelope);
}

static struct envelope *envelope_at(const struct request *request, int place)
{
    return (struct envelope *)((char *)request->envelopes + (size_t)place * room_of_envelope(request));
}

static struct origin_of_digest origin_of_place(const struct request *request, int place)
{
    int rank = shadow_rank(request->shadow, request->peer, team_before(place + 1));
    return (struct origin_of_digest){ request->shadow, rank, request->tag };
}

void post_digests(struct request *request)
{
    if (!teams_heard())
        return;
    size_t room = room_of_envelope(request);
    if (!request->envelopes)
        request->envelopes = malloc_as_it_is(room * (size_t)teams_heard());
    if (!request->envelopes)
        stop_job("no memory for what other teams say of a message of %zu bytes", request->room);
    for (int i = 0; i < teams_heard(); i++) {
        if (is_out(team_before(i + 1)))
            continue;
        struct origin_of_digest origin = origin_of_place(request, i);
        request->early[i] = take_early_digest(origin, envelope_at(request, i), room);
        if (!request->early[i])
            PMPI_Irecv(envelope_at(request, i), (int)room, MPI_BYTE, origin.rank, origin.tag, request->shadow->comm,
                       &request->digests[i]);
    }
}

/* Nobody waits for a digest any more, and what the MPI may still write to stays. */
static void give_up_digest(struct request *request, int place)
{
    request->early[place] = 0;
    if (request->digests[place] == MPI_REQUEST_NULL)
        return;
    give_up(&request->digests[place]);
    request->has_lost_envelopes = true;
}

/* The next receive of this source and tag gets the digest, if it has come. */
static void revoke_digest(struct request *request, int place)
{
    MPI_Status status;
    int was_cancelled = true, bytes = request->early[place];
    if (is_out(team_before(place + 1))) {
        give_up_digest(request, place);
        return;
    }
    if (request->digests[place] != MPI_REQUEST_NULL) {
        PMPI_Cancel(&request->digests[place]);
        if (PMPI_Wait(&request->digests[place], &status) == MPI_SUCCESS)
            PMPI_Test_cancelled(&status, &was_cancelled);
        if (!was_cancelled)
            PMPI_Get_count(&status, MPI_BYTE, &bytes);
    }
    if (bytes)
        keep_early_digest(origin_of_place(request, place), envelope_at(request, place), (size_t)bytes);
    request->early[place] = 0;
}

/* Copies of messages may be as large as these. */
static void drop_copies(struct request *request)
{
    if (!sends_copies() && !request->has_lost_envelopes)
        return;
    if (!request->has_lost_envelopes)
        free(request->envelopes);
    request->has_lost_envelopes = false;
    request->envelopes = NULL;
}

/* Nothing is decided about it. */
static void want_any(struct request *request)
{
    request->peer = request->wanted_peer;
    request->tag = request->wanted_tag;
}

static void begin_receive(struct request *request)
{
    stay_in();
    want_any(request);
    request->is_active = true;
    request->is_posted = request->is_here = request->is_cancelled = request->is_kept = false;
}

int post_known_receive(struct request *request)
{
    begin_receive(request);
    request->room = message_bytes((size_t)request->count, request->type);
    int result = post_data(request);
    if (result == MPI_SUCCESS)
        post_digests(request);
    return result;
}

/* Of the one who leads: others may have taken a message already. */
static int post_what_was_taken(struct request *request)
{
    if (request->wanted_peer == MPI_ANY_SOURCE && was_resolved(request->number, &request->peer, &request->tag))
        tell_resolved(request->number, request->peer, request->tag);
    return post_data(request);
}

static void release(void);

int post_receive(struct request *request)
{
    request->number = ++posted;
    begin_receive(request);
    if (request->peer == MPI_PROC_NULL)
        return post_data(request);
    request->room = message_bytes((size_t)request->count, request->type);
    record_step(STEP_RECEIVE, (int64_t)request->shadow->number << 32 | (uint32_t)request->peer, request->tag,
                request->count);
    if (request->peer == MPI_ANY_SOURCE) {
        open_wildcards++;
        prepare_landing(request);
    } else if (!is_held_back(request->comm, request->peer, request->tag)) {
        int result = post_data(request);
        if (result == MPI_SUCCESS)
            post_digests(request);
        if (!leads() && is_behind_revocable(request))
            make_revocable(request);
        return result;
    }
    list(request);
    if (!leads())
        return MPI_SUCCESS;
    int result = post_what_was_taken(request);
    release();
    return result;
}

/* Posts what is missing of those that are behind no other any more. */
static void release(void)
{
    for (struct request *request = uncertain.first, *next; request; request = next) {
        next = request->later;
        if (request->peer == MPI_ANY_SOURCE || is_behind(request, request->comm, request->peer, request->tag))
            continue;
        unlist(request);
        if (!leads())
            make_revocable(request);
        if (!request->is_posted && post_data(request) != MPI_SUCCESS)
            stop_job("a receive fails in replica %d alone", teams.replica);
        post_digests(request);
    }
}

void resolve_receive(uint64_t number, int source, int tag)
{
    for (struct request *request = uncertain.first; request; request = request->later) {
        if (request->number == number) {
            request->peer = source;
            request->tag = tag;
            release();
            return;
        }
    }
}

/* The message itself is here. */
static void see_here(struct request *request)
{
    if (request->is_uncertain) {
        request->peer = request->status.MPI_SOURCE;
        request->tag = request->status.MPI_TAG;
    }
    make_final(request);
}

/* Looks whether the message itself is here. */
static bool is_data_here(struct request *request)
{
    int is_here = request->is_here;
    if (!is_here) {
        if (request->data == MPI_REQUEST_NULL && !request->is_posted)
            return false;
        request->result = test_keeping_error(&request->data, &is_here, &request->status);
        request->is_here = is_here || request->result != MPI_SUCCESS;
        if (request->is_here && request->wanted_peer != MPI_PROC_NULL)
            see_here(request);
    }
    return request->is_here;
}

/* The one who decides sees which uncertain receives have their message. */
static void look_at_uncertain(void)
{
    bool is_news = false;
    for (struct request *request = uncertain.first; request; request = request->later) {
        if (request->is_here || !is_data_here(request))
            continue;
        is_news = true;
        tell_resolved(request->number, request->peer, request->tag);
    }
    if (is_news)
        release();
}

void advance_receives(void)
{
    advance_parts();
    look_for_succession();
    if (!uncertain.first)
        return;
    if (leads())
        look_at_uncertain();
    else
        look_for_decisions();
}

/* Whether what another team says has come, or never will. */
static bool is_digest_here(struct request *request, int place)
{
    MPI_Status status = { .MPI_ERROR = MPI_SUCCESS };
    int is_there = true;
    if (request->digests[place] != MPI_REQUEST_NULL)
        PMPI_Request_get_status(request->digests[place], &is_there, &status);
    if (is_there && is_death(status.MPI_ERROR)) {
        leave_dead(team_before(place + 1));
        give_up_digest(request, place);
    }
    return is_there;
}

bool receive_is_here(struct request *request)
{
    advance_receives();
    if (request->is_uncertain || !is_data_here(request))
        return false;
    bool is_there = true;
    for (int i = 0; is_there && i < teams_heard(); i++) {
        if (is_out(team_before(i + 1)))
            give_up_digest(request, i);
        is_there = is_digest_here(request, i);
    }
    return is_there;
}

/* What has come from other teams. */
static struct testimony testimony_of(struct request *request)
{
    struct testimony testimony = { .is_complete = sends_copies() };
    for (int i = 0; i < teams_heard(); i++) {
        MPI_Status status;
        int came = request->early[i], place = testimony.count;
        if (request->digests[i] == MPI_REQUEST_NULL && !came)
            continue;
        if (!came && PMPI_Wait(&request->digests[i], &status) == MPI_SUCCESS)
            PMPI_Get_count(&status, MPI_BYTE, &came);
        request->early[i] = 0;
        testimony.envelopes[place] = envelope_at(request, i);
        testimony.teams[place] = team_before(i + 1);
        testimony.came[place] = (size_t)came;
        testimony.count++;
    }
    testimony.room = request->room;
    return testimony;
}

static struct origin origin_of(const struct request *request)
{
    const struct request *whole = request->whole;
    return (struct origin){ .what = "message",
                            .shadow = whole ? whole->shadow : request->shadow,
                            .peer = whole ? whole->wanted_peer : request->status.MPI_SOURCE,
                            .tag = whole ? whole->wanted_tag : request->status.MPI_TAG };
}

/* Compares the message with what other teams say of it. */
static void check(struct request *request)
{
    struct testimony testimony = testimony_of(request);
    MPI_Count bytes = (MPI_Count)testimony.room;
    if (request->result == MPI_SUCCESS)
        PMPI_Get_elements_x(&request->status, MPI_BYTE, &bytes);
    struct region region = { .buffer = request->buffer, .bytes = (size_t)bytes, .type = request->type };
    struct packed packed = pack_regions(&region, 1);
    struct digest mine = too_long;
    if (request->result == MPI_SUCCESS)
        mine = sends_copies() ? (struct digest){ .bytes = packed.bytes } : digest_of(packed.data, packed.bytes);
    bool was_wrong = false;
    struct origin origin = origin_of(request);
    size_t right = compare(&region, 1, &packed, &mine, &testimony, &origin, &was_wrong);
    if (was_wrong)
        request->result = MPI_SUCCESS;
    if (right != (size_t)bytes)
        PMPI_Status_set_elements_x(&request->status, MPI_BYTE, (MPI_Count)right);
}

/* MPICH does not say so after MPI_Irecv, but after MPI_Recv. */
static void name_no_process(MPI_Status *status)
{
    status->MPI_SOURCE = MPI_PROC_NULL;
    status->MPI_TAG = MPI_ANY_TAG;
}

int finish_receive(struct request *request, MPI_Status *status)
{
    record_step(STEP_WAIT, (int64_t)request->number, 0, 0);
    if (!receive_is_here(request)) {
        flush_decisions();
        begin_wait("message", request->shadow, request->wanted_peer, request->wanted_tag);
        for (unsigned looks = 0; !receive_is_here(request); looks++)
            rest(looks);
        end_wait();
    }
    land(request);
    if (request->wanted_peer == MPI_PROC_NULL)
        name_no_process(&request->status);
    else if (!request->is_cancelled)
        check(request);
    drop_copies(request);
    if (request->wanted_peer == MPI_ANY_SOURCE)
        open_wildcards--;
    request->is_active = false;
    give_status(status, &request->status);
    return raise_kept_error(request->comm, request->result);
}

static _Noreturn void refuse_to_cancel(void)
{
    stop_job("a receive was cancelled while its message was on its way, which is not supported");
}

/* What was cancelled must not have taken a message: it was the next one's. */
static void cancel_alone(MPI_Request *request)
{
    MPI_Status status;
    int was_cancelled;
    if (*request == MPI_REQUEST_NULL)
        return;
    PMPI_Cancel(request);
    PMPI_Wait(request, &status);
    PMPI_Test_cancelled(&status, &was_cancelled);
    if (!was_cancelled)
        refuse_to_cancel();
}

/* Of the one who decides. */
static bool cancel_data(void *what, struct decision *decision)
{
    struct request *request = what;
    int was_cancelled = false;
    if (!request->is_here) {
        PMPI_Cancel(&request->data);
        request->result = wait_keeping_error(&request->data, &request->status);
        PMPI_Test_cancelled(&request->status, &was_cancelled);
        request->is_here = true;
        if (!was_cancelled && request->is_uncertain) {
            see_here(request);
            tell_resolved(request->number, request->peer, request->tag);
        }
    }
    decision->numbers[0] = was_cancelled;
    return true;
}

int cancel_receive(struct request *request)
{
    struct decision decision;
    if (!request->is_active || request->wanted_peer == MPI_PROC_NULL)
        return MPI_SUCCESS;
    advance_receives();
    bool leads_now = leads();
    decide(&(struct choice){ .kind = DECISION_FOUND, .waits = true, .look = cancel_data, .what = request }, &decision);
    request->is_cancelled = decision.numbers[0];
    if (!request->is_cancelled) {
        release();
        return MPI_SUCCESS;
    }
    if (request->is_uncertain)
        unlist(request);
    if (request->is_revocable)
        make_final(request);
    if (!leads_now)
        cancel_alone(&request->data);
    request->is_here = true;
    request->result = MPI_SUCCESS;
    PMPI_Status_set_cancelled(&request->status, true);
    for (int i = 0; i < teams_heard(); i++) {
        if (request->early[i])
            refuse_to_cancel();
        cancel_alone(&request->digests[i]);
    }
    release();
    return MPI_SUCCESS;
}

/* Unless its message has come after all. */
static void revoke(struct request *request)
{
    int was_cancelled = true;
    if (request->is_posted) {
        PMPI_Cancel(&request->data);
        request->result = wait_keeping_error(&request->data, &request->status);
        PMPI_Test_cancelled(&request->status, &was_cancelled);
    }
    if (!was_cancelled) {
        request->is_here = true;
        make_final(request);
        return;
    }
    for (int i = 0; i < teams_heard(); i++)
        revoke_digest(request, i);
    drop_copies(request);
    take_out(&revocable, request);
    request->is_revocable = request->is_posted = false;
    list(request);
}

/* The last one first: a message that comes meanwhile is taken by the first one that is still posted. What was decided
 * about receives that were still behind others is void, too: with the one who decides, messages come in any order. */
void revoke_receives(void)
{
    for (struct request *request = revocable.last, *earlier; request; request = earlier) {
        earlier = request->earlier;
        if (!request->is_kept)
            revoke(request);
    }
    for (struct request *request = uncertain.first; request; request = request->later)
        want_any(request);
    release();
}

void post_as_first(void)
{
    for (struct request *request = uncertain.first; request; request = request->later) {
        if (!request->is_posted && post_what_was_taken(request) != MPI_SUCCESS)
            stop_job("a receive fails in replica %d alone", teams.replica);
    }
    release();
}
