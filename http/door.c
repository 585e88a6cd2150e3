#include "http/door.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/why.h"
#include "http/exposition.h"
#include "http/guests.h"
#include "http/head.h"
#include "listen/address.h"
#include "text/address.h"

enum {
    REQUEST_MAX_LEN = 16 << 10, // with what libmicrohttpd needs beside it
    PATH_LEN_MAX = 128,         // of a Unix socket
};

// What was made for a path: for good, or until it is too old.
struct made {
    struct MHD_Response *response;
    struct MHD_Response *unchanged; // of what has a tag
    instant_ns at;
};

struct http_door {
    struct http_door_parts parts;
    const char *listen;
    struct MHD_Daemon *daemon;
    int epoll_fd, listen_fd;
    char path[PATH_LEN_MAX];
    instant_ns now;
    struct made made[HTTP_RESOURCE_MAX];
    struct MHD_Response *refusals[HTTP_VERDICT_COUNT];
    struct http_guests guests;
    uint64_t answered, unchanged, refused[HTTP_VERDICT_COUNT];
};

/* ---- answers --------------------------------------------------------------------------------- */

// Nothing but the page's own files and what it asks this door for; no other page may frame it, read
// it or learn of it.
static const char *const security_fields[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
};

// The octets are taken over in mode MHD_RESPMEM_MUST_FREE, also where there is no memory.
static struct MHD_Response *response_make(const void *octets, size_t len, const char *type,
                                          enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)octets, mode);
    if (response == NULL) {
        if (mode == MHD_RESPMEM_MUST_FREE) {
            free((void *)(uintptr_t)octets);
        }
        return NULL;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < sizeof security_fields / sizeof security_fields[0]; i++) {
        MHD_add_response_header(response, security_fields[i][0], security_fields[i][1]);
    }
    return response;
}

static void drop(struct MHD_Response **response)
{
    if (*response != NULL) {
        MHD_destroy_response(*response);
        *response = NULL;
    }
}

// Of a file: it may be kept, and is asked for anew by its tag.
static struct MHD_Response *file_make(const struct http_resource *resource, size_t len)
{
    struct MHD_Response *response =
        response_make(resource->octets, len, resource->type, MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, resource->etag);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    }
    return response;
}

static struct MHD_Response *written_make(struct http_door *door,
                                         const struct http_resource *resource)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return NULL;
    }
    resource->write(door->parts.ctx, out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    struct MHD_Response *response = response_make(text, len, resource->type, MHD_RESPMEM_MUST_FREE);
    if (response != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    }
    return response;
}

static struct MHD_Response *refusal_make(enum http_verdict verdict)
{
    const char *text = http_refusals[verdict].text;
    struct MHD_Response *response =
        response_make(text, strlen(text), "text/plain; charset=utf-8", MHD_RESPMEM_PERSISTENT);
    if (response != NULL) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        if (verdict == HTTP_NO_SUCH_METHOD) {
            MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        }
    }
    return response;
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_late_or_none(const struct made *made, instant_ns now)
{
    return made->response == NULL || instant_after(made->at, HTTP_FRESH_NS) <= now;
}

// Without memory for a response the connection ends.
static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
                             struct MHD_Response *response)
{
    return response != NULL ? MHD_queue_response(connection, status, response) : MHD_NO;
}

static enum MHD_Result queue_answer(struct http_door *door, struct MHD_Connection *connection,
                                    unsigned status, struct MHD_Response *response)
{
    door->answered++;
    return queue(connection, status, response);
}

static enum MHD_Result refuse(struct http_door *door, struct MHD_Connection *connection,
                              enum http_verdict verdict)
{
    door->refused[verdict]++;
    return queue(connection, http_refusals[verdict].status, door->refusals[verdict]);
}

static enum MHD_Result answer_file(struct http_door *door, struct MHD_Connection *connection,
                                   const struct http_resource *resource, struct made *made)
{
    const char *known =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_NONE_MATCH);
    const bool is_known = known != NULL && strstr(known, resource->etag) != NULL;
    door->unchanged += is_known;
    return is_known ? queue_answer(door, connection, MHD_HTTP_NOT_MODIFIED, made->unchanged)
                    : queue_answer(door, connection, MHD_HTTP_OK, made->response);
}

