// The door by its socket, on time that is made up: what it answers, and what strangers cost.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/why.h"
#include "http/door.h"
#include "http/guests.h"

enum { ANSWER_LEN_MAX = 16 << 10, LARGE_LEN = 8 << 20, TURN_MS = 5, TURNS_MAX = 4000 };

struct stage {
    struct http_door *door;
    instant_ns now;
    uint16_t port;
    unsigned written;
    bool is_not_ready;
    char got[ANSWER_LEN_MAX];
    size_t got_len;
};

/* ---- the door -------------------------------------------------------------------------------- */

static void write_number(void *ctx, FILE *out)
{
    fprintf(out, "%u\n", ++((struct stage *)ctx)->written);
}

static void write_large(void *ctx, FILE *out)
{
    for (unsigned i = 0; i < LARGE_LEN; i++) {
        fputc('x', out);
    }
}

static bool stage_is_ready(void *ctx)
{
    return !((struct stage *)ctx)->is_not_ready;
}

static const struct http_resource resources[] = {
    {.path = "/", .type = "text/plain", .octets = "a file", .len = 6, .etag = "\"tag\""},
    {.path = "/number", .type = "text/plain", .write = write_number},
    {.path = "/large", .type = "text/plain", .write = write_large},
};

static int setup(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);
    struct why why;
    char address[64];
    const struct http_door_parts parts = {
        .ctx = stage, .is_ready = stage_is_ready, .resources = resources, .count = 3};
    stage->now = NS_PER_S;
    stage->door = http_door_open("127.0.0.1:0", &parts, &why);
    assert_non_null(stage->door);
    http_door_address(stage->door, address, sizeof address);
    assert_memory_equal(address, "http://127.0.0.1:", 17);
    stage->port = (uint16_t)atoi(address + 17);
    *state = stage;
    return 0;
}

static int teardown(void **state)
{
    struct stage *stage = *state;
    http_door_close(stage->door);
    free(stage);
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

static int client_from(const struct stage *stage, const char *own)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(stage->port)};
    const struct timeval patience = {.tv_sec = 2};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    from.sin_addr.s_addr = inet_addr(own);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void turn(struct stage *stage)
{
    struct pollfd wanted = {.fd = http_door_fd(stage->door), .events = POLLIN};
    http_door_run(stage->door, stage->now);
    poll(&wanted, 1, TURN_MS);
    http_door_run(stage->door, stage->now);
}

static void say(int fd, const char *words)
{
    const ssize_t len = (ssize_t)strlen(words);
    assert_int_equal(send(fd, words, (size_t)len, MSG_NOSIGNAL), len);
}

// An answer is here: its head, and as much as that says there is.
static bool is_whole(const struct stage *stage, bool has_body)
{
    const char *end = strstr(stage->got, "\r\n\r\n");
    const char *len = strstr(stage->got, "Content-Length: ");
    return end != NULL &&
           (!has_body || len == NULL ||
            stage->got_len >= (size_t)(end + 4 - stage->got) + (size_t)atoi(len + 16));
}

static bool is_ended(int fd)
{
    char octet;
    const ssize_t got = recv(fd, &octet, 1, MSG_DONTWAIT | MSG_PEEK);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void hear(struct stage *stage, int fd, bool has_body)
{
    stage->got_len = 0;
    memset(stage->got, 0, sizeof stage->got);
    for (unsigned i = 0; i < TURNS_MAX && !is_whole(stage, has_body) && !is_ended(fd); i++) {
        turn(stage);
        const ssize_t got = recv(fd, stage->got + stage->got_len,
                                 sizeof stage->got - 1 - stage->got_len, MSG_DONTWAIT);
        stage->got_len += got > 0 ? (size_t)got : 0;
    }
}

// The status of the answer.
static int ask(struct stage *stage, int fd, const char *request)
{
    say(fd, request);
    hear(stage, fd, strncmp(request, "HEAD", 4) != 0 && strstr(request, "If-None") == NULL);
    return strncmp(stage->got, "HTTP/1.1 ", 9) == 0 ? atoi(stage->got + 9) : -1;
}

static int ask_once(struct stage *stage, const char *request)
{
    const int fd = client_from(stage, "127.0.0.1");
    const int status = ask(stage, fd, request);
    close(fd);
    return status;
}

static bool ends(struct stage *stage, int fd)
{
    for (unsigned i = 0; i < TURNS_MAX && !is_ended(fd); i++) {
        turn(stage);
    }
    return is_ended(fd);
}

// What stands behind these words in the metrics.
static uint64_t counted(const struct stage *stage, const char *words)
{
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    http_door_write_metrics(stage->door, out);
    fclose(out);
    const char *row = strstr(text, words);
    assert_non_null(row);
    return strtoull(row + strlen(words), NULL, 10);
}

static uint64_t refused(const struct stage *stage, const char *reason)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "{reason=\"%s\"} ", reason);
    return counted(stage, wanted);
}

