#include "node/host/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/histogram.h"
#include "http/exposition.h"
#include "node/cta/cta.h"
#include "node/host/agent.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/uma/uma.h"

enum { METRIC_LABELS_MAX = 256 };

// The name of a volume, by number; gone ones keep their number only.
static const char *volume_name(const struct host *host, uint32_t volume, char spare[16])
{
    const struct resource *row = resource_by_volume(uma_resources(host->uma), volume);
    snprintf(spare, 16, "#%" PRIu32, volume);
    return row != NULL ? row->name : spare;
}

static const char *driver_of(const struct host *host, uint32_t volume)
{
    const struct resource *row = resource_by_volume(uma_resources(host->uma), volume);
    return row != NULL ? row->profile.driver : "";
}

typedef void volume_print(FILE *out, const char *name, const struct cta_volume_counters *counters);

static void each_volume(FILE *out, const struct host *host, volume_print *print)
{
    char spare[16];
    for (size_t i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        const struct cta_volume_counters *counters = cta_volume_counters(host->cta, i);
        if (counters != NULL) {
            print(out, volume_name(host, counters->volume, spare), counters);
        }
    }
}

static void print_operations(FILE *out, const char *name, const struct cta_volume_counters *c)
{
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        fprintf(out, "weft_volume_operations_total{volume=\"%s\",operation=\"%s\"} %" PRIu64 "\n",
                name, node_operation_facts(i)->name, c->latency[i].count);
    }
}

static void print_octets(FILE *out, const char *name, const struct cta_volume_counters *c)
{
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        fprintf(out, "weft_volume_octets_total{volume=\"%s\",operation=\"%s\"} %" PRIu64 "\n", name,
                node_operation_facts(i)->name, c->octets[i]);
    }
}

static void print_completions(FILE *out, const char *name, const struct cta_volume_counters *c)
{
    for (unsigned i = 0; i < NODE_COMPLETION_COUNT; i++) {
        fprintf(out, "weft_volume_completions_total{volume=\"%s\",completion=\"%s\"} %" PRIu64 "\n",
                name, node_completion_name(i), c->completions[i]);
    }
}

static void print_window_reads(FILE *out, const char *name, const struct cta_volume_counters *c)
{
    fprintf(out, "weft_volume_window_reads_total{volume=\"%s\"} %" PRIu64 "\n", name,
            c->window_reads);
}

static void print_throttled(FILE *out, const char *name, const struct cta_volume_counters *c)
{
    fprintf(out, "weft_volume_throttled_total{volume=\"%s\"} %" PRIu64 "\n", name, c->throttled);
}

// Of operations that there were: a volume that is only read has no row for the others.
static void print_latency(FILE *out, const struct host *host)
{
    char spare[16], labels[METRIC_LABELS_MAX];
    exposition_family(out, "volume_latency_seconds", "histogram", "from request to answer");
    for (size_t i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        const struct cta_volume_counters *counters = cta_volume_counters(host->cta, i);
        for (unsigned o = 0; counters != NULL && o < NODE_OPERATION_COUNT; o++) {
            if (counters->latency[o].count > 0) {
                snprintf(labels, sizeof labels, "volume=\"%s\",driver=\"%s\",operation=\"%s\"",
                         volume_name(host, counters->volume, spare),
                         driver_of(host, counters->volume), node_operation_facts(o)->name);
                exposition_histogram(out, "volume_latency_seconds", labels, &counters->latency[o]);
            }
        }
    }
}

static void print_connections(FILE *out, const char *name, const struct cta_volume_counters *c)
{
    fprintf(out, "weft_volume_connections{volume=\"%s\"} %" PRIu32 "\n", name, c->connections);
}

static void print_rta(FILE *out, const struct host *host)
{
    static const char *const help[][3] = {
        {"rta_up", "gauge", "1: the RTA serves"},
        {"rta_restarts_total", "counter", "processes that were started after another one"},
        {"rta_in_flight", "gauge", "requests now at the RTA"},
        {"rta_replays_total", "counter", "requests given to a successor"},
        {"rta_retransmissions_total", "counter", "frames sent again"},
    };
    for (unsigned f = 0; f < sizeof help / sizeof help[0]; f++) {
        exposition_family(out, help[f][0], help[f][1], help[f][2]);
        for (uint32_t i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
            struct uma_unit_status status;
            struct cta_unit_counters cta = {0};
            if (!uma_unit_status(host->uma, i, &status)) {
                continue;
            }
            cta_unit_counters(host->cta, i, &cta);
            const uint64_t values[] = {strcmp(status.state, "ready") == 0, status.restarts,
                                       cta.in_flight, cta.replays, cta.retransmissions};
            fprintf(out, "weft_%s{rta=\"%s\"} %" PRIu64 "\n", help[f][0], status.name, values[f]);
        }
    }
}

struct figures_of {
    FILE *out;
    const char *tts;
    enum tts_figure_kind kind;
};

static void print_figure(void *ctx, const char *name, enum tts_figure_kind kind, uint64_t value)
{
    const struct figures_of *f = ctx;
    if (kind == f->kind) {
        fprintf(f->out, "weft_tts_%s{tts=\"%s\",figure=\"%s\"} %" PRIu64 "\n",
                kind == TTS_COUNTER ? "total" : "now", f->tts, name, value);
    }
}

static void print_ttss(FILE *out, const struct host *host, enum tts_figure_kind kind)
{
    struct figures_of f = {.out = out, .kind = kind};
    for (size_t i = 0; (f.tts = uma_tts_name(host->uma, i)) != NULL; i++) {
        uma_tts_figures(host->uma, i, print_figure, &f);
    }
}

void metrics_write(const struct host *host, FILE *out)
{
    exposition_family(out, "volume_operations_total", "counter", "requests answered");
    each_volume(out, host, print_operations);
    exposition_family(out, "volume_octets_total", "counter", "octets of requests that went well");
    each_volume(out, host, print_octets);
    exposition_family(out, "volume_completions_total", "counter", "requests by how they ended");
    each_volume(out, host, print_completions);
    exposition_family(out, "volume_window_reads_total", "counter",
                      "reads of the page cache, without the RTA");
    each_volume(out, host, print_window_reads);
    exposition_family(out, "volume_throttled_total", "counter",
                      "requests that waited for the volume's rate");
    each_volume(out, host, print_throttled);
    print_latency(out, host);
    exposition_family(out, "volume_connections", "gauge", "clients connected");
    each_volume(out, host, print_connections);
    exposition_family(out, "tts_total", "counter", "what a target transport service counts");
    print_ttss(out, host, TTS_COUNTER);
    exposition_family(out, "tts_now", "gauge", "what a target transport service has now");
    print_ttss(out, host, TTS_GAUGE);
    print_rta(out, host);
    exposition_family(out, "pool_octets", "gauge", "the pool: what may be lent at a time");
    fprintf(out, "weft_pool_octets %" PRIu64 "\n", host->pool.len);
    exposition_family(out, "pool_taken_octets", "gauge", "of it, in use");
    fprintf(out, "weft_pool_taken_octets %" PRIu64 "\n", cta_pool_taken_len(host->cta));
}
