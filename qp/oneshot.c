#include "qp/oneshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/probe.h"
#include "qp/internal.h"

// Commands in flight are found by the cookie of their STag; free ones wait in a ring that the
// engine fills and the program empties. Its counts never wrap: its length need not divide 2^32.
struct oneshot_table {
    struct oneshot_config config;
    struct oneshot_command *commands;
    struct mem_element *elements;                // config.element_max of each command
    uint32_t *free_ring;                         // indices of commands
    uint64_t taken;                              // the program's: all before it are in use
    _Atomic uint64_t freed;                      // the engine's: all before it may be taken
    uint8_t captured[ONESHOT_REFERENCE_LEN_MAX]; // of the message that is arriving
};

enum { AGREED_IS_KNOWN = 1 << 8 };

/* ---- the reference in a message -------------------------------------------------------------- */

static uint64_t number_of(const struct oneshot_field *field, const uint8_t *octets)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < field->len; i++) {
        number = number << 8 | octets[field->is_little_endian ? field->len - 1U - i : i];
    }
    return number;
}

bool oneshot_field_read(const struct oneshot_field *field, const uint8_t *message,
                        size_t message_len, uint64_t *ret_reference)
{
    if (message_len < field->offset || message_len - field->offset < field->len) {
        return false;
    }
    *ret_reference = number_of(field, message + field->offset);
    return true;
}

void oneshot_field_write(const struct oneshot_field *field, uint8_t *message, uint64_t reference)
{
    for (unsigned i = 0; i < field->len; i++) {
        unsigned shift = 8 * (field->is_little_endian ? i : field->len - 1U - i);
        message[field->offset + i] = (uint8_t)(reference >> shift);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool is_field_right(const struct oneshot_field *field)
{
    return field->len >= 1 && field->len <= ONESHOT_REFERENCE_LEN_MAX;
}

static bool is_config_right(const struct oneshot_config *config)
{
    return config->command_max >= 1 && config->command_max <= ONESHOT_COMMAND_MAX &&
           config->element_max >= 1 && config->element_max <= ONESHOT_ELEMENT_MAX &&
           is_field_right(&config->request) && is_field_right(&config->answer);
}

static struct mem_asker asker_of(const struct qp *qp)
{
    return (struct mem_asker){.pd = qp->config.pd, .qp_num = qp->config.qp_num};
}

static uint32_t table_index(const struct oneshot_table *t, const struct oneshot_command *command)
{
    return (uint32_t)(command - t->commands);
}

// Its STag and list are ready for the next use.
static void give_back(struct oneshot_table *t, struct oneshot_command *command)
{
    uint64_t freed = atomic_load_explicit(&t->freed, memory_order_relaxed);
    t->free_ring[freed % t->config.command_max] = table_index(t, command);
    atomic_store_explicit(&t->freed, freed + 1, memory_order_release);
}

static void stags_free(struct qp *qp, struct oneshot_table *t, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mem_oneshot_free(qp->config.mem, t->commands[i].stag);
    }
}

static void table_destroy(struct oneshot_table *t)
{
    free(t->commands);
    free(t->elements);
    free(t->free_ring);
    free(t);
}

static struct oneshot_table *table_create(const struct oneshot_config *config)
{
    struct oneshot_table *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->config = *config;
    t->commands = calloc(config->command_max, sizeof *t->commands);
    t->elements = calloc((size_t)config->command_max * config->element_max, sizeof *t->elements);
    t->free_ring = calloc(config->command_max, sizeof *t->free_ring);
    if (t->commands == NULL || t->elements == NULL || t->free_ring == NULL) {
        table_destroy(t);
        return NULL;
    }
    atomic_init(&t->freed, 0);
    return t;
}

int qp_oneshot_create(struct qp *qp, const struct oneshot_config *config)
{
    if (atomic_load_explicit(&qp->oneshot, memory_order_relaxed) != NULL) {
        return -EBUSY;
    }
    if (!is_config_right(config)) {
        return -EINVAL;
    }
    struct oneshot_table *t = table_create(config);
    if (t == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < config->command_max; i++) {
        struct oneshot_command *command = &t->commands[i];
        command->list.elements = t->elements + (size_t)i * config->element_max;
        int result = mem_oneshot_alloc(qp->config.mem, asker_of(qp), &command->stag);
        if (result < 0) {
            stags_free(qp, t, i);
            table_destroy(t);
            return result;
        }
        give_back(t, command);
    }
    atomic_store_explicit(&qp->oneshot, t, memory_order_release);
    return 0;
}

void oneshot_fini(struct qp *qp)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    if (t != NULL) {
        stags_free(qp, t, t->config.command_max);
        table_destroy(t);
    }
}

bool oneshot_check(const struct qp *qp)
{
    const struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    uint32_t open_count = 0;
    for (uint32_t i = 0; t != NULL && i < t->config.command_max; i++) {
        open_count += t->commands[i].is_open;
    }
    return open_count == qp->oneshot_open_count;
}

/* ---- the program's side ---------------------------------------------------------------------- */

