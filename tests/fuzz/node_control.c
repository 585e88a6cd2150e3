// Any octets at a node's control socket, in two parts: the first octet says where they are cut.
// What stands behind the requests is made up here; a request is carried out once at most, and its
// answer is JSON that says so.
#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "control/runtime.h"
#include "node/host/agent.h"
#include "node/host/control.h"
#include "node/host/status.h"
#include "node/host/wish.h"

enum { ANSWER_MAX = 1 << 16, TURNS = 3 };

static struct host host;
static struct host_config config;
static char folder[] = "/tmp/weft-fuzz-XXXXXX";
static unsigned calls;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what stands behind it ------------------------------------------------------------------- */

int host_volume_add(struct host *h, const struct volume_wish *wish, struct why *ret_why)
{
    CHECK(h == &host && config.takes_volumes && wish_name_is_good(wish->name));
    why_say(ret_why, "it is taken");
    return ++calls % 2 == 0 ? 0 : -EEXIST;
}

int host_rescan(struct host *h, host_note *note, void *ctx, struct why *ret_why)
{
    note(ctx, "a", "removed");
    why_say(ret_why, "the file cannot be read");
    return ++calls % 2 == 0 ? 0 : -ENOENT;
}

bool host_volumes_are_settled(const struct host *h)
{
    return true;
}

void host_say(void *ctx, const char *line)
{
    CHECK(line == NULL); // it has its socket
}

struct json_object *status_object(struct host *h)
{
    return json_object_new_object();
}

void uma_ask_counters(struct uma *uma)
{
    calls++;
}

const struct resource_table *uma_resources(const struct uma *uma)
{
    static const struct resource_table table;
    return &table;
}

bool uma_has_volume(const struct uma *uma, const char *name)
{
    return false;
}

const char *uma_volume_why(const struct uma *uma, uint32_t volume)
{
    return "";
}

int uma_volume_stand_by(struct uma *uma, const char *name, instant_ns now)
{
    static const int answers[] = {0, -EINVAL, -EALREADY, -ENOENT};
    return answers[++calls % 4];
}

int uma_volume_remove(struct uma *uma, const char *name, instant_ns now)
{
    calls++;
    return strcmp(name, "a") == 0 ? 0 : -ENOENT;
}

/* ---- turns of the loop ----------------------------------------------------------------------- */

static void stop(void *ctx, instant_ns now)
{
    loop_stop(ctx);
}

static bool may_sleep(void *ctx)
{
    return false;
}

static void turn(void)
{
    for (unsigned i = 0; i < TURNS; i++) {
        loop_run(host.loop);
    }
}

static void leave(void)
{
    control_destroy(host.control);
    rmdir(folder);
}

static void make(void)
{
    static struct loop_member member = {.on_batch_end = stop, .may_sleep = may_sleep};
    bool is_made = mkdtemp(folder) != NULL && setenv("WEFT_RUNTIME_DIR", folder, 1) == 0;
    CHECK(is_made);
    host.config = &config;
    host.loop = loop_create();
    CHECK(host.loop != NULL);
    member.ctx = host.loop;
    loop_join(host.loop, &member);
    host.control = control_create(&host);
    CHECK(host.control != NULL);
    atexit(leave);
}

static int ask(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = runtime_path(folder, RUNTIME_NODE, getpid(), addr.sun_path);
    CHECK(fd >= 0 && error == 0);
    error = connect(fd, (struct sockaddr *)&addr, sizeof addr);
    CHECK(error == 0);
    turn();
    return fd;
}

static void check_answer(const char *text)
{
    struct json_object *object = json_tokener_parse(text), *ok = NULL, *why = NULL;
    CHECK(json_object_is_type(object, json_type_object));
    if (json_object_object_get_ex(object, "ok", &ok) && !json_object_get_boolean(ok)) {
        bool has_reason = json_object_object_get_ex(object, "why", &why);
        CHECK(has_reason && json_object_get_string(why)[0] != '\0');
    }
    json_object_put(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char answer[ANSWER_MAX];
    if (host.control == NULL) {
        make();
    }
    if (size == 0) {
        return 0;
    }
    size_t cut = data[0] < size - 1 ? data[0] : size - 1, len = 0;
    int fd = ask();
    calls = 0;
    config.takes_volumes = data[0] % 2 == 0;
    send(fd, data + 1, cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    turn();
    send(fd, data + 1 + cut, size - 1 - cut, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    turn();
    for (ssize_t got; (got = recv(fd, answer + len, ANSWER_MAX - 1 - len, MSG_DONTWAIT)) > 0;) {
        len += (size_t)got;
    }
    answer[len] = '\0';
    close(fd);
    turn();
    CHECK(calls <= 1);
    if (len > 0) {
        check_answer(answer);
    }
    return 0;
}
