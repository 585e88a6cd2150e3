// An NBD client of a volume that is there, whose connection the UMA does not want: it hears so, and
// may ask for something else. And one that has left when the answer comes.

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "node/tts/nbd.h"
#include "node/tts/nbd_wire.h"

enum { VOLUME = 3, CONNECTION = 7, PATIENCE_S = 20, REPLY_LEN = 20 };

struct scene {
    struct loop *loop;
    struct loop_watch *watch; // of the words
    struct addresses listen;
    struct nbd *nbd;
    int client, words[2], echo[2]; // to the loop, and from it
    pthread_t thread;
    struct resource row;
    struct resource_table table;
    enum connect_status status; // the UMA's answer
    bool is_held;               // until the client says so
    struct connect_request *held;
    unsigned disconnects;
    uint32_t disconnected;
};

/* ---- the UMA --------------------------------------------------------------------------------- */

static const struct resource_table *resources(void *ctx)
{
    return &((struct scene *)ctx)->table;
}

static bool may_see(void *ctx, uint32_t volume, const struct client *client)
{
    return true;
}

static void answer(struct scene *s, struct connect_request *request)
{
    request->status = s->status;
    request->connection = s->status == CONNECT_OK ? CONNECTION : 0;
    request->tts->on_connected(request->tts_ctx, request);
}

static void take(void *ctx, struct connect_request *request)
{
    struct scene *s = ctx;
    assert_int_equal(request->volume, VOLUME);
    if (s->is_held) {
        s->held = request;
    } else {
        answer(s, request);
    }
}

static void disconnect(void *ctx, uint32_t connection)
{
    struct scene *s = ctx;
    s->disconnects++;
    s->disconnected = connection;
}

static void say(void *ctx, const char *host, const char *line)
{
}

/* ---- the loop, in a thread of its own -------------------------------------------------------- */

static void on_word(void *ctx, uint32_t events)
{
    struct scene *s = ctx;
    char word = 0;
    assert_int_equal(read(s->words[0], &word, 1), 1);
    if (word == 'a') {
        answer(s, s->held);
    } else if (word == 'q') {
        loop_stop(s->loop);
    }
    assert_int_equal(write(s->echo[1], &word, 1), 1);
}

static void *run(void *ctx)
{
    loop_run(((struct scene *)ctx)->loop);
    return NULL;
}

// Back when the loop has done it.
static void tell(struct scene *s, char word)
{
    assert_int_equal(write(s->words[1], &word, 1), 1);
    assert_int_equal(read(s->echo[0], &word, 1), 1);
}

static void nobody_waits(void *cta, uint32_t connection, instant_ns now)
{
}

static int begin(void **state)
{
    static const struct uma_for_tts uma = {resources, may_see, take, disconnect};
    static const struct cta_for_tts cta = {.leave = nobody_waits};
    struct scene *s = *state = calloc(1, sizeof *s);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct why why = {""};
    s->row = (struct resource){.volume = VOLUME,
                               .name = "disk",
                               .state = RESOURCE_READY,
                               .profile = {.size = 1 << 20, .block_size = 512}};
    s->table = (struct resource_table){.count = 1, .rows = &s->row};
    s->loop = loop_create();
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/weft-refused.%d", (int)getpid());
    s->listen.count = 1;
    snprintf(s->listen.of[0], ADDRESS_MAX, "unix:%s", address.sun_path);
    s->nbd = nbd_tts_create(&(struct nbd_parts){.loop = s->loop,
                                                .listen = s->listen,
                                                .uma = &uma,
                                                .uma_ctx = s,
                                                .cta = &cta,
                                                .cta_ctx = s,
                                                .patience_ns = PATIENCE_S * NS_PER_S,
                                                .say = say,
                                                .ctx = s});
    assert_int_equal(pipe(s->words) | pipe(s->echo), 0);
    assert_int_equal(nbd_for_uma.start(s->nbd, &why), 0);
    s->watch = loop_watch(s->loop, s->words[0], EPOLLIN, on_word, s);
    s->client = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(s->client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(s->client, (struct sockaddr *)&address, sizeof address), 0);
    unlink(address.sun_path);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    return 0;
}

static int end(void **state)
{
    struct scene *s = *state;
    tell(s, 'q');
    pthread_join(s->thread, NULL);
    nbd_tts_destroy(s->nbd);
    loop_unwatch(s->watch);
    loop_destroy(s->loop);
    close(s->client);
    for (unsigned i = 0; i < 2; i++) {
        close(s->words[i]);
        close(s->echo[i]);
    }
    free(s);
    return 0;
}

/* ---- the client ------------------------------------------------------------------------------ */

static void hear(struct scene *s, void *ret, size_t len)
{
    if (len > 0) { // the kernel would wait for none, too
        assert_int_equal(recv(s->client, ret, len, MSG_WAITALL), len);
    }
}

static void greet(struct scene *s)
{
    uint8_t greeting[18], flags[4] = {0, 0, 0, 3};
    hear(s, greeting, sizeof greeting);
    assert_int_equal(send(s->client, flags, sizeof flags, 0), sizeof flags);
}

