// The services of a node: which are made of its configuration, with what, and what is left where
// one cannot be made; and its pages by HTTP. All whom they stand on are the test's.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <cmocka.h>

#include "base/time.h"
#include "http/door.h"
#include "http/page.h"
#include "node/host/agent.h"
#include "node/host/metrics.h"
#include "node/host/pool.h"
#include "node/host/status.h"
#include "node/host/web.h"

enum { LOG_MAX = 1024, NOW = 50 };

static struct host *host;
static struct host_config config;
static char done[LOG_MAX];
static const char *failing = "";

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    size_t len = strlen(done);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(done + len, sizeof done - len, format, arguments);
    va_end(arguments);
}

// Each has an address of its own.
static void *made(const char *name, char *it)
{
    note("%s ", name);
    return strcmp(failing, name) == 0 ? NULL : it;
}

/* ---- services -------------------------------------------------------------------------------- */

static char of_nbd, of_nvme, of_nvme_rdma, of_nvme_tcp, of_iscsi, of_iscsi_tcp, of_iscsi_rdma;
static char a_loop, an_uma, a_cta;
static struct nbd_parts nbd;
static struct nvme_target_parts nvme;
static struct nvme_rdma_parts nvme_rdma;
static struct nvme_tcp_parts nvme_tcp;
static struct iscsi_parts iscsi;
static struct iscsi_tcp_parts iscsi_tcp;
static struct iscsi_rdma_parts iscsi_rdma;

static bool uri_of_nbd(void *ctx, const struct resource *row, unsigned index, char *ret,
                       size_t capacity)
{
    assert_ptr_equal(ctx, &of_nbd);
    snprintf(ret, capacity, "nbd:%s:%u", row->name, index);
    return index < 1;
}

const struct tts_for_uma nbd_for_uma = {.name = "nbd", .uri = uri_of_nbd}, nvme_for_uma,
                         nvme_rdma_for_uma, nvme_tcp_for_uma, iscsi_tcp_for_uma, iscsi_rdma_for_uma;
const struct uma_for_tts uma_for_tts;
const struct cta_for_tts cta_for_tts;

static bool is_by;

bool uma_volume_is_by(struct uma *uma, uint32_t volume, const char *service)
{
    assert_ptr_equal(uma, &an_uma);
    assert_int_equal(volume, 7);
    assert_string_equal(service, "nbd");
    return is_by;
}

void uma_tts_add(struct uma *uma, const struct tts_for_uma *tts, void *ctx)
{
    assert_ptr_equal(uma, &an_uma);
    note("+%s ", tts == &nbd_for_uma && ctx == &of_nbd                 ? "nbd"
                 : tts == &nvme_for_uma && ctx == &of_nvme             ? "nvme"
                 : tts == &nvme_rdma_for_uma && ctx == &of_nvme_rdma   ? "nvme-rdma"
                 : tts == &nvme_tcp_for_uma && ctx == &of_nvme_tcp     ? "nvme-tcp"
                 : tts == &iscsi_tcp_for_uma && ctx == &of_iscsi_tcp   ? "iscsi"
                 : tts == &iscsi_rdma_for_uma && ctx == &of_iscsi_rdma ? "iscsi-rdma"
                                                                       : "?");
}

struct nbd *nbd_tts_create(const struct nbd_parts *parts)
{
    nbd = *parts;
    return made("nbd", &of_nbd);
}

struct nvme_target *nvme_target_create(const struct nvme_target_parts *parts)
{
    nvme = *parts;
    return made("nvme", &of_nvme);
}

struct nvme_rdma *nvme_rdma_create(const struct nvme_rdma_parts *parts)
{
    nvme_rdma = *parts;
    return made("nvme-rdma", &of_nvme_rdma);
}

struct nvme_tcp *nvme_tcp_create(const struct nvme_tcp_parts *parts)
{
    nvme_tcp = *parts;
    return made("nvme-tcp", &of_nvme_tcp);
}

struct iscsi *iscsi_create(const struct iscsi_parts *parts)
{
    iscsi = *parts;
    return made("target", &of_iscsi);
}

