#include "node/host/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/time.h"
#include "base/why.h"
#include "http/door.h"
#include "http/exposition.h"
#include "http/page.h"
#include "node/host/agent.h"
#include "node/host/metrics.h"
#include "node/host/status.h"
#include "node/loop/loop.h"

struct host_web {
    struct host *host;
    struct http_door *door;
    struct loop_watch *watch;
    struct loop_member member;
    size_t count;
    struct http_resource resources[HTTP_RESOURCE_MAX];
};

/* ---- what is written ------------------------------------------------------------------------- */

static void write_status(void *ctx, FILE *out)
{
    struct host_web *web = ctx;
    struct page_status status;
    struct json_object *answers = json_object_new_array();
    json_object_array_add(answers, status_object(web->host));
    page_status_begin(&status, out, "serve", loop_now(web->host->loop));
    page_status_put(&status, getpid(), true, "weft serve", "ok", answers);
    page_status_end(&status, 0);
    json_object_put(answers);
}

static void write_metrics(void *ctx, FILE *out)
{
    struct host_web *web = ctx;
    metrics_write(web->host, out);
    http_door_write_metrics(web->door, out);
}

static const struct http_resource own[] = {
    {.path = "/metrics", .type = EXPOSITION_TYPE, .write = write_metrics},
    {.path = "/status.json", .type = "application/json", .write = write_status},
};

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_ready(void *ctx, uint32_t events)
{
    struct host_web *web = ctx;
    http_door_run(web->door, loop_now(web->host->loop));
}

static instant_ns next_deadline(void *ctx)
{
    const struct host_web *web = ctx;
    return http_door_next_deadline(web->door, loop_now(web->host->loop));
}

static void on_deadline(void *ctx, instant_ns now)
{
    http_door_run(((struct host_web *)ctx)->door, now);
}

static bool join(struct host_web *web)
{
    struct loop *loop = web->host->loop;
    web->watch = loop_watch(loop, http_door_fd(web->door), EPOLLIN, on_ready, web);
    if (web->watch == NULL) {
        return false;
    }
    web->member = (struct loop_member){
        .ctx = web, .next_deadline = next_deadline, .on_deadline = on_deadline};
    loop_join(loop, &web->member);
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct host_web *web_create(struct host *host, const char *listen, bool has_page,
                            struct why *ret_why)
{
    struct host_web *web = calloc(1, sizeof *web);
    if (web == NULL) {
        why_say(ret_why, "no memory");
        return NULL;
    }
    web->host = host;
    web->count = page_resources(own, sizeof own / sizeof own[0], web->resources);
    const struct http_door_parts all = {
        .ctx = web, .resources = web->resources, .count = web->count};
    const struct http_door_parts metrics_alone = {.ctx = web, .resources = own, .count = 1};
    web->door = http_door_open(listen, has_page ? &all : &metrics_alone, ret_why);
    if (web->door != NULL && !join(web)) {
        why_say(ret_why, "no memory");
        http_door_close(web->door);
        web->door = NULL;
    }
    if (web->door == NULL) {
        free(web);
        return NULL;
    }
    return web;
}

void web_destroy(struct host_web *web)
{
    if (web != NULL) {
        loop_leave(web->host->loop, &web->member);
        loop_unwatch(web->watch);
        http_door_close(web->door);
        free(web);
    }
}

void web_address(const struct host_web *web, char *ret, size_t capacity)
{
    http_door_address(web->door, ret, capacity);
}