static void ask(struct scene *s, uint32_t number, const void *data, uint32_t len)
{
    uint8_t option[64];
    put_be64(option, NBD_OPTION_MAGIC);
    put_be32(option + 8, number);
    put_be32(option + 12, len);
    memcpy(option + 16, data, len);
    assert_int_equal(send(s->client, option, 16 + len, 0), 16 + len);
}

static void ask_for_disk(struct scene *s)
{
    ask(s, NBD_OPT_GO, "\0\0\0\4disk\0\0", 10);
}

// The type of the reply to an option, and its text.
static uint32_t reply_to(struct scene *s, uint32_t number, char ret_text[128])
{
    uint8_t reply[REPLY_LEN];
    hear(s, reply, sizeof reply);
    assert_int_equal(get_be32(reply + 8), number);
    assert_in_range(get_be32(reply + 16), 0, 127);
    hear(s, ret_text, get_be32(reply + 16));
    ret_text[get_be32(reply + 16)] = '\0';
    return get_be32(reply + 12);
}

// The last reply to GO; what is known of the volume comes before.
static uint32_t verdict(struct scene *s, char ret_text[128])
{
    uint32_t type;
    do {
        type = reply_to(s, NBD_OPT_GO, ret_text);
    } while (type == NBD_REP_INFO);
    return type;
}

static bool is_ended(struct scene *s)
{
    uint8_t octet;
    return recv(s->client, &octet, 1, 0) == 0;
}

static void a_client_that_is_refused_hears_why_and_may_go_on(void **state)
{
    struct scene *s = *state;
    char text[128];
    greet(s);
    for (s->status = CONNECT_NO_VOLUME; s->status < CONNECT_STATUS_COUNT; s->status++) {
        ask_for_disk(s);
        assert_int_equal(verdict(s, text),
                         s->status == CONNECT_NOT_ALLOWED ? NBD_REP_POLICY : NBD_REP_SHUTDOWN);
        assert_string_equal(text, connect_status_name(s->status));
    }
    ask(s, NBD_OPT_ABORT, "", 0);
    assert_int_equal(reply_to(s, NBD_OPT_ABORT, text), NBD_REP_ACK);
    assert_true(is_ended(s));
    assert_int_equal(nbd_counters(s->nbd).refused, CONNECT_STATUS_COUNT - CONNECT_NO_VOLUME);
    assert_int_equal(nbd_counters(s->nbd).established, 0);
    assert_int_equal(s->disconnects, 0);
}

static void a_client_that_is_refused_has_no_more_time_than_others(void **state)
{
    struct scene *s = *state;
    char text[128];
    greet(s);
    s->status = CONNECT_TOO_MANY;
    ask_for_disk(s);
    assert_int_equal(verdict(s, text), NBD_REP_SHUTDOWN);
    uint8_t octet;
    errno = 0;
    assert_true(recv(s->client, &octet, 1, 0) <= 0); // after ten seconds
    assert_int_not_equal(errno, EAGAIN);
}

static void a_client_that_is_refused_may_be_taken_the_next_time(void **state)
{
    struct scene *s = *state;
    char text[128];
    greet(s);
    s->status = CONNECT_TOO_MANY;
    ask_for_disk(s);
    assert_int_equal(verdict(s, text), NBD_REP_SHUTDOWN);
    s->status = CONNECT_OK;
    ask_for_disk(s);
    assert_int_equal(verdict(s, text), NBD_REP_ACK);
    assert_int_equal(nbd_counters(s->nbd).established, 1);
    shutdown(s->client, SHUT_RDWR);
    while (s->disconnects == 0) {
        tell(s, 'p');
    }
    assert_int_equal(s->disconnected, CONNECTION);
}

static void an_export_name_that_is_refused_ends_the_connection(void **state)
{
    struct scene *s = *state;
    greet(s);
    s->status = CONNECT_NOT_READY;
    ask(s, NBD_OPT_EXPORT_NAME, "disk", 4); // it has no way to say no
    assert_true(is_ended(s));
    assert_int_equal(s->disconnects, 0);
}

static void leave_before_the_answer(struct scene *s, enum connect_status status)
{
    greet(s);
    s->is_held = true;
    s->status = status;
    ask_for_disk(s);
    while (s->held == NULL) {
        tell(s, 'p');
    }
    shutdown(s->client, SHUT_RDWR);
    for (unsigned i = 0; i < 3; i++) { // so that the end is heard of
        tell(s, 'p');
    }
    tell(s, 'a');
    tell(s, 'p');
}

static void the_connection_of_a_client_that_left_is_given_back(void **state)
{
    struct scene *s = *state;
    leave_before_the_answer(s, CONNECT_OK);
    assert_int_equal(s->disconnects, 1);
    assert_int_equal(s->disconnected, CONNECTION);
}

static void a_refusal_of_a_client_that_left_gives_back_nothing(void **state)
{
    struct scene *s = *state;
    leave_before_the_answer(s, CONNECT_REFUSED);
    assert_int_equal(s->disconnects, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_that_is_refused_hears_why_and_may_go_on),
        TEST(a_client_that_is_refused_may_be_taken_the_next_time),
        TEST(a_client_that_is_refused_has_no_more_time_than_others),
        TEST(an_export_name_that_is_refused_ends_the_connection),
        TEST(the_connection_of_a_client_that_left_is_given_back),
        TEST(a_refusal_of_a_client_that_left_gives_back_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