const struct oneshot_config *qp_oneshot_config(const struct qp *qp)
{
    const struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_acquire);
    return t != NULL ? &t->config : NULL;
}

int qp_oneshot_agreed(const struct qp *qp)
{
    int agreed = atomic_load_explicit(&qp->oneshot_agreed, memory_order_relaxed);
    return agreed != 0 ? agreed & ~AGREED_IS_KNOWN : -ENOTCONN;
}

struct oneshot_command *qp_oneshot_slot(struct qp *qp)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_acquire);
    if (t->taken == atomic_load_explicit(&t->freed, memory_order_acquire)) {
        return NULL;
    }
    return &t->commands[t->free_ring[t->taken % t->config.command_max]];
}

void qp_oneshot_commit(struct qp *qp, struct send_wqe *wqe)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    wqe->flags |= WQE_ADVERTISE;
    wqe->command = t->free_ring[t->taken % t->config.command_max];
    t->taken++;
}

/* ---- agreeing -------------------------------------------------------------------------------- */

void oneshot_agree(struct qp *qp, uint8_t agreed)
{
    qp->rdmap.oneshot = agreed;
    atomic_store_explicit(&qp->oneshot_agreed, AGREED_IS_KNOWN | agreed, memory_order_relaxed);
}

void oneshot_disagree(struct qp *qp)
{
    atomic_store_explicit(&qp->oneshot_agreed, 0, memory_order_relaxed);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static struct oneshot_command *command_of(struct qp *qp, const struct send_wqe *wqe)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    return &t->commands[wqe->command];
}

static void open_region(struct qp *qp, struct oneshot_command *command)
{
    const struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    const struct mem_oneshot region = {
        .list = &command->list,
        .offset = command->offset,
        .length = command->length,
        .access = command->access,
        .cookie = table_index(t, command),
    };
    mem_oneshot_open(qp->config.mem, command->stag, &region);
    command->is_open = true;
    qp->oneshot_open_count++;
    qp->counters.oneshot_advertised++;
    PROBE4(oneshot_advertised, qp->config.qp_num, command->stag, command->reference,
           command->length);
    TRACE(qp->config.trace, TRACE_QP, "qp %u advertises STag 0x%08x, reference %llu: %llu octets",
          qp->config.qp_num, command->stag, (unsigned long long)command->reference,
          (unsigned long long)command->length);
}

static void close_region(struct qp *qp, struct oneshot_command *command)
{
    mem_oneshot_close(qp->config.mem, command->stag, &command->stag);
    command->is_open = false;
    qp->oneshot_open_count--;
    give_back(atomic_load_explicit(&qp->oneshot, memory_order_relaxed), command);
}

void oneshot_start(struct qp *qp, struct send_wqe *wqe, struct rdmap_send *send)
{
    if (wqe->flags & WQE_ADVERTISE) {
        struct oneshot_command *command = command_of(qp, wqe);
        wqe->progress.has_opened = true;
        send->stag_or_immediate = command->stag;
        if (qp->rdmap.oneshot & EXTENSION_ONESHOT_ADVERTISE) {
            send->mark = ONESHOT_ADVERTISE;
        }
        open_region(qp, command);
    } else if (wqe->flags & WQE_CLOSE) {
        bool is_agreed = (qp->rdmap.oneshot & EXTENSION_ONESHOT_CLOSE) != 0;
        send->mark = is_agreed ? ONESHOT_CLOSE : ONESHOT_NONE;
        send->invalidates = !is_agreed;
        qp->counters.oneshot_answered++;
    }
}

void oneshot_wqe_ended(struct qp *qp, const struct send_wqe *wqe, bool has_begun)
{
    if ((wqe->flags & WQE_ADVERTISE) != 0 && !(has_begun && wqe->progress.has_opened)) {
        give_back(atomic_load_explicit(&qp->oneshot, memory_order_relaxed), command_of(qp, wqe));
    }
}

void oneshot_detach_all(struct qp *qp)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    for (uint32_t i = 0; qp->oneshot_open_count > 0; i++) {
        CHECK(i < t->config.command_max);
        if (t->commands[i].is_open) {
            close_region(qp, &t->commands[i]);
            qp->counters.oneshot_detached++;
        }
    }
}

int qp_oneshot_revoke(struct qp *qp, uint32_t stag)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    uint32_t index;
    if (mem_oneshot_find(qp->config.mem, asker_of(qp), stag, &index) != MEM_OK) {
        return -EINVAL;
    }
    TRACE(qp->config.trace, TRACE_QP, "qp %u revokes STag 0x%08x", qp->config.qp_num, stag);
    close_region(qp, &t->commands[index]);
    qp->counters.oneshot_revoked++;
    return 0;
}

/* ---- messages of the peer -------------------------------------------------------------------- */

// The table, if this message has to do with one-shot RDMA.
static struct oneshot_table *table_for(struct qp *qp, const struct rdmap_arrival *a)
{
    bool is_concerned = a->mark != ONESHOT_NONE || a->invalidates;
    return is_concerned ? atomic_load_explicit(&qp->oneshot, memory_order_relaxed) : NULL;
}

