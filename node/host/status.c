#include "node/host/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/histogram.h"
#include "base/time.h"
#include "format/nvme_wire.h"
#include "node/cta/cta.h"
#include "node/discovery/announcer.h"
#include "node/discovery/sources.h"
#include "node/host/agent.h"
#include "node/host/events.h"
#include "node/host/pool.h"
#include "node/host/privileges.h"
#include "node/interface/request.h"
#include "node/interface/uma_tts.h"
#include "node/interface/volume.h"
#include "node/iscsi/iscsi.h"
#include "node/loop/loop.h"
#include "node/nvme/controller.h"
#include "node/uma/uma.h"
#include "text/show.h"

static void put_number(struct json_object *object, const char *key, uint64_t number)
{
    json_object_object_add(object, key, json_object_new_uint64(number));
}

static void put_text(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, json_object_new_string(text));
}

static struct json_object *counts(const struct histogram latency[NODE_OPERATION_COUNT])
{
    struct json_object *object = json_object_new_object();
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        put_number(object, node_operation_facts(i)->name, latency[i].count);
    }
    return object;
}

static struct json_object *by_operation(const uint64_t numbers[NODE_OPERATION_COUNT])
{
    struct json_object *object = json_object_new_object();
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        put_number(object, node_operation_facts(i)->name, numbers[i]);
    }
    return object;
}

static struct json_object *by_completion(const uint64_t numbers[NODE_COMPLETION_COUNT])
{
    struct json_object *object = json_object_new_object();
    for (unsigned i = 0; i < NODE_COMPLETION_COUNT; i++) {
        put_number(object, node_completion_name(i), numbers[i]);
    }
    return object;
}

// As `weft stat` has them (weft-stat(1)).
static struct json_object *histogram_object(const struct histogram *h)
{
    struct json_object *object = json_object_new_object();
    struct json_object *buckets = json_object_new_array();
    put_number(object, "count", h->count);
    put_number(object, "sum_ns", h->sum);
    for (unsigned i = 0; i < HISTOGRAM_SHOWN_COUNT; i++) {
        put_number(object, histogram_shown[i].name,
                   histogram_percentile(h, histogram_shown[i].permille));
    }
    put_number(object, "max_ns", h->max);
    for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
        if (h->buckets[i] > 0) {
            struct json_object *bucket = json_object_new_array_ext(2);
            json_object_array_add(bucket, json_object_new_uint64(histogram_bucket_most(h, i)));
            json_object_array_add(bucket, json_object_new_uint64(h->buckets[i]));
            json_object_array_add(buckets, bucket);
        }
    }
    json_object_object_add(object, "buckets", buckets);
    return object;
}

// By operation, of those that there were.
static struct json_object *latency_object(const struct histogram latency[NODE_OPERATION_COUNT])
{
    struct json_object *object = json_object_new_object();
    for (unsigned i = 0; i < NODE_OPERATION_COUNT; i++) {
        if (latency[i].count > 0) {
            json_object_object_add(object, node_operation_facts(i)->name,
                                   histogram_object(&latency[i]));
        }
    }
    return object;
}

static const struct cta_volume_counters *counters_of(const struct cta *cta, uint32_t volume)
{
    for (size_t i = 0; i < NODE_VOLUME_COUNT_MAX; i++) {
        const struct cta_volume_counters *counters = cta_volume_counters(cta, i);
        if (counters != NULL && counters->volume == volume) {
            return counters;
        }
    }
    return NULL;
}

// `uri`: at the first address of the first TTS; `uris`: at all of each.
static void put_uris(struct host *host, struct json_object *object, const struct resource *row)
{
    struct json_object *uris = json_object_new_array();
    char first[HOST_URI_MAX] = "", uri[HOST_URI_MAX];
    for (unsigned i = 0; i < host->tts_count; i++) {
        for (unsigned j = 0; host_uri(host, i, row, j, uri); j++) {
            json_object_array_add(uris, json_object_new_string(uri));
            if (*first == '\0') {
                snprintf(first, sizeof first, "%s", uri);
            }
        }
    }
    put_text(object, "uri", first);
    json_object_object_add(object, "uris", uris);
}

