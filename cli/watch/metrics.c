#include "cli/watch/metrics.h"

#include <inttypes.h>

#include "http/exposition.h"

enum { LABELS_LEN_MAX = 256 };

static uint64_t up_of(const struct top_subject *s)
{
    return s->status == TOP_ANSWERS;
}

static uint64_t connections_of(const struct top_subject *s)
{
    return s->connections;
}

static uint64_t work_of(const struct top_subject *s)
{
    return s->totals.work;
}

static uint64_t failures_of(const struct top_subject *s)
{
    return s->totals.errors;
}

static uint64_t octets_in_of(const struct top_subject *s)
{
    return s->totals.octets_in;
}

static uint64_t octets_out_of(const struct top_subject *s)
{
    return s->totals.octets_out;
}

static const struct process_family {
    const char *name, *type, *help;
    uint64_t (*value)(const struct top_subject *s);
} families[] = {
    {"process_up", "gauge", "1: the process answers", up_of},
    {"process_connections", "gauge", "queue pairs; of a storage node clients", connections_of},
    {"process_work_total", "counter",
     "work requests completed; of a storage node requests answered", work_of},
    {"process_failures_total", "counter", "of them, what failed", failures_of},
    {"process_octets_in_total", "counter", "octets that came from peers or clients", octets_in_of},
    {"process_octets_out_total", "counter", "octets that went to peers or clients", octets_out_of},
};

static const char *labels_of(const struct top_subject *s, char ret[LABELS_LEN_MAX])
{
    char program[2 * TOP_TEXT_LEN];
    snprintf(ret, LABELS_LEN_MAX, "pid=\"%d\",kind=\"%s\",program=\"%s\"", (int)s->pid,
             s->is_node ? "node" : "program", exposition_label(s->name, program, sizeof program));
    return ret;
}

// A process that is gone has ended its time series.
static bool is_told(const struct top_subject *s)
{
    return s->kind == TOP_PROCESS && s->status != TOP_GONE;
}

static void latencies_write(const struct top_subject *s, FILE *out)
{
    struct top_operations operations;
    char of_process[LABELS_LEN_MAX], labels[2 * LABELS_LEN_MAX];
    labels_of(s, of_process);
    top_operations(s, &operations);
    for (size_t i = 0; i < operations.count; i++) {
        const struct top_operation *operation = &operations.of[i];
        snprintf(labels, sizeof labels, "%s,operation=\"%s\"", of_process, operation->name);
        exposition_histogram(out, "process_latency_seconds", labels, &operation->latency);
    }
}

void watch_metrics_write(const struct top_model *model, FILE *out)
{
    char labels[LABELS_LEN_MAX];
    for (unsigned f = 0; f < sizeof families / sizeof families[0]; f++) {
        exposition_family(out, families[f].name, families[f].type, families[f].help);
        for (size_t i = 0; i < model->count; i++) {
            const struct top_subject *s = model->subjects[i];
            if (is_told(s)) {
                fprintf(out, "weft_%s{%s} %" PRIu64 "\n", families[f].name, labels_of(s, labels),
                        families[f].value(s));
            }
        }
    }
    exposition_family(out, "process_latency_seconds", "histogram",
                      "from post to completion, of a sample; of a storage node from request to "
                      "answer");
    for (size_t i = 0; i < model->count; i++) {
        if (is_told(model->subjects[i])) {
            latencies_write(model->subjects[i], out);
        }
    }
}
