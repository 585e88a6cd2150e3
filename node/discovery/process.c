#include "node/discovery/process.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "base/time.h"
#include "base/why.h"
#include "node/discovery/announcer.h"
#include "node/discovery/asker.h"
#include "node/discovery/asking.h"
#include "node/discovery/envoy.h"
#include "node/discovery/remote_uri.h"
#include "node/discovery/report.h"
#include "node/loop/loop.h"
#include "node/unit/confinement.h"
#include "node/unit/self.h"

static const duration_ns read_within_ns = 45 * NS_PER_S; // before the host loses patience
static const duration_ns pause_first_ns = 1 * NS_PER_S, pause_last_ns = 60 * NS_PER_S;
// Whoever tells of news again and again is asked no more often.
static const duration_ns pause_least_ns = 500 * NS_PER_MS;

enum { MEMORY_MAX_LEN = 256 << 20 }; // whatever strangers send

/* ---- asking ---------------------------------------------------------------------------------- */

struct work {
    int channel;
    struct remote_uri uri;
    const struct asker *asker;
    void *self;
    duration_ns pause_ns; // after a reading in vain
};

// 0 or a negative errno.
static int read_once(struct work *work)
{
    struct asking asking = {.uri = &work->uri,
                            .channel = work->channel,
                            .until = instant_after(loop_clock(), read_within_ns)};
    struct why why = {""};
    asking_begin(&asking);
    int error = work->asker->read(work->self, &asking, &why);
    asking_end(&asking, error, why.text);
    return error;
}

// True: it is to be read again at once. The host's end is the end.
static bool on_order(const struct work *work)
{
    struct order order;
    ssize_t got = recv(work->channel, &order, sizeof order, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        exit(EXIT_SUCCESS);
    }
    return got == sizeof order && order.kind == ORDER_AGAIN;
}

// Until the time is up, the host orders it, or there are news.
static void rest(const struct work *work, duration_ns pause)
{
    instant_ns begin = loop_clock(), until = instant_after(begin, pause);
    bool has_fd = work->asker->news_fd != NULL;
    bool is_due = has_fd && work->asker->has_news(work->self); // which came with the last answers
    for (instant_ns now; !is_due && (now = loop_clock()) < until;) {
        struct pollfd ready[] = {
            {.fd = work->channel, .events = POLLIN},
            {.fd = has_fd ? work->asker->news_fd(work->self) : -1, .events = POLLIN}};
        poll(ready, 2, poll_ms(now, until));
        is_due = ready[0].revents != 0 && on_order(work);
        is_due |= ready[1].revents != 0 && work->asker->has_news(work->self);
    }
    duration_ns rested = loop_clock() - begin;
    if (rested < pause_least_ns) {
        poll(NULL, 0, (int)((pause_least_ns - rested) / NS_PER_MS));
    }
}

static void work_on(struct work *work)
{
    for (;;) {
        int error = read_once(work);
        rest(work, error == 0 ? work->uri.interval_ns : work->pause_ns);
        duration_ns longer =
            work->pause_ns * 2 < pause_last_ns ? work->pause_ns * 2 : pause_last_ns;
        work->pause_ns = error == 0 ? pause_first_ns : longer;
    }
}

static const struct asker *asker_of(const char *driver)
{
    static const struct asker *const askers[] = {&asker_portal, &asker_service_tcp,
                                                 &asker_service_rdma};
    for (unsigned i = 0; i < sizeof askers / sizeof askers[0]; i++) {
        if (strcmp(askers[i]->driver, driver) == 0) {
            return askers[i];
        }
    }
    return NULL;
}

// What the system looks names up with is loaded before nothing can be loaded any more.
static void resolver_load(void)
{
    struct addrinfo *found = NULL;
    if (getaddrinfo("localhost", "1", NULL, &found) == 0) {
        freeaddrinfo(found);
    }
}

static int ask(int channel, const char *uri)
{
    struct work work = {.channel = channel, .pause_ns = pause_first_ns};
    struct why why;
    if (remote_uri_parse(uri, &work.uri, &why) != 0) {
        return EXIT_FAILURE;
    }
    work.asker = asker_of(work.uri.driver);
    work.self = work.asker != NULL ? work.asker->create(&work.uri) : NULL;
    if (work.self == NULL) {
        return EXIT_FAILURE;
    }
    resolver_load();
    const char *const *calls = work.asker->calls();
    if (calls != NULL) {
        confinement_narrow_to(calls);
    }
    work_on(&work);
    return EXIT_SUCCESS;
}

/* ---- the process ----------------------------------------------------------------------------- */

int discovery_process_main(void)
{
    struct order order;
    confinement_begin();
    confinement_limit_memory(MEMORY_MAX_LEN);
    self_ignore_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL); // where it blocks it does not see the host's end
    prctl(PR_SET_NAME, "weft-discovery");
    setenv("WEFT_VIEW_FILES", "off", 0);
    if (fcntl(ENVOY_FD_CHANNEL, F_SETFD, FD_CLOEXEC) != 0) {
        fputs("weft: this command is for weft itself\n", stderr);
        return EXIT_FAILURE;
    }
    if (recv(ENVOY_FD_CHANNEL, &order, sizeof order, 0) != sizeof order) {
        return EXIT_FAILURE;
    }
    order.text[sizeof order.text - 1] = '\0';
    switch (order.kind) {
    case ORDER_ASK:
        return ask(ENVOY_FD_CHANNEL, order.text);
    case ORDER_ANNOUNCE:
        return announcer_process_main(ENVOY_FD_CHANNEL, order.text, (uint16_t)order.port);
    default:
        return EXIT_FAILURE;
    }
}