static void put_namespace(struct json_object *object, const struct resource *row)
{
    char nqn[NVME_NQN_MAX];
    nvme_subsystem_nqn(row, nqn);
    put_text(object, "nqn", nqn);
    put_number(object, "nsid", nvme_nsid(row));
}

static void put_logical_unit(struct json_object *object, const struct resource *row)
{
    char target[ISCSI_NAME_MAX];
    iscsi_name(row, target);
    put_text(object, "target", target);
    put_number(object, "lun", iscsi_lun(row));
}

// Of a volume that a source has.
static const char *source_of(const struct host *host, const struct resource *row)
{
    const struct volume_wish *wish = host_wish_find(&host->wanted, row->name);
    const char *uri = wish != NULL ? sources_uri(host->sources, wish->source) : NULL;
    return uri != NULL ? uri : "";
}

static struct json_object *sources_array(const struct host *host)
{
    struct json_object *sources = json_object_new_array();
    struct source_status status;
    unsigned number;
    for (size_t i = 0; (number = sources_at(host->sources, i, &status)) != 0; i++) {
        struct json_object *object = json_object_new_object();
        put_text(object, "uri", sources_uri(host->sources, number));
        put_text(object, "state", status.state);
        put_text(object, "why", status.why);
        put_number(object, "volumes", status.volumes);
        put_number(object, "left_out", status.left_out);
        put_number(object, "unasked", status.unasked);
        put_number(object, "own", status.own);
        put_number(object, "readings", status.readings);
        put_number(object, "failures", status.failures);
        json_object_array_add(sources, object);
    }
    return sources;
}

static struct json_object *mdns_object(const struct host *host)
{
    struct json_object *object = json_object_new_object();
    const char *text;
    bool is_announced = announcer_is_announced(host->announcer, &text);
    json_object_object_add(object, "announced", json_object_new_boolean(is_announced));
    put_text(object, is_announced ? "name" : "why", text);
    return object;
}

static struct json_object *volume_object(struct host *host, const struct resource *row)
{
    static const char *const states[] = {[RESOURCE_NOT_READY] = "not ready",
                                         [RESOURCE_READY] = "ready",
                                         [RESOURCE_FAILED] = "failed",
                                         [RESOURCE_STANDBY] = "standby"};
    struct json_object *object = json_object_new_object();
    const struct cta_volume_counters *counters = counters_of(host->cta, row->volume);
    struct uma_unit_status unit = {.name = ""};
    char uuid[UUID_STR_LEN];
    uuid_unparse_lower(row->identity.uuid, uuid);
    uint32_t number = uma_volume_unit(host->uma, row->volume);
    if (number < NODE_UNIT_COUNT_MAX) {
        uma_unit_status(host->uma, number, &unit);
    }
    put_text(object, "name", row->name);
    put_text(object, "state", states[row->state]);
    put_text(object, "why", uma_volume_why(host->uma, row->volume));
    put_text(object, "source", source_of(host, row));
    put_text(object, "rta", unit.name);
    put_text(object, "driver", row->profile.driver);
    put_text(object, "uuid", uuid);
    put_uris(host, object, row);
    put_namespace(object, row);
    put_logical_unit(object, row);
    put_number(object, "size", row->profile.size);
    put_number(object, "block_size", row->profile.block_size);
    json_object_object_add(object, "read_only",
                           json_object_new_boolean((row->abilities & VOLUME_CAN_WRITE) == 0));
    struct volume_rate rate = uma_volume_rate(host->uma, row->volume);
    put_number(object, "iops", rate.iops);
    put_number(object, "bps", rate.bps);
    put_number(object, "connections", counters != NULL ? counters->connections : 0);
    if (counters != NULL) {
        json_object_object_add(object, "operations", counts(counters->latency));
        json_object_object_add(object, "octets", by_operation(counters->octets));
        json_object_object_add(object, "completions", by_completion(counters->completions));
        put_number(object, "waits", counters->waits);
        put_number(object, "throttled", counters->throttled);
        put_number(object, "window_reads", counters->window_reads);
        json_object_object_add(object, "latency", latency_object(counters->latency));
    }
    return object;
}

