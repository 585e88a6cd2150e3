#include "node/host/metrics.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/histogram.h"
#include "base/time.h"
#include "node/cta/cta.h"
#include "node/host/agent.h"
#include "node/interface/request.h"
#include "node/interface/volume.h"
#include "node/loop/loop.h"
#include "node/stream/address.h"
#include "node/uma/uma.h"

enum { CONNECTION_MAX = 16, CONNECTION_SECONDS = 10, METRIC_LABELS_MAX = 256 };

struct host_metrics {
    struct host *host;
    struct MHD_Daemon *daemon;
    struct loop_watch *watch;
    struct loop_member member;
};

/* ---- the text -------------------------------------------------------------------------------- */

static void family(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP weft_%s %s\n# TYPE weft_%s %s\n", name, help, name, type);
}

// The name of a volume, by number; gone ones keep their number only.
static const char *volume_name(const struct host *host, uint32_t volume, char spare[16])
{
    const struct resource *row = resource_by_volume(uma_resources(host->uma), volume);
    snprintf(spare, 16, "#%" PRIu32, volume);
    return row != NULL ? row->name : spare;
}

static const char *volume_driver(const struct host *host, uint32_t volume)
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
                name, node_operation_facts(i)->name, c->operations[i]);
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

// One of the format's histograms: how many took so long at most, the sum, and how many there were.
// The bounds are the last nanosecond before each power of two, which ours tell exactly.
static void print_histogram(FILE *out, const char *name, const char *labels,
                            const struct histogram *h)
{
    enum { BOUND_FIRST_LOG2 = 10, BOUND_LAST_LOG2 = 35 }; // a microsecond, half a minute
    for (unsigned n = BOUND_FIRST_LOG2; n <= BOUND_LAST_LOG2; n++) {
        const uint64_t bound = (UINT64_C(1) << n) - 1;
        fprintf(out, "weft_%s_bucket{%s,le=\"%" PRIu64 ".%09" PRIu64 "\"} %" PRIu64 "\n", name,
                labels, bound / NS_PER_S, bound % NS_PER_S, histogram_count_to(h, bound));
    }
    fprintf(out, "weft_%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, h->count);
    fprintf(out, "weft_%s_sum{%s} %" PRIu64 ".%09" PRIu64 "\n", name, labels, h->sum / NS_PER_S,
            h->sum % NS_PER_S);
    fprintf(out, "weft_%s_count{%s} %" PRIu64 "\n", name, labels, h->count);
}

// Of operations that there were: a volume that is only read has no row for the others.
static void print_latency(FILE *out, const struct host *host)
{
    char spare[16], labels[METRIC_LABELS_MAX];
    family(out, "volume_latency_seconds", "histogram", "from request to answer");
    for (size_t i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        const struct cta_volume_counters *counters = cta_volume_counters(host->cta, i);
        for (unsigned o = 0; counters != NULL && o < NODE_OPERATION_COUNT; o++) {
            if (counters->latency[o].count > 0) {
                snprintf(labels, sizeof labels, "volume=\"%s\",driver=\"%s\",operation=\"%s\"",
                         volume_name(host, counters->volume, spare),
                         volume_driver(host, counters->volume), node_operation_facts(o)->name);
                print_histogram(out, "volume_latency_seconds", labels, &counters->latency[o]);
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
        family(out, help[f][0], help[f][1], help[f][2]);
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

static void print_all(FILE *out, const struct host *host)
{
    family(out, "volume_operations_total", "counter", "requests answered");
    each_volume(out, host, print_operations);
    family(out, "volume_octets_total", "counter", "octets of requests that went well");
    each_volume(out, host, print_octets);
    family(out, "volume_completions_total", "counter", "requests by how they ended");
    each_volume(out, host, print_completions);
    print_latency(out, host);
    family(out, "volume_connections", "gauge", "clients connected");
    each_volume(out, host, print_connections);
    print_rta(out, host);
    family(out, "pool_octets", "gauge", "the shared pool");
    fprintf(out, "weft_pool_octets %" PRIu64 "\n", host->pool.len);
    family(out, "pool_taken_octets", "gauge", "of it, in use");
    fprintf(out, "weft_pool_taken_octets %" PRIu64 "\n", cta_pool_taken_len(host->cta));
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
                               char *text, size_t len)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **state)
{
    struct host_metrics *metrics = ctx;
    bool is_known = strcmp(url, "/metrics") == 0 && strcmp(method, MHD_HTTP_METHOD_GET) == 0;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return MHD_NO;
    }
    if (is_known) {
        print_all(out, metrics->host);
    } else {
        fputs("weft: GET /metrics\n", out);
    }
    fclose(out);
    return respond(connection, is_known ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND,
                   is_known ? "text/plain; version=0.0.4" : "text/plain", text, len);
}

static void run(void *ctx, uint32_t events)
{
    MHD_run(((struct host_metrics *)ctx)->daemon);
}

static instant_ns next_deadline(void *ctx)
{
    struct host_metrics *metrics = ctx;
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(metrics->daemon, &ms) != MHD_YES) {
        return INSTANT_NEVER;
    }
    return instant_after(loop_now(metrics->host->loop), ms * NS_PER_MS);
}

static void on_deadline(void *ctx, instant_ns now)
{
    run(ctx, 0);
}

struct host_metrics *metrics_create(struct host *host, const char *listen, struct why *ret_why)
{
    char path[2];
    int fd = address_listen(listen, path, sizeof path, ret_why);
    struct host_metrics *metrics = fd >= 0 ? calloc(1, sizeof *metrics) : NULL;
    if (metrics == NULL) {
        if (fd >= 0) {
            why_say(ret_why, "no memory");
            close(fd);
        }
        return NULL;
    }
    metrics->host = host;
    metrics->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, metrics,
                                       MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                       (unsigned)CONNECTION_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                                       (unsigned)CONNECTION_SECONDS, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        metrics->daemon != NULL ? MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                                : NULL;
    if (info == NULL) {
        why_say(ret_why, "%s: libmicrohttpd does not start", listen);
        close(fd);
        free(metrics);
        return NULL;
    }
    metrics->watch = loop_watch(host->loop, info->epoll_fd, EPOLLIN, run, metrics);
    metrics->member = (struct loop_member){
        .ctx = metrics, .next_deadline = next_deadline, .on_deadline = on_deadline};
    loop_join(host->loop, &metrics->member);
    return metrics;
}

void metrics_destroy(struct host_metrics *metrics)
{
    if (metrics != NULL) {
        loop_leave(metrics->host->loop, &metrics->member);
        loop_unwatch(metrics->watch);
        MHD_stop_daemon(metrics->daemon);
        free(metrics);
    }
}