#define HOST "Host: localhost\r\n"
#define GET  "GET / HTTP/1.1\r\n" HOST "\r\n"

/* ---- what is answered ------------------------------------------------------------------------ */

static void a_file_has_its_octets_its_tag_and_the_fields_that_shut_others_out(void **state)
{
    struct stage *stage = *state;
    assert_int_equal(ask_once(stage, GET), 200);
    assert_non_null(strstr(stage->got, "\r\n\r\na file"));
    assert_non_null(strstr(stage->got, "\r\nETag: \"tag\"\r\n"));
    assert_non_null(strstr(stage->got, "\r\nContent-Security-Policy: default-src 'none';"));
    assert_non_null(strstr(stage->got, "\r\nX-Content-Type-Options: nosniff\r\n"));
    assert_null(strstr(stage->got, "Access-Control"));
}

static void a_known_tag_brings_no_octets(void **state)
{
    struct stage *stage = *state;
    assert_int_equal(ask_once(stage, "GET / HTTP/1.1\r\n" HOST "If-None-Match: \"tag\"\r\n\r\n"),
                     304);
    assert_null(strstr(stage->got, "a file"));
    assert_int_equal(ask_once(stage, "GET / HTTP/1.1\r\n" HOST "If-None-Match: \"other\"\r\n\r\n"),
                     200);
}

static void the_target_may_name_the_host(void **state)
{
    struct stage *stage = *state;
    assert_int_equal(ask_once(stage, "GET http://localhost:80/number?x=1 HTTP/1.1\r\n" HOST "\r\n"),
                     200);
    assert_non_null(strstr(stage->got, "\r\n\r\n1\n"));
    assert_int_equal(
        ask_once(stage, "GET HTTP://127.0.0.1 HTTP/1.1\r\nHost: rebound.example\r\n\r\n"), 200);
    assert_non_null(strstr(stage->got, "a file"));
}

static void head_has_the_fields_of_get_alone(void **state)
{
    struct stage *stage = *state;
    assert_int_equal(ask_once(stage, "HEAD / HTTP/1.1\r\n" HOST "\r\n"), 200);
    assert_non_null(strstr(stage->got, "Content-Length: 6\r\n"));
    assert_null(strstr(stage->got, "a file"));
}

static void a_connection_serves_several_requests(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ask(stage, fd, GET), 200);
        stage->now += HTTP_REQUEST_NS - 1; // each of them has its own time
    }
    close(fd);
    assert_int_equal(refused(stage, "late"), 0);
}

static void connections_and_answers_are_counted(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    assert_int_equal(ask(stage, fd, GET), 200);
    assert_int_equal(ask(stage, fd, "GET / HTTP/1.1\r\n" HOST "If-None-Match: \"tag\"\r\n\r\n"),
                     304);
    close(fd);
    assert_int_equal(ask_once(stage, GET), 200);
    assert_int_equal(counted(stage, "\nweft_http_connections_total "), 2);
    assert_int_equal(counted(stage, "\nweft_http_answers_total "), 3);
    assert_int_equal(counted(stage, "\nweft_http_unchanged_total "), 1);
}

static void what_is_written_serves_all_who_ask_soon(void **state)
{
    struct stage *stage = *state;
    static const char request[] = "GET /number?x=1 HTTP/1.1\r\n" HOST "\r\n";
    assert_int_equal(ask_once(stage, request), 200);
    stage->now += HTTP_FRESH_NS - 1;
    assert_int_equal(ask_once(stage, request), 200);
    assert_int_equal(stage->written, 1);
    stage->now += 1;
    assert_int_equal(ask_once(stage, request), 200);
    assert_int_equal(stage->written, 2);
    assert_non_null(strstr(stage->got, "\r\n\r\n2\n"));
    assert_non_null(strstr(stage->got, "\r\nCache-Control: no-store\r\n"));
}

