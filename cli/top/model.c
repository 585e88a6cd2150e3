#include "cli/top/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_names[] = {
    [TOP_ANSWERS] = "ok",        [TOP_SILENT] = "no answer", [TOP_REFUSES] = "refused",
    [TOP_NONSENSE] = "nonsense", [TOP_GONE] = "gone",
};

const char *top_status_name(enum top_status status)
{
    return status_names[status];
}

/* ---- subjects -------------------------------------------------------------------------------- */

void top_model_init(struct top_model *model)
{
    *model = (struct top_model){0};
}

static void subject_free(struct top_subject *subject)
{
    json_object_put(subject->answer);
    free(subject->latency);
    free(subject->latest);
    free(subject);
}

void top_model_fini(struct top_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        subject_free(model->subjects[i]);
    }
    free(model->subjects);
    *model = (struct top_model){0};
}

struct top_subject *top_find(const struct top_model *model, enum top_kind kind, pid_t pid,
                             bool is_node, const char *id)
{
    for (size_t i = 0; i < model->count; i++) {
        struct top_subject *s = model->subjects[i];
        if (s->pid == pid && s->kind == kind && s->is_node == is_node && strcmp(s->id, id) == 0) {
            return s;
        }
    }
    return NULL;
}

static struct top_subject *subject_new(struct top_model *model)
{
    if (model->subjects == NULL) {
        model->subjects = calloc(TOP_SUBJECT_MAX, sizeof(struct top_subject *));
    }
    struct top_subject *subject = NULL;
    if (model->subjects != NULL && model->count < TOP_SUBJECT_MAX) {
        subject = calloc(1, sizeof *subject);
    }
    if (subject == NULL) {
        model->left_out++;
        return NULL;
    }
    return model->subjects[model->count++] = subject;
}

struct top_subject *top_touch(struct top_model *model, enum top_kind kind, pid_t pid, bool is_node,
                              const char *id)
{
    char own[TOP_TEXT_LEN];
    snprintf(own, sizeof own, "%s", id);
    struct top_subject *subject = top_find(model, kind, pid, is_node, own);
    if (subject == NULL) {
        subject = subject_new(model);
        if (subject == NULL) {
            return NULL;
        }
        subject->kind = kind;
        subject->pid = pid;
        subject->is_node = is_node;
        subject->since_ns = model->now;
        memcpy(subject->id, own, sizeof own);
    }
    subject->is_seen = true;
    subject->status = TOP_ANSWERS;
    return subject;
}

/* ---- rates ----------------------------------------------------------------------------------- */

// What was counted per second; nothing where a count fell: it began anew.
static uint64_t rate_of(uint64_t before, uint64_t now, duration_ns elapsed_ns)
{
    const double grown = now > before ? (double)(now - before) : 0;
    return (uint64_t)(grown * (double)NS_PER_S / (double)elapsed_ns + 0.5);
}

// Once for each second that has passed, so that a minute is a minute at any interval.
static void history_push(struct top_subject *s, uint64_t value, duration_ns elapsed_ns)
{
    uint64_t seconds = (elapsed_ns + NS_PER_S / 2) / NS_PER_S;
    seconds = seconds < 1 ? 1 : seconds < TOP_HISTORY_LEN ? seconds : TOP_HISTORY_LEN;
    memmove(s->history, s->history + seconds,
            (TOP_HISTORY_LEN - (size_t)seconds) * sizeof s->history[0]);
    for (size_t i = TOP_HISTORY_LEN - (size_t)seconds; i < TOP_HISTORY_LEN; i++) {
        s->history[i] = value;
    }
}

static void rates_note(struct top_subject *s, const struct top_totals *totals, instant_ns now)
{
    const duration_ns elapsed_ns = now - s->told_at_ns;
    if (s->told_at_ns != 0 && elapsed_ns > 0) {
        const struct top_totals *before = &s->totals;
        s->rates = (struct top_rates){
            .work = rate_of(before->work, totals->work, elapsed_ns),
            .octets_in = rate_of(before->octets_in, totals->octets_in, elapsed_ns),
            .octets_out = rate_of(before->octets_out, totals->octets_out, elapsed_ns),
            .errors = rate_of(before->errors, totals->errors, elapsed_ns),
        };
        s->has_rates = true;
        history_push(s, s->rates.octets_in + s->rates.octets_out, elapsed_ns);
    }
    s->totals = *totals;
    s->told_at_ns = now;
}

