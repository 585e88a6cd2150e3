#include "wq/oneshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/port_journal.h"
#include "base/probe.h"
#include "base/trace.h"
#include "mem/verdict.h"
#include "wq/wq.h"
#include "wq/wqe.h"

// What has been found out about memory is found out anew after this.
static const duration_ns known_holds_ns = NS_PER_MS;

// Commands in flight are found by the cookie of their STag; free ones wait in a ring that the
// engine fills and the program empties. Its counts never wrap: its length need not divide 2^32.
struct oneshot_table {
    struct oneshot_config config;
    struct oneshot_command *commands;
    struct mem_element *elements; // config.element_max of each command
    uint32_t *free_ring;          // indices of commands
    uint64_t taken;               // the program's: all before it are in use
    struct mem_known known;       // ... of its memory
    instant_ns known_since_ns;    // ... that or later
    _Atomic uint64_t freed;       // the engine's: all before it may be taken
};

/* ---- the reference in a message -------------------------------------------------------------- */

uint64_t oneshot_field_number(const struct oneshot_field *field, const uint8_t *octets)
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
    *ret_reference = oneshot_field_number(field, message + field->offset);
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

static struct mem_asker asker_of(const struct wq *wq)
{
    return (struct mem_asker){.pd = wq->config->pd, .qp_num = wq->config->qp_num};
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

static void stags_free(struct wq *wq, struct oneshot_table *t, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        mem_oneshot_free(wq->config->mem, t->commands[i].stag);
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

int wq_oneshot_create(struct wq *wq, const struct oneshot_config *config)
{
    CHECK(guard_is_held(&wq->config->guard));
    if (atomic_load_explicit(&wq->oneshot, memory_order_relaxed) != NULL) {
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
        int result = mem_oneshot_alloc(wq->config->mem, asker_of(wq), &command->stag);
        if (result < 0) {
            stags_free(wq, t, i);
            table_destroy(t);
            return result;
        }
        give_back(t, command);
    }
    atomic_store_explicit(&wq->oneshot, t, memory_order_release);
    return 0;
}

void oneshot_fini(struct wq *wq)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    if (t != NULL) {
        stags_free(wq, t, t->config.command_max);
        table_destroy(t);
    }
}

bool oneshot_check(const struct wq *wq)
{
    const struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    uint32_t open_count = 0;
    for (uint32_t i = 0; t != NULL && i < t->config.command_max; i++) {
        open_count += t->commands[i].is_open;
    }
    return open_count == wq->oneshot_open_count;
}

/* ---- the program's side ---------------------------------------------------------------------- */

const struct oneshot_config *wq_oneshot_config(const struct wq *wq)
{
    const struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_acquire);
    return t != NULL ? &t->config : NULL;
}

// The kernel is asked by a system call, which is as much as all the rest of a post. So an answer
// holds for some commands in a row. What is unmapped meanwhile is memory that may be lent already.
struct mem_known *wq_oneshot_known(struct wq *wq, instant_ns now)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_acquire);
    if (now >= instant_after(t->known_since_ns, known_holds_ns)) {
        t->known = (struct mem_known){0};
        t->known_since_ns = now;
    }
    return &t->known;
}

struct oneshot_command *wq_oneshot_slot(struct wq *wq)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_acquire);
    if (t->taken == atomic_load_explicit(&t->freed, memory_order_acquire)) {
        return NULL;
    }
    return &t->commands[t->free_ring[t->taken % t->config.command_max]];
}

void wq_oneshot_commit(struct wq *wq, struct send_wqe *wqe)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    wqe->flags |= WQE_ADVERTISE;
    wqe->command = t->free_ring[t->taken % t->config.command_max];
    t->taken++;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static struct oneshot_command *command_of(struct wq *wq, const struct send_wqe *wqe)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    return &t->commands[wqe->command];
}

static void journal_command(struct wq *wq, const struct oneshot_command *command,
                            enum journal_kind kind)
{
    struct journal *journal = wq->config->journal;
    if (JOURNAL_IS_KEPT(journal)) {
        journal->put(journal, &(struct journal_record){.kind = kind,
                                                       .qp_num = wq->config->qp_num,
                                                       .key = command->stag,
                                                       .wr_id = command->reference,
                                                       .len = command->length});
    }
}

