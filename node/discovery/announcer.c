#include "node/discovery/announcer.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/why.h"
#include "node/discovery/envoy.h"
#include "node/discovery/report.h"
#include "node/mdns/mdns.h"
#include "node/unit/confinement.h"
#include "text/show.h"

enum { NAME_MAX_LEN = 63 }; // of a service (RFC 6763, section 4.1.1)

struct announcer {
    struct announcer_parts parts;
    struct envoy *envoy;
    bool is_announced;
    struct why text; // what it is called, or why it is not announced
};

/* ---- the host's side ------------------------------------------------------------------------- */

// What is known already is not said again.
static void state_set(struct announcer *announcer, bool is_announced, const char *text)
{
    char line[WHY_MAX + 128];
    struct why tame;
    why_say(&tame, "%s", text);
    text_tame(tame.text, sizeof tame.text);
    text_tame_utf8(tame.text);
    bool is_known =
        announcer->is_announced == is_announced && strcmp(announcer->text.text, tame.text) == 0;
    announcer->is_announced = is_announced;
    announcer->text = tame;
    if (!is_known) {
        snprintf(line, sizeof line,
                 is_announced ? "NVMe discovery is announced by mDNS as \"%s\", port %u"
                              : "NVMe discovery is not announced by mDNS: %s (port %u)",
                 tame.text, announcer->parts.port);
        announcer->parts.say(announcer->parts.ctx, line);
    }
}

static void on_report(void *ctx, const struct report *report)
{
    struct announcer *announcer = ctx;
    if (report->kind == REPORT_END) {
        envoy_is_well(announcer->envoy);
        state_set(announcer, true, report->text);
    } else if (report->kind == REPORT_FAILED) {
        state_set(announcer, false, report->text);
    } else {
        envoy_kill(announcer->envoy);
    }
}

// Why, it has mostly said before.
static void on_end(void *ctx, const char *how)
{
    struct announcer *announcer = ctx;
    if (announcer->is_announced || announcer->text.text[0] == '\0') {
        state_set(announcer, false, how);
    }
}

static void name_make(char ret[NAME_MAX_LEN + 1])
{
    char host[NAME_MAX_LEN - 5] = "";
    gethostname(host, sizeof host - 1);
    snprintf(ret, NAME_MAX_LEN + 1, "weft %s", host);
}

struct announcer *announcer_create(const struct announcer_parts *parts)
{
    struct announcer *announcer = calloc(1, sizeof *announcer);
    if (announcer == NULL) {
        return NULL;
    }
    announcer->parts = *parts;
    struct order task = {.kind = ORDER_ANNOUNCE, .port = parts->port};
    name_make(task.text);
    announcer->envoy = envoy_create(parts->loop, &task, on_report, on_end, announcer);
    if (announcer->envoy == NULL) {
        free(announcer);
        return NULL;
    }
    return announcer;
}

void announcer_destroy(struct announcer *announcer)
{
    if (announcer != NULL) {
        envoy_destroy(announcer->envoy);
        free(announcer);
    }
}

bool announcer_is_announced(const struct announcer *announcer, const char **ret_text)
{
    *ret_text = announcer->text.text;
    return announcer->is_announced;
}

/* ---- the process ----------------------------------------------------------------------------- */

// To speak with a daemon over D-Bus.
static const char *const calls[] = {
    "socket",     "connect",     "sendto",      "recvfrom", "shutdown", "getsockopt",
    "setsockopt", "getsockname", "getpeername", "pipe2",    "getuid",   "geteuid",
    "getresuid",  "access",      "readlink",    "uname",    NULL};

static void report(const int *channel, enum report_kind kind, const char *text)
{
    struct report message = {.kind = kind};
    snprintf(message.text, sizeof message.text, "%s", text);
    report_send(*channel, &message);
}

static void on_announced(void *ctx, const char *name)
{
    report(ctx, REPORT_END, name);
}

static void on_failed(void *ctx, const char *why)
{
    report(ctx, REPORT_FAILED, why);
}

int announcer_process_main(int channel, const char *name, uint16_t port)
{
    struct mdns mdns = {.ctx = &channel,
                        .name = name,
                        .port = port,
                        .on_announced = on_announced,
                        .on_failed = on_failed};
    void *module = dlopen("weft-mdns.so", RTLD_NOW | RTLD_LOCAL);
    mdns_announce_fn *announce = NULL;
    *(void **)&announce = module != NULL ? dlsym(module, MDNS_SYMBOL) : NULL;
    if (announce == NULL) {
        struct why why;
        why_say(
            &why,
            "weft's part for Avahi cannot be loaded: %.200s; it is in the package weft-mdns, or "
            "in what was built where libavahi-client-dev was there",
            dlerror());
        report(&channel, REPORT_FAILED, why.text);
        pause(); // which the host ends: it will not be there later
        return EXIT_FAILURE;
    }
    confinement_narrow_to(calls);
    announce(&mdns);
    return EXIT_FAILURE; // and another process takes its place
}