/* ---- latencies ------------------------------------------------------------------------------- */

// What came since `before`. Its maximum is that of the last bucket in which something came.
static void difference(const struct histogram *before, const struct histogram *now,
                       struct histogram *ret)
{
    memset(ret, 0, sizeof *ret);
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        if (now->buckets[i] > before->buckets[i]) {
            ret->buckets[i] = now->buckets[i] - before->buckets[i];
            ret->count += ret->buckets[i];
            ret->max = histogram_bucket_most(now, i);
        }
    }
    ret->sum = now->sum > before->sum ? now->sum - before->sum : 0;
}

static void latency_note(struct top_subject *s, const struct histogram *latency)
{
    if (s->latency == NULL) {
        s->latency = calloc(1, sizeof *s->latency);
        s->latest = calloc(1, sizeof *s->latest);
    }
    if (s->latency == NULL || s->latest == NULL) {
        return;
    }
    if (latency->count < s->latency->count) { // it began anew
        memset(s->latency, 0, sizeof *s->latency);
    }
    difference(s->latency, latency, s->latest);
    *s->latency = *latency;
}

void top_note(const struct top_model *model, struct top_subject *subject,
              const struct top_totals *totals, const struct histogram *latency)
{
    rates_note(subject, totals, model->now);
    if (latency != NULL) {
        latency_note(subject, latency);
    }
}

const struct histogram *top_latency(const struct top_subject *subject)
{
    if (subject->latest != NULL && subject->latest->count > 0) {
        return subject->latest;
    }
    return subject->latency != NULL && subject->latency->count > 0 ? subject->latency : NULL;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

void top_round_begin(struct top_model *model, instant_ns now)
{
    model->now = now;
    model->left_out = 0;
    for (size_t i = 0; i < model->count; i++) {
        model->subjects[i]->is_seen = false;
    }
}

// Who does not answer does nothing that we know of. What it told of is left as it was.
static void set_aside(struct top_model *model, struct top_subject *s, enum top_status status)
{
    s->status = status;
    s->is_seen = true;
    s->has_rates = false;
    s->rates = (struct top_rates){0};
    for (size_t i = 0; i < model->count; i++) {
        struct top_subject *part = model->subjects[i];
        if (part != s && part->pid == s->pid && part->is_node == s->is_node) {
            part->status = status;
            part->is_seen = status != TOP_GONE;
            part->has_rates = false;
            part->rates = (struct top_rates){0};
        }
    }
}

void top_no_answer(struct top_model *model, pid_t pid, bool is_node, int error)
{
    enum top_status status = error == -ETIMEDOUT                          ? TOP_SILENT
                             : error == -EACCES                           ? TOP_REFUSES
                             : error == -ECONNREFUSED || error == -ENOENT ? TOP_GONE
                                                                          : TOP_NONSENSE;
    struct top_subject *s = top_find(model, TOP_PROCESS, pid, is_node, "");
    if (status == TOP_GONE && s == NULL) {
        return; // nobody has seen it
    }
    if (status == TOP_GONE) {
        s->is_seen = false;
        return;
    }
    s = s != NULL ? s : top_touch(model, TOP_PROCESS, pid, is_node, "");
    if (s != NULL) {
        set_aside(model, s, status);
    }
}

static bool is_over(const struct top_model *model, const struct top_subject *s)
{
    if (s->is_seen) {
        return false;
    }
    return s->kind != TOP_PROCESS || model->now - s->gone_at_ns > TOP_GONE_SECONDS * NS_PER_S;
}

void top_round_end(struct top_model *model)
{
    for (size_t i = 0; i < model->count; i++) {
        struct top_subject *s = model->subjects[i];
        if (!s->is_seen && s->kind == TOP_PROCESS && s->status != TOP_GONE) {
            s->gone_at_ns = model->now;
            set_aside(model, s, TOP_GONE);
            s->is_seen = false;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < model->count; i++) {
        struct top_subject *s = model->subjects[i];
        if (is_over(model, s)) {
            subject_free(s);
        } else {
            model->subjects[kept++] = s;
        }
    }
    model->count = kept;
}