struct iscsi_tcp *iscsi_tcp_create(const struct iscsi_tcp_parts *parts)
{
    iscsi_tcp = *parts;
    return made("iscsi", &of_iscsi_tcp);
}

struct iscsi_rdma *iscsi_rdma_create(const struct iscsi_rdma_parts *parts)
{
    iscsi_rdma = *parts;
    return made("iscsi-rdma", &of_iscsi_rdma);
}

#define DESTROY(function, type, name)         \
    void function(struct type *it)            \
    {                                         \
        note(it != NULL ? "-" name " " : ""); \
    }
DESTROY(nbd_tts_destroy, nbd, "nbd")
DESTROY(nvme_target_destroy, nvme_target, "nvme")
DESTROY(nvme_rdma_destroy, nvme_rdma, "nvme-rdma")
DESTROY(nvme_tcp_destroy, nvme_tcp, "nvme-tcp")
DESTROY(iscsi_destroy, iscsi, "target")
DESTROY(iscsi_tcp_destroy, iscsi_tcp, "iscsi")
DESTROY(iscsi_rdma_destroy, iscsi_rdma, "iscsi-rdma")

struct node_pool pool_view(const struct pool *pool)
{
    assert_ptr_equal(pool, &host->pool);
    return (struct node_pool){.len = 42};
}

void host_say(void *ctx, const char *line)
{
    assert_ptr_equal(ctx, host);
    note("say(%s) ", line);
}

instant_ns loop_now(const struct loop *loop)
{
    return NOW;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static char a_door, a_watch;
static struct http_door_parts door_parts;
static void (*on_ready)(void *ctx, uint32_t events);
static void *ctx_of_ready;
static struct loop_member *member;

struct http_door *http_door_open(const char *listen, const struct http_door_parts *parts,
                                 struct why *ret_why)
{
    assert_string_equal(listen, "h:80");
    door_parts = *parts;
    why_say(ret_why, "it is taken");
    return made("door", &a_door);
}

void http_door_close(struct http_door *door)
{
    note("-door ");
}

int http_door_fd(const struct http_door *door)
{
    return 77;
}

void http_door_run(struct http_door *door, instant_ns now)
{
    note("run@%d ", (int)now);
}

instant_ns http_door_next_deadline(const struct http_door *door, instant_ns now)
{
    return now + 5;
}

void http_door_address(const struct http_door *door, char *ret, size_t capacity)
{
    snprintf(ret, capacity, "http://h/");
}

void http_door_write_metrics(const struct http_door *door, FILE *out)
{
    fprintf(out, "door's ");
}

void metrics_write(const struct host *it, FILE *out)
{
    assert_ptr_equal(it, host);
    fprintf(out, "host's ");
}

struct json_object *status_object(struct host *it)
{
    assert_ptr_equal(it, host);
    return json_object_new_string("the status");
}

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*ready)(void *ctx, uint32_t events), void *ctx)
{
    assert_int_equal(fd, 77);
    assert_int_equal(events, EPOLLIN);
    on_ready = ready;
    ctx_of_ready = ctx;
    return made("watch", &a_watch);
}

void loop_unwatch(struct loop_watch *watch)
{
    note("-watch ");
}

void loop_join(struct loop *loop, struct loop_member *it)
{
    note("join ");
    member = it;
}

void loop_leave(struct loop *loop, struct loop_member *it)
{
    assert_ptr_equal(it, member);
    note("leave ");
}

