// Answers taken apart: what processes, connections, volumes and RTAs have counted by now. Anybody
// may have written them, so nothing is taken for granted: what has another type is not there.

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/device_wire.h"
#include "base/histogram.h"
#include "cli/answer.h"
#include "cli/top/model.h"

// Of one process so many connections, volumes and RTAs are shown, and looked for among so many: who
// tells of a million keeps nobody waiting.
enum { PARTS_MAX = 1024, LOOKED_AT_MAX = 4 * PARTS_MAX };

static const char *const devices[] = {DEVICE_NAME_IWARP, DEVICE_NAME_ROCE};

// As it came: the answer is passed on to others, and who draws tames what is drawn. answer_text
// would change it.
static const char *text_of(struct json_object *object, const char *name)
{
    struct json_object *found = answer_member(object, name, json_type_string);
    return found != NULL ? json_object_get_string(found) : "";
}

static void text_set(char ret[TOP_TEXT_LEN], const char *text)
{
    snprintf(ret, TOP_TEXT_LEN, "%s", text);
}

// The elements of an array that are objects, one after the other; NULL behind the last.
struct elements {
    struct json_object *array;
    size_t next;
};

static struct elements elements_of(struct json_object *object, const char *name)
{
    return (struct elements){.array = answer_member(object, name, json_type_array)};
}