static bool is_of_driver(const struct resource *row, const char *driver)
{
    return strcmp(row->profile.driver, driver) == 0;
}

// What all volumes of a driver took, by operation.
static struct json_object *driver_latency(const struct host *host, const char *driver)
{
    const struct resource_table *table = uma_resources(host->uma);
    struct histogram *sums = calloc(NODE_OPERATION_COUNT, sizeof *sums);
    if (sums == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct cta_volume_counters *counters = counters_of(host->cta, table->rows[i].volume);
        for (unsigned o = 0; counters != NULL && o < NODE_OPERATION_COUNT; o++) {
            if (is_of_driver(&table->rows[i], driver)) {
                histogram_merge(&sums[o], &counters->latency[o]);
            }
        }
    }
    struct json_object *object = latency_object(sums);
    free(sums);
    return object;
}

static struct json_object *drivers_object(const struct host *host)
{
    const struct resource_table *table = uma_resources(host->uma);
    struct json_object *drivers = json_object_new_object();
    for (size_t i = 0; i < table->count; i++) {
        const char *driver = table->rows[i].profile.driver;
        if (*driver != '\0' && !json_object_object_get_ex(drivers, driver, NULL)) {
            json_object_object_add(drivers, driver, driver_latency(host, driver));
        }
    }
    return drivers;
}

// An RTA in the host's own process has what that has.
static struct json_object *confinement_object(pid_t pid, uint64_t landlock)
{
    struct json_object *object = json_object_new_object();
    struct privileges found = privileges_of(pid > 0 ? pid : getpid());
    char capabilities[24];
    snprintf(capabilities, sizeof capabilities, "%016" PRIx64, found.capabilities);
    put_text(object, "kind", privileges_word(&found));
    json_object_object_add(object, "no_new_privileges",
                           json_object_new_boolean(found.has_no_new_privs));
    put_text(object, "capabilities", capabilities);
    put_number(object, "filters", found.filters);
    put_number(object, "landlock", landlock);
    return object;
}

static struct json_object *unit_object(struct host *host, uint32_t number,
                                       const struct uma_unit_status *status)
{
    struct json_object *object = json_object_new_object();
    struct cta_unit_counters cta = {0};
    const struct unit_counters *rta = &status->counters;
    cta_unit_counters(host->cta, number, &cta);
    put_text(object, "name", status->name);
    put_text(object, "state", status->state);
    put_number(object, "pid", (uint64_t)host->units[number].pid);
    put_number(object, "since_ms", (loop_now(host->loop) - status->since_ns) / NS_PER_MS);
    put_number(object, "restarts", status->restarts);
    put_number(object, "failures", status->failures);
    put_text(object, "why", status->why);
    json_object_object_add(object, "confinement",
                           confinement_object(host->units[number].pid, status->counters.landlock));
    put_number(object, "requests", cta.requests);
    put_number(object, "results", cta.results);
    put_number(object, "in_flight", cta.in_flight);
    put_number(object, "waiting", cta.waiting);
    put_number(object, "replays", cta.replays);
    put_number(object, "retransmissions", cta.retransmissions + rta->retransmissions);
    put_number(object, "duplicates", cta.duplicates + rta->duplicates);
    put_number(object, "violations", cta.violations);
    put_number(object, "lent", cta.lent_len);
    put_number(object, "memory", pool_part_memory(&host->pool, number));
    put_number(object, "refusals", rta->refusals);
    put_number(object, "resubmissions", rta->resubmissions);
    put_number(object, "buffers_held", rta->buffers_held);
    put_number(object, "octets_held", rta->octets_held);
    put_number(object, "turns", rta->turns);
    return object;
}

// Another's words: whatever octets they are, JSON is UTF-8.
static void put_client_text(struct json_object *object, const char *key, const char *text)
{
    char shown[CLIENT_IDENTITY_MAX];
    snprintf(shown, sizeof shown, "%s", text);
    for (char *c = shown; *c != '\0'; c++) {
        *c = text_ascii_char(*c);
    }
    put_text(object, key, shown);
}