static void open_region(struct wq *wq, struct oneshot_command *command)
{
    const struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    const struct mem_oneshot region = {
        .list = &command->list,
        .offset = command->offset,
        .length = command->length,
        .access = command->access,
        .cookie = table_index(t, command),
    };
    mem_oneshot_open(wq->config->mem, command->stag, &region);
    command->is_open = true;
    wq->oneshot_open_count++;
    wq->counters->oneshot_advertised++;
    PROBE4(oneshot_advertised, wq->config->qp_num, command->stag, command->reference,
           command->length);
    TRACE(wq->config->trace, TRACE_QP, "qp %u advertises STag 0x%08x, reference %llu: %llu octets",
          wq->config->qp_num, command->stag, (unsigned long long)command->reference,
          (unsigned long long)command->length);
    journal_command(wq, command, JOURNAL_STAG_LENT);
}

static void oneshot_close(struct wq *wq, struct oneshot_command *command)
{
    mem_oneshot_close(wq->config->mem, command->stag, &command->stag);
    command->is_open = false;
    wq->oneshot_open_count--;
    give_back(atomic_load_explicit(&wq->oneshot, memory_order_relaxed), command);
}

void oneshot_close_by_peer(struct wq *wq, struct oneshot_command *command)
{
    PROBE4(oneshot_closed, wq->config->qp_num, command->stag, command->reference, command->length);
    TRACE(wq->config->trace, TRACE_QP, "qp %u: the peer closes STag 0x%08x, reference %llu",
          wq->config->qp_num, command->stag, (unsigned long long)command->reference);
    journal_command(wq, command, JOURNAL_STAG_CLOSED);
    oneshot_close(wq, command);
    wq->counters->oneshot_closed++;
}

const struct oneshot_command *oneshot_open(struct wq *wq, struct send_wqe *wqe)
{
    struct oneshot_command *command = command_of(wq, wqe);
    wqe->progress.has_opened = true;
    open_region(wq, command);
    return command;
}

enum mem_verdict oneshot_find(struct wq *wq, uint32_t stag, struct oneshot_command **ret)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    uint32_t index;
    enum mem_verdict verdict = mem_oneshot_find(wq->config->mem, asker_of(wq), stag, &index);
    if (verdict == MEM_OK) {
        *ret = &t->commands[index];
    }
    return verdict;
}

void oneshot_wqe_ended(struct wq *wq, const struct send_wqe *wqe, bool has_begun)
{
    if ((wqe->flags & WQE_ADVERTISE) != 0 && !(has_begun && wqe->progress.has_opened)) {
        give_back(atomic_load_explicit(&wq->oneshot, memory_order_relaxed), command_of(wq, wqe));
    }
}

void oneshot_detach_all(struct wq *wq)
{
    struct oneshot_table *t = atomic_load_explicit(&wq->oneshot, memory_order_relaxed);
    for (uint32_t i = 0; wq->oneshot_open_count > 0; i++) {
        CHECK(i < t->config.command_max);
        if (t->commands[i].is_open) {
            journal_command(wq, &t->commands[i], JOURNAL_STAG_TAKEN_BACK);
            oneshot_close(wq, &t->commands[i]);
            wq->counters->oneshot_detached++;
        }
    }
}

int wq_oneshot_revoke(struct wq *wq, uint32_t stag)
{
    CHECK(guard_is_held(&wq->config->guard));
    struct oneshot_command *command;
    if (oneshot_find(wq, stag, &command) != MEM_OK) {
        return -EINVAL;
    }
    TRACE(wq->config->trace, TRACE_QP, "qp %u revokes STag 0x%08x", wq->config->qp_num, stag);
    journal_command(wq, command, JOURNAL_STAG_TAKEN_BACK);
    oneshot_close(wq, command);
    wq->counters->oneshot_revoked++;
    return 0;
}