static struct json_object *elements_next(struct elements *e)
{
    while (e->array != NULL && e->next < json_object_array_length(e->array)) {
        struct json_object *found = json_object_array_get_idx(e->array, e->next++);
        if (json_object_is_type(found, json_type_object)) {
            return found;
        }
    }
    return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void totals_add(struct top_totals *total, const struct top_totals *more)
{
    total->work += more->work;
    total->octets_in += more->octets_in;
    total->octets_out += more->octets_out;
    total->errors += more->errors;
}

static bool has_ends(const char *name, const char *first, const char *last)
{
    const size_t len = strlen(name), first_len = strlen(first), last_len = strlen(last);
    return len >= first_len + last_len && strncmp(name, first, first_len) == 0 &&
           strcmp(name + len - last_len, last) == 0;
}

// What a queue pair of any transport has counted, or several together. A stream counts octets by
// operation, in.send.octets, packets all in one, octets_in.
static struct top_totals of_counters(struct json_object *counters)
{
    struct top_totals totals = {
        .work = answer_number(counters, "send_completions") +
                answer_number(counters, "recv_completions"),
        .errors = answer_number(counters, "send_errors") + answer_number(counters, "recv_errors"),
    };
    if (!json_object_is_type(counters, json_type_object)) {
        return totals;
    }
    json_object_object_foreach(counters, name, value)
    {
        const uint64_t number =
            json_object_is_type(value, json_type_int) ? json_object_get_uint64(value) : 0;
        if (has_ends(name, "in.", ".octets") || strcmp(name, "octets_in") == 0) {
            totals.octets_in += number;
        } else if (has_ends(name, "out.", ".octets") || strcmp(name, "octets_out") == 0) {
            totals.octets_out += number;
        }
    }
    return totals;
}

static void bucket_add(struct histogram *h, struct json_object *bucket)
{
    if (!json_object_is_type(bucket, json_type_array) || json_object_array_length(bucket) != 2) {
        return;
    }
    const uint64_t last = json_object_get_uint64(json_object_array_get_idx(bucket, 0));
    const uint64_t count = json_object_get_uint64(json_object_array_get_idx(bucket, 1));
    h->buckets[histogram_bucket_of(last)] += count;
    h->count += count;
}

static void histogram_read(struct json_object *object, struct histogram *h)
{
    struct json_object *buckets = answer_member(object, "buckets", json_type_array);
    const uint64_t max = answer_number(object, "max_ns");
    for (size_t i = 0; buckets != NULL && i < json_object_array_length(buckets); i++) {
        bucket_add(h, json_object_array_get_idx(buckets, i));
    }
    h->sum += answer_number(object, "sum_ns");
    h->max = max > h->max ? max : h->max;
}

// All operations together.
static void latency_read(struct json_object *latency, struct histogram *h)
{
    if (json_object_is_type(latency, json_type_object)) {
        json_object_object_foreach(latency, name, operation)
        {
            (void)name;
            histogram_read(operation, h);
        }
    }
}

/* ---- latencies by operation ------------------------------------------------------------------ */

// NULL: it is none, or there is no room for one more.
static struct top_operation *operation_of(struct top_operations *operations, const char *name)
{
    for (size_t i = 0; i < operations->count; i++) {
        if (strcmp(operations->of[i].name, name) == 0) {
            return &operations->of[i];
        }
    }
    const size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz _");
    if (name[len] != '\0' || len >= TOP_TEXT_LEN || operations->count == TOP_OPERATION_COUNT_MAX) {
        return NULL;
    }
    struct top_operation *operation = &operations->of[operations->count++];
    *operation = (struct top_operation){0};
    text_set(operation->name, name);
    return operation;
}

static void operations_add(struct top_operations *operations, struct json_object *of)
{
    struct json_object *latency = answer_member(of, "latency", json_type_object);
    if (latency == NULL) {
        return;
    }
    json_object_object_foreach(latency, name, value)
    {
        struct top_operation *operation =
            json_object_is_type(value, json_type_object) ? operation_of(operations, name) : NULL;
        if (operation != NULL) {
            histogram_read(value, &operation->latency);
        }
    }
}

void top_operations(const struct top_subject *process, struct top_operations *ret)
{
    struct elements volumes = elements_of(process->answer, "volumes");
    struct elements answers = {.array = process->is_node ? NULL : process->answer};
    struct json_object *found;
    ret->count = 0;
    while ((found = elements_next(&volumes)) != NULL && volumes.next <= PARTS_MAX) {
        operations_add(ret, found);
    }
    while ((found = elements_next(&answers)) != NULL && answers.next <= PARTS_MAX) {
        for (unsigned n = 0; n < sizeof devices / sizeof devices[0]; n++) {
            operations_add(ret, answer_member(found, devices[n], json_type_object));
        }
    }
}

/* ---- a program with devices ------------------------------------------------------------------ */

// What is being read of a process.
struct reading {
    struct top_model *model;
    pid_t pid;
    struct top_totals totals;
    struct histogram latency;
    uint64_t connections;
    char devices[TOP_TEXT_LEN];
};

static struct json_object *connection_of(struct json_object *answer, uint64_t qp_num)
{
    struct elements e = elements_of(answer, "connections");
    struct json_object *found;
    while ((found = elements_next(&e)) != NULL && e.next <= LOOKED_AT_MAX) {
        if (answer_member(found, "qp_num", json_type_int) != NULL &&
            answer_number(found, "qp_num") == qp_num) {
            return found;
        }
    }
    return NULL;
}

static void answer_keep(struct top_subject *s, struct json_object *answer)
{
    json_object_put(s->answer);
    s->answer = answer;
}

static void part_add(struct json_object *parts, const char *name, struct json_object *part)
{
    if (part != NULL) {
        json_object_object_add(parts, name, json_object_get(part));
    }
}

static void queue_pair_read(struct reading *r, struct json_object *answer, const char *device,
                            struct json_object *qp)
{
    const uint64_t qp_num = answer_number(qp, "qp_num");
    const struct top_totals totals = of_counters(answer_member(qp, "counters", json_type_object));
    char id[TOP_TEXT_LEN];
    totals_add(&r->totals, &totals);
    if (++r->connections > PARTS_MAX) {
        r->model->left_out++;
        return;
    }
    struct json_object *connection = connection_of(answer, qp_num);
    snprintf(id, sizeof id, "%s %" PRIu64, device, qp_num);
    struct top_subject *s = top_touch(r->model, TOP_CONNECTION, r->pid, false, id);
    if (s == NULL) {
        return;
    }
    const char *peer = text_of(connection != NULL ? connection : qp, "peer");
    text_set(s->name, *peer != '\0' ? peer : "-");
    text_set(s->state, text_of(qp, "state"));
    text_set(s->what, device);
    struct json_object *parts = json_object_new_object();
    part_add(parts, "queue pair", qp);
    part_add(parts, "connection", connection);
    part_add(parts, "device", answer_member(answer, device, json_type_object));
    answer_keep(s, parts);
    top_note(r->model, s, &totals, NULL);
}

static void device_read(struct reading *r, struct json_object *answer, const char *device)
{
    struct json_object *object = answer_member(answer, device, json_type_object);
    if (object == NULL) {
        return;
    }
    const size_t len = strlen(r->devices);
    snprintf(r->devices + len, sizeof r->devices - len, "%s%s", len > 0 ? " " : "", device);
    latency_read(answer_member(object, "latency", json_type_object), &r->latency);
    json_object_object_foreach(object, name, value)
    {
        if (has_ends(name, "", "_total") && json_object_is_type(value, json_type_object)) {
            const struct top_totals gone = of_counters(value); // queue pairs that are no more
            totals_add(&r->totals, &gone);
        }
    }
    struct elements e = elements_of(answer, "qps");
    for (struct json_object *qp; (qp = elements_next(&e)) != NULL;) {
        queue_pair_read(r, answer, device, qp);
    }
}

static void program_read(struct reading *r, struct json_object *answers)
{
    const char *program = "";
    for (size_t i = 0; i < json_object_array_length(answers); i++) {
        struct json_object *answer = json_object_array_get_idx(answers, i);
        for (unsigned n = 0; n < sizeof devices / sizeof devices[0]; n++) {
            device_read(r, answer, devices[n]);
        }
        program = text_of(answer, "program");
    }
    struct top_subject *s = top_touch(r->model, TOP_PROCESS, r->pid, false, "");
    if (s == NULL) {
        return;
    }
    text_set(s->name, program);
    text_set(s->what, r->devices);
    s->connections = r->connections;
    answer_keep(s, json_object_get(answers));
    top_note(r->model, s, &r->totals, &r->latency);
}

/* ---- a storage node -------------------------------------------------------------------------- */

static uint64_t sum_of(struct json_object *numbers)
{
    uint64_t sum = 0;
    if (json_object_is_type(numbers, json_type_object)) {
        json_object_object_foreach(numbers, name, value)
        {
            (void)name;
            sum += json_object_get_uint64(value);
        }
    }
    return sum;
}

static void volume_read(struct reading *r, struct json_object *volume)
{
    struct json_object *octets = answer_member(volume, "octets", json_type_object);
    struct json_object *completions = answer_member(volume, "completions", json_type_object);
    struct histogram latency = {0};
    const uint64_t ended = sum_of(completions), well = answer_number(completions, "ok");
    const struct top_totals totals = {
        .work = sum_of(answer_member(volume, "operations", json_type_object)),
        .octets_in = answer_number(octets, "write"),
        .octets_out = answer_number(octets, "read"),
        .errors = ended > well ? ended - well : 0,
    };
    latency_read(answer_member(volume, "latency", json_type_object), &latency);
    totals_add(&r->totals, &totals);
    histogram_merge(&r->latency, &latency);
    struct top_subject *s = top_touch(r->model, TOP_VOLUME, r->pid, true, text_of(volume, "name"));
    if (s == NULL) {
        return;
    }
    text_set(s->name, text_of(volume, "name"));
    text_set(s->state, text_of(volume, "state"));
    text_set(s->what, text_of(volume, "driver"));
    s->connections = answer_number(volume, "connections");
    s->size = answer_number(volume, "size");
    answer_keep(s, json_object_get(volume));
    top_note(r->model, s, &totals, &latency);
}

static void rta_read(struct reading *r, struct json_object *rta)
{
    struct top_subject *s = top_touch(r->model, TOP_RTA, r->pid, true, text_of(rta, "name"));
    if (s == NULL) {
        return;
    }
    const struct top_totals totals = {
        .work = answer_number(rta, "results"),
        .errors = answer_number(rta, "violations") + answer_number(rta, "refusals"),
    };
    text_set(s->name, text_of(rta, "name"));
    text_set(s->state, text_of(rta, "state"));
    s->rta_pid = answer_number(rta, "pid");
    s->restarts = answer_number(rta, "restarts");
    s->in_flight = answer_number(rta, "in_flight");
    answer_keep(s, json_object_get(rta));
    top_note(r->model, s, &totals, NULL);
}

static void client_read(struct reading *r, struct json_object *client)
{
    const struct top_totals totals = {
        .work = answer_number(client, "requests"),
        .octets_in = answer_number(client, "octets_in"),
        .octets_out = answer_number(client, "octets_out"),
        .errors = answer_number(client, "failed"),
    };
    char id[TOP_TEXT_LEN];
    snprintf(id, sizeof id, "%" PRIu64, answer_number(client, "connection"));
    struct top_subject *s = top_touch(r->model, TOP_CLIENT, r->pid, true, id);
    if (s == NULL) {
        return;
    }
    text_set(s->name, text_of(client, "address"));
    text_set(s->what, text_of(client, "volume"));
    text_set(s->identity, text_of(client, "identity"));
    text_set(s->state, "connected");
    s->in_flight = answer_number(client, "in_flight");
    answer_keep(s, json_object_get(client));
    top_note(r->model, s, &totals, NULL);
}

static void node_read(struct reading *r, struct json_object *node)
{
    struct elements volumes = elements_of(node, "volumes"), rtas = elements_of(node, "rtas"),
                    clients = elements_of(node, "clients");
    struct json_object *found;
    while ((found = elements_next(&volumes)) != NULL && volumes.next <= PARTS_MAX) {
        volume_read(r, found);
    }
    while ((found = elements_next(&rtas)) != NULL && rtas.next <= PARTS_MAX) {
        rta_read(r, found);
    }
    while ((found = elements_next(&clients)) != NULL && clients.next <= PARTS_MAX) {
        client_read(r, found);
    }
    struct top_subject *s = top_touch(r->model, TOP_PROCESS, r->pid, true, "");
    if (s == NULL) {
        return;
    }
    text_set(s->name, "weft serve");
    text_set(s->what, "storage node");
    s->connections = answer_number(node, "connections");
    answer_keep(s, json_object_get(node));
    top_note(r->model, s, &r->totals, &r->latency);
}

void top_answer(struct top_model *model, pid_t pid, bool is_node, struct json_object *answers)
{
    struct reading reading = {.model = model, .pid = pid};
    if (!json_object_is_type(answers, json_type_array)) {
        return;
    }
    if (!is_node) {
        program_read(&reading, answers);
    } else if (json_object_array_length(answers) > 0) {
        node_read(&reading, json_object_array_get_idx(answers, 0));
    }
}
