// What a hostile RTA sends to its host beside the bus: messages of any length with any number of
// descriptors. Each step of an input is
//
//     kind  number  error  cut | descriptors << 6  octets  octets ...
//
// the octets going over the start of the URI, profile or counters, the error all over the reason.
// After each input every descriptor that came is closed, and what the UMA knows of the volume makes
// sense.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "node/unit/channel.h"
#include "tests/node/uma_stage.h"

enum { STEP_LEN = 5, DESCRIPTORS_MAX = 3, CUT_MAX = 64, DESCRIPTOR_NUMBERS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void close_keepsake(void *ctx, int keepsake)
{
    close(keepsake);
}

static unsigned open_count(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < DESCRIPTOR_NUMBERS; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

// The stage is told; a unit that breaks the rules of the channel is ended, as the host does it.
static void host_hears(struct stage *s, int fd)
{
    struct unit_message message;
    int keepsake = -1;
    int got = channel_receive(fd, &message, &keepsake);
    if (got == 1) {
        const char *end = memchr(message.why, '\0', sizeof message.why);
        CHECK(end != NULL && (end == message.why || (unsigned char)message.why[0] >= ' '));
        CHECK(keepsake < 0 || message.kind == UNIT_OPEN);
        uma_on_message(s->uma, 0, &message, keepsake, s->now);
    } else {
        CHECK(keepsake < 0 && got != -EAGAIN);
        uma_on_exit(s->uma, 0, "it broke the rules", s->now);
        s->now = instant_after(s->now, NS_PER_S);
        uma_on_deadline(s->uma, s->now);
    }
}

static void rta_says(int fd, const struct unit_message *message, size_t len, unsigned descriptors)
{
    union {
        struct cmsghdr header;
        char octets[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    } ancillary = {.octets = {0}};
    static uint8_t octets[sizeof *message + CUT_MAX];
    struct iovec iov = {.iov_base = octets, .iov_len = len};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    memcpy(octets, message, sizeof *message);
    if (descriptors > 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        header.msg_control = ancillary.octets;
        header.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
        for (unsigned i = 0; i < descriptors; i++) {
            memcpy(CMSG_DATA(c) + i * sizeof null, &null, sizeof null);
        }
        sendmsg(fd, &header, 0);
        close(null);
    } else {
        sendmsg(fd, &header, 0);
    }
}

// One step; how long it was, or 0: there is none.
static size_t step(struct stage *s, const int *fds, const uint8_t *data, size_t size)
{
    struct unit_message message = {.version = UMA_RTA_VERSION};
    if (size < STEP_LEN) {
        return 0;
    }
    size_t len = data[4] < size - STEP_LEN ? data[4] : size - STEP_LEN;
    unsigned cut = data[3] % CUT_MAX;
    message.kind = data[0];
    message.volume = data[1] % 4 == 0 ? s->volume : data[1];
    message.connection = data[1] % 4 == 0 ? s->connection : data[1];
    message.error = (int8_t)data[2];
    if (data[0] == UNIT_OPEN && data[1] % 8 == 4) {
        message = opened(s->volume);
    }
    memset(message.why, data[2], sizeof message.why);
    memcpy(message.uri, data + STEP_LEN, len);
    rta_says(fds[1], &message, cut % 2 == 0 ? sizeof message - cut : sizeof message + cut,
             data[3] >> 6);
    host_hears(s, fds[0]);
    return STEP_LEN + len;
}

static void check_table(const struct stage *s)
{
    const struct resource_table *table = uma_resources(s->uma);
    for (unsigned i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        CHECK(row->state != RESOURCE_READY || volume_profile_is_sane(&row->profile));
        CHECK(memchr(row->name, '\0', sizeof row->name) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct volume_wish w = wish("a");
    unsigned before = open_count();
    int fds[2];
    struct stage *s = stage_create();
    s->uma->parts.close_keepsake = close_keepsake;
    int error = channel_pair(fds);
    CHECK(error == 0);
    error = uma_volume_add(s->uma, &w, s->now);
    CHECK(error == 0);
    uma_start(s->uma, s->now);
    for (size_t len; (len = step(s, fds, data, size)) > 0; data += len, size -= len) {
        check_table(s);
        s->notes[0] = '\0';
    }
    close(fds[0]);
    close(fds[1]);
    stage_destroy(s);
    CHECK(open_count() == before);
    return 0;
}