/* ---- the stage ------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    host = calloc(1, sizeof *host);
    assert_non_null(host);
    config = (struct host_config){.cntlid_min = 9, .rdma_connection_max = 8};
    host->config = &config;
    host->loop = (struct loop *)&a_loop;
    host->uma = (struct uma *)&an_uma;
    host->cta = (struct cta *)&a_cta;
    failing = "";
    done[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    free(host);
    return 0;
}

static void expect(const char *words)
{
    assert_string_equal(done, words);
    done[0] = '\0';
}

static void listen_at(bool has_nbd, bool has_nvme_rdma, bool has_nvme_tcp, bool has_iscsi,
                      bool has_iscsi_rdma)
{
    config.nbd_listen = (struct addresses){.count = has_nbd, .of = {"nbd:1"}};
    config.nvme_rdma_listen = (struct addresses){.count = has_nvme_rdma, .of = {"nr:1"}};
    config.nvme_tcp_listen = (struct addresses){.count = has_nvme_tcp, .of = {"nt:1"}};
    config.iscsi_listen = (struct addresses){.count = has_iscsi, .of = {"i:1"}};
    config.iscsi_rdma_listen = (struct addresses){.count = has_iscsi_rdma, .of = {"ir:1"}};
}

/* ---- which there are ------------------------------------------------------------------------- */

static void all_are_made_in_the_order_of_their_uris(void **state)
{
    static const char *const options[] = {"nbd", "nvme-rdma", "nvme-tcp", "iscsi", "iscsi-rdma"};
    listen_at(true, true, true, true, true);
    assert_int_equal(host_ttss_create(host), 0);
    expect("nvme nbd +nbd nvme-rdma +nvme-rdma nvme-tcp +nvme-tcp target iscsi +iscsi iscsi-rdma "
           "+iscsi-rdma +nvme ");
    assert_int_equal(host->tts_count, HOST_TTS_COUNT_MAX);
    for (unsigned i = 0; i < HOST_TTS_COUNT_MAX; i++) {
        assert_string_equal(host->ttss[i].option, options[i]);
    }
    assert_ptr_equal(host->ttss[0].listen, &config.nbd_listen);
    assert_ptr_equal(host->ttss[1].listen, &config.nvme_rdma_listen);
    assert_ptr_equal(host->ttss[2].listen, &config.nvme_tcp_listen);
    assert_ptr_equal(host->ttss[3].listen, &config.iscsi_listen);
    assert_ptr_equal(host->ttss[4].listen, &config.iscsi_rdma_listen);
    host_ttss_destroy(host);
    expect("-nbd -nvme-rdma -nvme-tcp -iscsi -iscsi-rdma -target -nvme ");
}

static void what_was_not_asked_for_is_not_made(void **state)
{
    static const char *const words[] = {"nvme nbd +nbd +nvme ", "nvme nvme-rdma +nvme-rdma +nvme ",
                                        "nvme nvme-tcp +nvme-tcp +nvme ",
                                        "nvme target iscsi +iscsi +nvme ",
                                        "nvme target iscsi-rdma +iscsi-rdma +nvme "};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        tear_down(state);
        set_up(state);
        listen_at(i == 0, i == 1, i == 2, i == 3, i == 4);
        assert_int_equal(host_ttss_create(host), 0);
        expect(words[i]);
    }
}

