#include "cli/top/round.h"

#include <errno.h>
#include <stdlib.h>

#include "base/poll_ms.h"
#include "cli/answer.h"
#include "clock/clock.h"
#include "control/find.h"

/* ---- whom ------------------------------------------------------------------------------------ */

static bool is_wanted(const struct top_round *round, pid_t pid)
{
    for (size_t i = 0; i < round->pid_count; i++) {
        if (round->pids[i] == pid) {
            return true;
        }
    }
    return round->pid_count == 0;
}

static int found_add(struct top_round *round, const struct process *processes, size_t count,
                     bool is_node)
{
    struct top_asked *larger =
        reallocarray(round->asked, round->count + count + 1, sizeof *round->asked);
    if (larger == NULL) {
        return -ENOMEM;
    }
    round->asked = larger;
    for (size_t i = 0; i < count; i++) {
        if (is_wanted(round, processes[i].pid)) {
            round->asked[round->count++] =
                (struct top_asked){.process = processes[i], .is_node = is_node};
        }
    }
    return 0;
}

static int find(struct top_round *round, enum process_kind kind)
{
    struct process *found;
    size_t count;
    int error = processes_find(kind, &found, &count);
    if (error == 0) {
        error = found_add(round, found, processes_keep_own(found, count), kind == PROCESS_NODE);
        free(found);
    }
    return error;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void tell(struct top_model *model, struct top_asked *asked)
{
    char *text;
    size_t len;
    int error = exchange_take(&asked->exchange, &text, &len);
    struct json_object *answers = error == 0 ? json_object_new_array() : NULL;
    if (error == 0) {
        error = answers != NULL ? answers_parse(text, len, answers) : -ENOMEM;
        free(text);
    }
    if (error == 0) {
        top_answer(model, asked->process.pid, asked->is_node, answers);
    } else {
        top_no_answer(model, asked->process.pid, asked->is_node, error);
    }
    json_object_put(answers);
    asked->is_told = true;
}

static void begin(struct top_asked *asked, instant_ns now)
{
    asked->is_begun = true;
    exchange_begin(&asked->exchange, &asked->process, asked->is_node ? "status\n" : "stat\n",
                   TOP_ANSWER_MAX_LEN, now, instant_after(now, TOP_ANSWER_NS));
}

static bool is_under_way(const struct top_asked *asked)
{
    return asked->is_begun && !asked->is_told;
}

// As many as may be asked at once; in the order in which they were found.
static void begin_some(struct top_round *round, instant_ns now)
{
    unsigned under_way = 0;
    for (size_t i = 0; i < round->count && under_way < TOP_ASKED_AT_ONCE; i++) {
        if (!round->asked[i].is_begun) {
            begin(&round->asked[i], now);
        }
        under_way += is_under_way(&round->asked[i]);
    }
}

int top_round_start(struct top_round *round, struct top_model *model, instant_ns now)
{
    round->asked = NULL;
    round->count = round->told_count = 0;
    int error = find(round, PROCESS_DEVICE);
    error = error == 0 ? find(round, PROCESS_NODE) : error;
    if (error != 0) {
        top_round_stop(round);
        return error;
    }
    top_round_begin(model, now);
    begin_some(round, now);
    return 0;
}

unsigned top_round_wants(const struct top_round *round, instant_ns now, struct pollfd *ret,
                         instant_ns *ret_until_ns)
{
    unsigned count = 0;
    *ret_until_ns = INSTANT_NEVER;
    for (size_t i = 0; round->asked != NULL && i < round->count; i++) {
        const struct top_asked *asked = &round->asked[i];
        if (!is_under_way(asked)) {
            continue;
        }
        const struct pollfd wanted = exchange_wants(&asked->exchange);
        const instant_ns until =
            wanted.fd < 0 ? instant_after(now, EXCHANGE_RETRY_NS) : asked->exchange.deadline_ns;
        *ret_until_ns = instant_min(*ret_until_ns, until);
        ret[count++] = wanted;
    }
    if (round->asked != NULL && count == 0) {
        *ret_until_ns = now; // the end of the round is to be told
    }
    return count;
}

bool top_round_step(struct top_round *round, struct top_model *model, instant_ns now)
{
    const size_t told_before = round->told_count;
    model->now = now;
    for (size_t i = 0; round->asked != NULL && i < round->count; i++) {
        struct top_asked *asked = &round->asked[i];
        if (is_under_way(asked)) {
            exchange_step(&asked->exchange, now);
            if (exchange_is_over(&asked->exchange)) {
                tell(model, asked);
                exchange_end(&asked->exchange);
                round->told_count++;
            }
        }
    }
    if (round->asked == NULL) {
        return false;
    }
    if (round->told_count < round->count) {
        begin_some(round, now);
        return round->told_count > told_before;
    }
    top_round_end(model);
    top_round_stop(round);
    return true;
}

void top_round_stop(struct top_round *round)
{
    for (size_t i = 0; i < round->count; i++) {
        if (is_under_way(&round->asked[i])) {
            exchange_end(&round->asked[i].exchange);
        }
    }
    free(round->asked);
    round->asked = NULL;
    round->count = round->told_count = 0;
}

int top_round_run(struct top_round *round, struct top_model *model)
{
    instant_ns now = clock_now();
    int error = top_round_start(round, model, now);
    while (error == 0 && !top_round_is_over(round)) {
        struct pollfd wanted[TOP_ASKED_AT_ONCE];
        instant_ns until_ns;
        const unsigned count = top_round_wants(round, now, wanted, &until_ns);
        poll(wanted, count, poll_ms(now, until_ns));
        now = clock_now();
        top_round_step(round, model, now);
    }
    return error;
}