static void who_asks_before_it_is_ready_waits(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    stage->is_not_ready = true;
    say(fd, "GET /number HTTP/1.1\r\n" HOST "\r\n");
    for (unsigned i = 0; i < TURNS_MAX && !http_door_has_waiting(stage->door); i++) {
        turn(stage);
    }
    assert_true(http_door_has_waiting(stage->door));
    assert_int_equal(ask_once(stage, GET), 200); // and holds nobody up
    stage->is_not_ready = false;
    http_door_go_on(stage->door);
    hear(stage, fd, true);
    assert_non_null(strstr(stage->got, "\r\n\r\n1\n"));
    assert_false(http_door_has_waiting(stage->door));
    close(fd);
}

static void who_waits_at_the_end_is_let_go(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    stage->is_not_ready = true;
    say(fd, "GET /number HTTP/1.1\r\n" HOST "\r\n");
    for (unsigned i = 0; i < TURNS_MAX && !http_door_has_waiting(stage->door); i++) {
        turn(stage);
    }
    http_door_close(stage->door);
    stage->door = NULL;
    assert_true(is_ended(fd));
    close(fd);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void each_bad_request_has_its_status_and_its_counter(void **state)
{
    struct stage *stage = *state;
    static const struct {
        const char *request, *reason;
        int status;
    } bad[] = {
        {"POST / HTTP/1.1\r\n" HOST "\r\n", "method", 405},
        {"OPTIONS / HTTP/1.1\r\n" HOST "\r\n", "method", 405},
        {"DELETE /number HTTP/1.1\r\n" HOST "\r\n", "method", 405},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nbody", "body", 413},
        {"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", "body", 413},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", "no host", 400},
        {"GET / HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "foreign host", 421},
        {"GET http://rebound.example/ HTTP/1.1\r\n" HOST "\r\n", "foreign host", 421},
        {"GET http:/// HTTP/1.1\r\n" HOST "\r\n", "foreign host", 421},
        {"GET http://localhost/nothing HTTP/1.1\r\n" HOST "\r\n", "path", 404},
        {"GET /../etc/passwd HTTP/1.1\r\n" HOST "\r\n", "path", 404},
        {"GET /%2e%2e/x HTTP/1.1\r\n" HOST "\r\n", "path", 404},
        {"GET /number/ HTTP/1.1\r\n" HOST "\r\n", "path", 404},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const uint64_t before = refused(stage, bad[i].reason);
        assert_int_equal(ask_once(stage, bad[i].request), bad[i].status);
        assert_non_null(strstr(stage->got, "\r\n\r\nweft: "));
        assert_non_null(strstr(stage->got, "\r\nX-Content-Type-Options: nosniff\r\n"));
        assert_int_equal(refused(stage, bad[i].reason), before + 1);
    }
    assert_int_equal(stage->written, 0);
}

static void too_many_fields_are_refused(void **state)
{
    struct stage *stage = *state;
    char request[4096];
    FILE *out = fmemopen(request, sizeof request, "w");
    fputs("GET / HTTP/1.1\r\n" HOST, out);
    for (unsigned i = 0; i < 64; i++) {
        fputs("A: b\r\n", out);
    }
    fputs("\r\n", out);
    fclose(out);
    assert_int_equal(ask_once(stage, request), 431);
    assert_int_equal(refused(stage, "fields"), 1);
}

static void a_head_that_is_too_long_is_refused(void **state)
{
    struct stage *stage = *state;
    static char request[64 << 10];
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\n" HOST "A: ");
    memset(request + strlen(request), 'b', 40 << 10);
    const int fd = client_from(stage, "127.0.0.1");
    send(fd, request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT);
    hear(stage, fd, true);
    assert_true(stage->got_len == 0 || strncmp(stage->got, "HTTP/1.1 4", 10) == 0);
    assert_true(ends(stage, fd) || stage->got_len > 0);
    close(fd);
    turn(stage);
    assert_int_equal(ask_once(stage, GET), 200);
    assert_int_equal(refused(stage, "no request"), 1);
}

static void octets_that_are_no_request_end_the_connection(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    say(fd, "\x16\x03\x01\x02 hello\r\n\r\n");
    hear(stage, fd, true);
    assert_null(strstr(stage->got, " 200 "));
    close(fd);
    turn(stage);
    assert_int_equal(ask_once(stage, GET), 200);
}

/* ---- time and shares ------------------------------------------------------------------------- */

static void who_says_nothing_is_ended_in_time(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    turn(stage);
    stage->now += HTTP_REQUEST_NS - 1;
    turn(stage);
    assert_false(is_ended(fd));
    assert_int_equal(http_door_next_deadline(stage->door, stage->now), stage->now + 1);
    stage->now += 1;
    assert_true(ends(stage, fd));
    close(fd);
    turn(stage);
    assert_int_equal(refused(stage, "late"), 1);
    assert_int_equal(refused(stage, "no request"), 1);
}

static void an_octet_now_and_then_gains_nothing(void **state)
{
    struct stage *stage = *state;
    const int fd = client_from(stage, "127.0.0.1");
    const char *request = GET;
    const instant_ns begin = stage->now;
    turn(stage);
    for (unsigned i = 0; request[i] != '\0' && !is_ended(fd); i++) {
        send(fd, request + i, 1, MSG_NOSIGNAL);
        turn(stage);
        stage->now += NS_PER_S;
    }
    assert_true(ends(stage, fd));
    assert_true(stage->now - begin <= HTTP_REQUEST_NS + 2 * NS_PER_S);
    close(fd);
}

static void who_does_not_take_its_answer_is_ended_in_time(void **state)
{
    struct stage *stage = *state;
    static char taken[LARGE_LEN];
    const int fd = client_from(stage, "127.0.0.1");
    say(fd, "GET /large HTTP/1.1\r\n" HOST "\r\n");
    for (unsigned i = 0; i < 20; i++) {
        turn(stage);
    }
    stage->now += HTTP_ANSWER_NS - 1;
    turn(stage);
    assert_int_equal(refused(stage, "late"), 0);
    stage->now += 1;
    turn(stage);
    assert_int_equal(refused(stage, "late"), 1);
    size_t len = 0;
    ssize_t got;
    while ((got = recv(fd, taken, sizeof taken, 0)) > 0) {
        len += (size_t)got;
    }
    assert_true(got == 0 || errno == ECONNRESET);
    assert_true(len < LARGE_LEN); // it was cut off, not served to the end
    close(fd);
}

static void an_address_has_its_share_and_others_theirs(void **state)
{
    struct stage *stage = *state;
    int crowd[HTTP_GUEST_SHARE];
    for (unsigned i = 0; i < HTTP_GUEST_SHARE; i++) {
        crowd[i] = client_from(stage, "127.0.0.1");
        turn(stage);
    }
    const int one_more = client_from(stage, "127.0.0.1");
    assert_true(ends(stage, one_more));
    assert_int_equal(refused(stage, "share"), 1);
    const int other = client_from(stage, "127.0.0.2");
    assert_int_equal(ask(stage, other, GET), 200);
    close(other);
    close(one_more);
    for (unsigned i = 0; i < HTTP_GUEST_SHARE; i++) {
        close(crowd[i]);
    }
    for (unsigned i = 0; i < 10; i++) {
        turn(stage);
    }
    assert_int_equal(ask_once(stage, GET), 200);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_file_has_its_octets_its_tag_and_the_fields_that_shut_others_out),
        CASE(a_known_tag_brings_no_octets),
        CASE(the_target_may_name_the_host),
        CASE(head_has_the_fields_of_get_alone),
        CASE(a_connection_serves_several_requests),
        CASE(what_is_written_serves_all_who_ask_soon),
        CASE(who_asks_before_it_is_ready_waits),
        CASE(who_waits_at_the_end_is_let_go),
        CASE(each_bad_request_has_its_status_and_its_counter),
        CASE(too_many_fields_are_refused),
        CASE(a_head_that_is_too_long_is_refused),
        CASE(octets_that_are_no_request_end_the_connection),
        CASE(who_says_nothing_is_ended_in_time),
        CASE(an_octet_now_and_then_gains_nothing),
        CASE(who_does_not_take_its_answer_is_ended_in_time),
        CASE(an_address_has_its_share_and_others_theirs),
        CASE(connections_and_answers_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