static void one_that_cannot_be_made_is_the_end_of_it(void **state)
{
    static const struct {
        const char *failing, *words;
    } cases[] = {
        {"nvme", "nvme "},
        {"nbd", "nvme nbd "},
        {"nvme-rdma", "nvme nbd +nbd nvme-rdma "},
        {"nvme-tcp", "nvme nbd +nbd nvme-rdma +nvme-rdma nvme-tcp "},
        {"target", "nvme nbd +nbd nvme-rdma +nvme-rdma nvme-tcp +nvme-tcp target "},
        {"iscsi", "nvme nbd +nbd nvme-rdma +nvme-rdma nvme-tcp +nvme-tcp target iscsi "},
        {"iscsi-rdma", "nvme nbd +nbd nvme-rdma +nvme-rdma nvme-tcp +nvme-tcp target iscsi +iscsi "
                       "iscsi-rdma "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tear_down(state);
        set_up(state);
        listen_at(true, true, true, true, true);
        failing = cases[i].failing;
        assert_int_equal(host_ttss_create(host), -ENOMEM);
        expect(cases[i].words);
    }
}

/* ---- what they stand on ---------------------------------------------------------------------- */

static void each_has_what_it_stands_on(void **state)
{
    listen_at(true, true, true, true, true);
    host_ttss_create(host);
    assert_ptr_equal(nbd.loop, &a_loop);
    assert_ptr_equal(nbd.uma, &uma_for_tts);
    assert_ptr_equal(nbd.uma_ctx, &an_uma);
    assert_ptr_equal(nbd.cta, &cta_for_tts);
    assert_ptr_equal(nbd.cta_ctx, &a_cta);
    assert_ptr_equal(nbd.ctx, host);
    assert_string_equal(nbd.listen.of[0], "nbd:1");
    assert_ptr_equal(nvme.uma, &uma_for_tts);
    assert_ptr_equal(nvme.uma_ctx, &an_uma);
    assert_ptr_equal(nvme.cta, &cta_for_tts);
    assert_ptr_equal(nvme.cta_ctx, &a_cta);
    assert_int_equal(nvme.cntlid_min, 9);
    assert_ptr_equal(nvme_rdma.loop, &a_loop);
    assert_ptr_equal(nvme_rdma.target, &of_nvme);
    assert_int_equal(nvme_rdma.pool.len, 42);
    assert_ptr_equal(nvme_rdma.pool_is_pinned, &host->pool.is_pinned);
    assert_int_equal(nvme_rdma.connection_max, 8);
    assert_string_equal(nvme_rdma.listen.of[0], "nr:1");
    assert_ptr_equal(nvme_tcp.loop, &a_loop);
    assert_ptr_equal(nvme_tcp.target, &of_nvme);
    assert_string_equal(nvme_tcp.listen.of[0], "nt:1");
    assert_ptr_equal(iscsi.uma, &uma_for_tts);
    assert_ptr_equal(iscsi.uma_ctx, &an_uma);
    assert_ptr_equal(iscsi.cta, &cta_for_tts);
    assert_ptr_equal(iscsi.cta_ctx, &a_cta);
    assert_ptr_equal(iscsi.accounts, &host->accounts);
    assert_ptr_equal(iscsi_tcp.iscsi, &of_iscsi);
    assert_ptr_equal(iscsi_tcp.loop, &a_loop);
    assert_string_equal(iscsi_tcp.listen.of[0], "i:1");
    assert_ptr_equal(iscsi_rdma.iscsi, &of_iscsi);
    assert_ptr_equal(iscsi_rdma.loop, &a_loop);
    assert_int_equal(iscsi_rdma.pool.len, 42);
    assert_ptr_equal(iscsi_rdma.pool_is_pinned, &host->pool.is_pinned);
    assert_int_equal(iscsi_rdma.connection_max, 8);
    assert_string_equal(iscsi_rdma.listen.of[0], "ir:1");
}

static void all_have_the_same_patience(void **state)
{
    static const struct {
        duration_ns asked, had;
    } cases[] = {{0, 30 * NS_PER_S}, {1, 1}, {7 * NS_PER_S, 7 * NS_PER_S}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tear_down(state);
        set_up(state);
        listen_at(true, true, true, true, true);
        config.patience_ns = cases[i].asked;
        host_ttss_create(host);
        assert_true(nbd.patience_ns == cases[i].had);
        assert_true(nvme_rdma.patience_ns == cases[i].had);
        assert_true(nvme_tcp.patience_ns == cases[i].had);
        assert_true(iscsi_tcp.patience_ns == cases[i].had);
        assert_true(iscsi_rdma.patience_ns == cases[i].had);
    }
}

static void a_stranger_fills_no_log(void **state)
{
    void (*const says[])(void *ctx, const char *from, const char *line) = {
        nbd.say, nvme.say, nvme_rdma.say, nvme_tcp.say, iscsi.say};
    for (unsigned i = 0; i < sizeof says / sizeof says[0]; i++) {
        assert_non_null(says[i]);
        assert_ptr_equal(says[i], nbd.say);
    }
    nbd.say(host, "192.0.2.7", "hello");
    assert_non_null(strstr(done, "hello"));
    for (unsigned i = 0; i < 1000; i++) {
        done[0] = '\0';
        nbd.say(host, "192.0.2.7", "hello");
    }
    expect("");
}

static void random_octets_are_of_the_kernel(void **state)
{
    uint8_t one[16] = {0}, other[16] = {0}, untouched[2] = {7, 7};
    iscsi.randomize(iscsi.ctx, one, sizeof one);
    iscsi.randomize(iscsi.ctx, other, sizeof other);
    assert_memory_not_equal(one, other, sizeof one);
    iscsi.randomize(iscsi.ctx, untouched, 0);
    assert_int_equal(untouched[0], 7);
}

static void a_uri_is_that_of_its_service(void **state)
{
    static const struct resource row = {.name = "disk", .volume = 7};
    char uri[HOST_URI_MAX];
    listen_at(true, false, false, false, false);
    host_ttss_create(host);
    is_by = false;
    assert_false(host_uri(host, 0, &row, 0, uri));
    is_by = true;
    assert_true(host_uri(host, 0, &row, 0, uri));
    assert_string_equal(uri, "nbd:disk:0");
    assert_false(host_uri(host, 0, &row, 1, uri));
}

/* ---- by HTTP --------------------------------------------------------------------------------- */

// What is written under a path.
static const char *got(const char *path)
{
    static char text[4096];
    for (size_t i = 0; i < door_parts.count; i++) {
        if (strcmp(door_parts.resources[i].path, path) == 0) {
            FILE *out = fmemopen(text, sizeof text, "w");
            assert_non_null(out);
            door_parts.resources[i].write(door_parts.ctx, out);
            fclose(out);
            return text;
        }
    }
    return NULL;
}

static void metrics_alone_have_no_page(void **state)
{
    struct why why = {""};
    struct host_web *web = web_create(host, "h:80", false, &why);
    assert_non_null(web);
    expect("door watch join ");
    assert_int_equal(door_parts.count, 1);
    assert_string_equal(got("/metrics"), "host's door's ");
    assert_null(got("/status.json"));
    web_destroy(web);
    expect("leave -watch -door ");
    web_destroy(NULL);
    expect("");
}

static void a_page_has_status_and_metrics(void **state)
{
    struct why why = {""};
    char address[64];
    struct host_web *web = web_create(host, "h:80", true, &why);
    assert_non_null(web);
    done[0] = '\0';
    assert_true(door_parts.count > 2);
    assert_string_equal(got("/metrics"), "host's door's ");
    const char *status = got("/status.json");
    assert_non_null(status);
    assert_non_null(strstr(status, "the status"));
    assert_non_null(strstr(status, "weft serve"));
    struct json_object *parsed = json_tokener_parse(status);
    assert_non_null(parsed);
    json_object_put(parsed);
    web_address(web, address, sizeof address);
    assert_string_equal(address, "http://h/");
    on_ready(ctx_of_ready, EPOLLIN);
    member->on_deadline(member->ctx, 60);
    expect("run@50 run@60 ");
    assert_int_equal(member->next_deadline(member->ctx), NOW + 5);
    web_destroy(web);
}

static void a_page_that_cannot_be_had_has_a_reason(void **state)
{
    struct why why = {""};
    failing = "door";
    assert_null(web_create(host, "h:80", true, &why));
    assert_string_equal(why.text, "it is taken");
    expect("door ");
    failing = "watch";
    assert_null(web_create(host, "h:80", true, &why));
    assert_string_equal(why.text, "no memory");
    expect("door watch -door ");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(all_are_made_in_the_order_of_their_uris),
        TEST(what_was_not_asked_for_is_not_made),
        TEST(one_that_cannot_be_made_is_the_end_of_it),
        TEST(each_has_what_it_stands_on),
        TEST(all_have_the_same_patience),
        TEST(a_stranger_fills_no_log),
        TEST(random_octets_are_of_the_kernel),
        TEST(a_uri_is_that_of_its_service),
        TEST(metrics_alone_have_no_page),
        TEST(a_page_has_status_and_metrics),
        TEST(a_page_that_cannot_be_had_has_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