static enum MHD_Result answer_written(struct http_door *door, struct MHD_Connection *connection,
                                      const struct http_resource *resource, struct made *made,
                                      struct http_guest *guest)
{
    if (is_late_or_none(made, door->now)) {
        if (door->parts.is_ready != NULL && !door->parts.is_ready(door->parts.ctx)) {
            guest->waits = true;
            MHD_suspend_connection(connection);
            return MHD_YES;
        }
        drop(&made->response);
        made->response = written_make(door, resource);
        made->at = door->now;
    }
    return queue_answer(door, connection, MHD_HTTP_OK, made->response);
}

static enum MHD_Result answer(struct http_door *door, struct MHD_Connection *connection,
                              const char *path, struct http_guest *guest)
{
    for (size_t i = 0; i < door->parts.count; i++) {
        const struct http_resource *resource = &door->parts.resources[i];
        if (strcmp(resource->path, path) == 0) {
            return resource->write == NULL
                       ? answer_file(door, connection, resource, &door->made[i])
                       : answer_written(door, connection, resource, &door->made[i], guest);
        }
    }
    return refuse(door, connection, HTTP_NO_SUCH_PATH);
}

static enum MHD_Result count_host(void *ctx, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    struct http_head *head = ctx;
    if (strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0) {
        head->host_count++;
        if (head->host == NULL && value != NULL) {
            head->host = value;
            head->host_len = strlen(value);
        }
    }
    head->has_body |= strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0 ||
                      (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 &&
                       (value == NULL || strcmp(value, "0") != 0));
    return MHD_YES;
}

static struct http_guest *guest_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static enum http_verdict judge(struct MHD_Connection *connection, const char *method,
                               const char *version, const struct http_target *target,
                               const struct http_guest *guest)
{
    struct http_head head = {.method = method,
                             .is_1_0 = strcmp(version, "HTTP/1.0") == 0,
                             .host = target->host,
                             .host_len = target->host_len};
    const int fields = MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &head);
    head.field_count = fields > 0 ? (size_t)fields : 0;
    return http_head_judge(&head, guest->is_on_loopback);
}

// Called when the head of a request is here, again when all of it is, and once more when it goes on
// after a wait. An answer to the first call is the connection's last, which suits refusals.
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *asked,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **state)
{
    struct http_door *door = ctx;
    struct http_guest *guest = guest_of(connection);
    const struct http_target target = http_target_split(asked);
    if (guest == NULL) {
        return MHD_NO;
    }
    if (*state != NULL) {
        return answer(door, connection, target.path, guest);
    }
    *state = guest;
    http_guest_asked(guest, door->now);
    const enum http_verdict verdict = judge(connection, method, version, &target, guest);
    return verdict == HTTP_MAY_BE_ANSWERED ? MHD_YES : refuse(door, connection, verdict);
}

static void on_answered(void *ctx, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode how)
{
    struct http_door *door = ctx;
    if (*state != NULL) {
        http_guest_answered(*state, door->now);
        *state = NULL;
    }
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_door *door = ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = http_guest_enter(&door->guests, connection, door->now);
    } else {
        http_guest_leave(&door->guests, *socket_context);
        *socket_context = NULL;
    }
}

static enum MHD_Result on_knock(void *ctx, const struct sockaddr *from, socklen_t len)
{
    return http_guests_admit(&((struct http_door *)ctx)->guests, from) ? MHD_YES : MHD_NO;
}

/* ---- life ------------------------------------------------------------------------------------ */

// What strangers send is answered, and counted, not logged.
static void say_nothing(void *ctx, const char *format, va_list args)
{
}