static struct json_object *client_object(const struct host *host,
                                         const struct cta_connection_counters *c)
{
    struct json_object *object = json_object_new_object();
    const struct resource *row = resource_by_volume(uma_resources(host->uma), c->volume);
    put_number(object, "connection", c->connection);
    put_client_text(object, "address", c->client->address);
    put_client_text(object, "identity", c->client->identity);
    put_text(object, "volume", row != NULL ? row->name : "");
    put_number(object, "requests", c->requests);
    put_number(object, "failed", c->failed);
    put_number(object, "octets_in", c->octets_in);
    put_number(object, "octets_out", c->octets_out);
    put_number(object, "in_flight", c->in_flight);
    return object;
}

// Of a crowd the first CLIENTS_MAX: `connections` says how many there are.
static struct json_object *clients_array(const struct host *host)
{
    enum { CLIENTS_MAX = 1024 };
    struct json_object *clients = json_object_new_array();
    struct cta_connection_counters counters;
    for (size_t i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        if (json_object_array_length(clients) < CLIENTS_MAX &&
            cta_connection_counters(host->cta, i, &counters)) {
            json_object_array_add(clients, client_object(host, &counters));
        }
    }
    return clients;
}

static void put_figure(void *object, const char *name, enum tts_figure_kind kind, uint64_t value)
{
    (void)kind;
    put_number(object, name, value);
}

// An object for each TTS: "nvme_tcp" of the TTS "nvme-tcp".
static void put_ttss(struct json_object *object, const struct host *host)
{
    const char *name;
    for (size_t i = 0; (name = uma_tts_name(host->uma, i)) != NULL; i++) {
        struct json_object *figures = json_object_new_object();
        char key[TTS_NAME_MAX];
        snprintf(key, sizeof key, "%s", name);
        for (char *c = key; *c != '\0'; c++) {
            *c = *c == '-' ? '_' : *c;
        }
        uma_tts_figures(host->uma, i, put_figure, figures);
        json_object_object_add(object, key, figures);
    }
}

// The latest first.
static struct json_object *events_array(const struct host *host)
{
    struct json_object *events = json_object_new_array();
    const struct host_event *event;
    for (unsigned i = 0; (event = host_event_back(&host->events, i)) != NULL; i++) {
        struct json_object *object = json_object_new_object();
        struct tm parts;
        char when[32];
        gmtime_r(&event->at, &parts);
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
        put_text(object, "time", when);
        put_text(object, "text", event->text);
        json_object_array_add(events, object);
    }
    return events;
}

struct json_object *status_object(struct host *host)
{
    const struct resource_table *table = uma_resources(host->uma);
    struct json_object *object = json_object_new_object();
    struct json_object *volumes = json_object_new_array();
    struct json_object *units = json_object_new_array();
    for (size_t i = 0; i < table->count; i++) {
        json_object_array_add(volumes, volume_object(host, &table->rows[i]));
    }
    for (uint32_t i = 0; i < NODE_UNIT_COUNT_MAX; i++) {
        struct uma_unit_status status;
        if (uma_unit_status(host->uma, i, &status)) {
            json_object_array_add(units, unit_object(host, i, &status));
        }
    }
    put_number(object, "pid", (uint64_t)getpid());
    put_number(object, "generation", table->generation);
    put_number(object, "connections", uma_connection_count(host->uma));
    put_number(object, "pool", host->pool.len);
    put_number(object, "pool_taken", cta_pool_taken_len(host->cta));
    json_object_object_add(object, "volumes", volumes);
    json_object_object_add(object, "sources", sources_array(host));
    if (host->announcer != NULL) {
        json_object_object_add(object, "mdns", mdns_object(host));
    }
    json_object_object_add(object, "latency_by_driver", drivers_object(host));
    json_object_object_add(object, "rtas", units);
    json_object_object_add(object, "clients", clients_array(host));
    json_object_object_add(object, "events", events_array(host));
    put_ttss(object, host);
    return object;
}