static const struct oneshot_field *field_of(const struct oneshot_table *t,
                                            const struct rdmap_arrival *a)
{
    return a->mark == ONESHOT_ADVERTISE ? &t->config.request : &t->config.answer;
}

static void capture(const struct oneshot_field *field, const struct rdmap_arrival *a,
                    uint8_t *captured)
{
    for (unsigned i = 0; i < field->len; i++) {
        uint64_t at = (uint64_t)field->offset + i;
        if (at >= a->mo && at < a->mo + a->payload.len) {
            captured[i] = a->payload.ptr[at - a->mo];
        }
    }
}

// All of the message is here, `length` octets.
static void conclude(struct qp *qp, const struct oneshot_field *field, const uint8_t *captured,
                     uint64_t length, struct rdmap_arrival *a)
{
    if (length >= (uint64_t)field->offset + field->len) {
        a->has_reference = true;
        a->reference = number_of(field, captured);
    }
    if (a->invalidates && mem_is_oneshot(qp->config.mem, a->send_stag)) {
        a->mark = ONESHOT_CLOSE;
    }
}

// In order messages are not interleaved, so that one place is enough for what is kept of a message
// until its end; but what of it came beyond a hole has its own.
void oneshot_note(struct qp *qp, struct rdmap_arrival *a)
{
    struct oneshot_table *t = table_for(qp, a);
    if (t == NULL) {
        return;
    }
    const struct oneshot_field *field = field_of(t, a);
    uint8_t *captured = t->captured;
    capture(field, a, captured);
    if (qp->receive != NULL && qp->receive->early.is_touched) {
        captured = qp->receive->early.captured;
        capture(field, a, captured);
    }
    if (a->is_last) {
        conclude(qp, field, captured, a->mo + a->payload.len, a);
    }
}

void oneshot_begin_early(struct qp *qp, struct recv_early *early, bool is_in_progress)
{
    const struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    if (t != NULL && is_in_progress) {
        memcpy(early->captured, t->captured, sizeof early->captured);
    }
}

void oneshot_note_early(struct qp *qp, struct recv_early *early, const struct rdmap_arrival *a)
{
    struct oneshot_table *t = table_for(qp, a);
    if (t != NULL) {
        capture(field_of(t, a), a, early->captured);
    }
}

void oneshot_recall_early(struct qp *qp, const struct recv_early *early, struct rdmap_arrival *a)
{
    struct oneshot_table *t = table_for(qp, a);
    if (t != NULL) {
        conclude(qp, field_of(t, a), early->captured, early->length, a);
    }
}

enum rdmap_refusal oneshot_deliver_advertise(struct qp *qp, const struct rdmap_arrival *a)
{
    bool has_table = atomic_load_explicit(&qp->oneshot, memory_order_relaxed) != NULL;
    if (has_table && !a->has_reference) {
        return RDMAP_REFUSED_ONESHOT_SHORT;
    }
    qp->counters.oneshot_received++;
    return RDMAP_ACCEPTED;
}

// What a person must know of a peer that breaks the protocol: both values of both ends.
static enum rdmap_refusal refuse_close(struct qp *qp, const struct rdmap_arrival *a,
                                       enum rdmap_refusal refusal,
                                       const struct oneshot_command *command)
{
    char found[48] = "no reference", expected[64] = "";
    if (a->has_reference) {
        snprintf(found, sizeof found, "reference %llu", (unsigned long long)a->reference);
    }
    if (command != NULL) {
        snprintf(expected, sizeof expected, "; it was advertised with reference %llu",
                 (unsigned long long)command->reference);
    }
    TRACE(qp->config.trace, TRACE_ERROR, "QP %u: the peer closes STag 0x%08x with %s: %s%s",
          qp->config.qp_num, a->send_stag, found, rdmap_refusal_facts(refusal)->text, expected);
    return refusal;
}

enum rdmap_refusal oneshot_deliver_close(struct qp *qp, const struct rdmap_arrival *a)
{
    struct oneshot_table *t = atomic_load_explicit(&qp->oneshot, memory_order_relaxed);
    uint32_t index;
    enum mem_verdict verdict = mem_oneshot_find(qp->config.mem, asker_of(qp), a->send_stag, &index);
    if (verdict != MEM_OK) {
        return refuse_close(qp, a, rdmap_refusal_of_close(verdict), NULL);
    }
    struct oneshot_command *command = &t->commands[index];
    if (!a->has_reference) {
        return refuse_close(qp, a, RDMAP_REFUSED_ONESHOT_SHORT, command);
    }
    if (a->reference != command->reference) {
        return refuse_close(qp, a, RDMAP_REFUSED_CLOSE_REFERENCE, command);
    }
    PROBE4(oneshot_closed, qp->config.qp_num, command->stag, command->reference, command->length);
    TRACE(qp->config.trace, TRACE_QP, "qp %u: the peer closes STag 0x%08x, reference %llu",
          qp->config.qp_num, command->stag, (unsigned long long)command->reference);
    close_region(qp, command);
    qp->counters.oneshot_closed++;
    return RDMAP_ACCEPTED;
}