static bool responses_make(struct http_door *door)
{
    for (unsigned i = 1; i < HTTP_VERDICT_COUNT; i++) {
        door->refusals[i] = refusal_make(i);
        if (door->refusals[i] == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < door->parts.count; i++) {
        const struct http_resource *resource = &door->parts.resources[i];
        if (resource->write == NULL) {
            door->made[i].response = file_make(resource, resource->len);
            door->made[i].unchanged = file_make(resource, 0);
            if (door->made[i].response == NULL || door->made[i].unchanged == NULL) {
                return false;
            }
        }
    }
    return true;
}

static bool daemon_start(struct http_door *door)
{
    door->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, on_knock, door, on_request, door,
        MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, door->listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_GUEST_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)REQUEST_MAX_LEN, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_COMPLETED,
        on_answered, door, MHD_OPTION_NOTIFY_CONNECTION, on_connection, door, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        door->daemon != NULL ? MHD_get_daemon_info(door->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    door->epoll_fd = info != NULL ? info->epoll_fd : -1;
    return info != NULL;
}

struct http_door *http_door_open(const char *listen, const struct http_door_parts *parts,
                                 struct why *ret_why)
{
    struct http_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        why_say(ret_why, "no memory");
        return NULL;
    }
    door->parts = *parts;
    door->listen = listen;
    door->listen_fd = address_listen(listen, NULL, door->path, sizeof door->path, ret_why);
    if (door->listen_fd >= 0 && (!responses_make(door) || !daemon_start(door))) {
        why_say(ret_why, "%s: libmicrohttpd does not start", listen);
        http_door_close(door);
        return NULL;
    }
    if (door->listen_fd < 0) {
        free(door);
        return NULL;
    }
    return door;
}

void http_door_close(struct http_door *door)
{
    if (door == NULL) {
        return;
    }
    http_door_go_on(door); // nobody may be suspended at the end
    if (door->daemon != NULL) {
        MHD_stop_daemon(door->daemon); // closes the listener too
    } else {
        close(door->listen_fd);
    }
    address_unlink(door->listen, door->path);
    for (unsigned i = 0; i < HTTP_VERDICT_COUNT; i++) {
        drop(&door->refusals[i]);
    }
    for (size_t i = 0; i < door->parts.count; i++) {
        drop(&door->made[i].response);
        drop(&door->made[i].unchanged);
    }
    free(door);
}

void http_door_address(const struct http_door *door, char *ret, size_t capacity)
{
    char own[TEXT_ADDRESS_MAX];
    if (*door->path != '\0') {
        snprintf(ret, capacity, "unix:%s", door->path);
    } else {
        address_of_listener(door->listen_fd, own, sizeof own);
        snprintf(ret, capacity, "http://%s/", own);
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

int http_door_fd(const struct http_door *door)
{
    return door->epoll_fd;
}

instant_ns http_door_next_deadline(const struct http_door *door, instant_ns now)
{
    MHD_UNSIGNED_LONG_LONG ms;
    const instant_ns next = http_guests_next_deadline(&door->guests);
    if (MHD_get_timeout(door->daemon, &ms) != MHD_YES) {
        return next;
    }
    return instant_min(next, instant_after(now, ms * NS_PER_MS));
}

void http_door_run(struct http_door *door, instant_ns now)
{
    door->now = now;
    http_guests_on_deadline(&door->guests, now);
    MHD_run(door->daemon);
}

void http_door_go_on(struct http_door *door)
{
    for (unsigned i = 0; i < HTTP_GUEST_MAX; i++) {
        struct http_guest *guest = &door->guests.all[i];
        if (guest->waits) {
            guest->waits = false;
            MHD_resume_connection(guest->connection);
        }
    }
}

bool http_door_has_waiting(const struct http_door *door)
{
    for (unsigned i = 0; i < HTTP_GUEST_MAX; i++) {
        if (door->guests.all[i].waits) {
            return true;
        }
    }
    return false;
}

/* ---- counters -------------------------------------------------------------------------------- */

static void refused_write(FILE *out, const char *reason, uint64_t count)
{
    fprintf(out, "weft_http_refused_total{reason=\"%s\"} %" PRIu64 "\n", reason, count);
}

void http_door_write_metrics(const struct http_door *door, FILE *out)
{
    exposition_family(out, "http_connections_total", "counter", "connections taken");
    fprintf(out, "weft_http_connections_total %" PRIu64 "\n", door->guests.admitted);
    exposition_family(out, "http_answers_total", "counter", "requests answered");
    fprintf(out, "weft_http_answers_total %" PRIu64 "\n", door->answered);
    exposition_family(out, "http_unchanged_total", "counter", "of them, what the asker has");
    fprintf(out, "weft_http_unchanged_total %" PRIu64 "\n", door->unchanged);
    exposition_family(out, "http_refused_total", "counter", "connections and requests refused");
    refused_write(out, "share", door->guests.over_share);
    refused_write(out, "late", door->guests.late);
    refused_write(out, "no request", door->guests.silent);
    for (unsigned i = 1; i < HTTP_VERDICT_COUNT; i++) {
        refused_write(out, http_refusals[i].name, door->refused[i]);
    }
}
