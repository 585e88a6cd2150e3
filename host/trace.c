#include "host/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "host/clock.h"
#include "link/own_file.h"

static const char *const room_names[TRACE_ROOM_COUNT] = {
    [TRACE_MPA] = "mpa",   [TRACE_DDP] = "ddp",   [TRACE_RDMAP] = "rdmap", [TRACE_QP] = "qp",
    [TRACE_CQ] = "cq",     [TRACE_MEM] = "mem",   [TRACE_CONN] = "conn",   [TRACE_TCP] = "tcp",
    [TRACE_LINK] = "link", [TRACE_RNIC] = "rnic",
};

static void emit(struct trace *trace, enum trace_room room, const char *line)
{
    struct host_trace *t = LIST_ENTRY(trace, struct host_trace, trace);
    if (room == TRACE_ERROR) {
        fprintf(stderr, "weft: %s\n", line);
        return;
    }
    instant_ns now = host_clock(NULL);
    fprintf(t->file, "%" PRIu64 ".%06" PRIu64 " %d %s: %s\n", now / NS_PER_S,
            now % NS_PER_S / NS_PER_US, (int)getpid(), room_names[room], line);
}

// 0: there is no such room.
static uint32_t room_bits(const char *name, size_t name_len)
{
    if (name_len == 3 && strncmp(name, "all", name_len) == 0) {
        return (1U << TRACE_ROOM_COUNT) - 1;
    }
    for (unsigned i = 0; i < TRACE_ROOM_COUNT; i++) {
        if (strlen(room_names[i]) == name_len && strncmp(name, room_names[i], name_len) == 0) {
            return 1U << i;
        }
    }
    return 0;
}

bool host_trace_rooms_parse(const char *text, uint32_t *ret_rooms)
{
    uint32_t rooms = 0;
    while (*text != '\0') {
        size_t name_len = strcspn(text, ",");
        uint32_t bits = room_bits(text, name_len);
        if (bits == 0) {
            return false;
        }
        rooms |= bits;
        text += name_len;
        text += *text == ',' ? 1 : 0;
    }
    *ret_rooms = rooms;
    return true;
}

// Its first line is one as `emit` writes it.
static bool is_trace(struct span head)
{
    char line[OWN_FILE_HEAD_LEN + 1] = "", room[16];
    char end;
    memcpy(line, head.ptr, head.len);
    return sscanf(line, "%*u.%*6u %*u %15[a-z]%c", room, &end) == 2 && end == ':' &&
           room_bits(room, strlen(room)) != 0;
}

void host_trace_init(struct host_trace *t, const struct host_settings *settings)
{
    t->trace.emit = emit;
    t->trace.rooms = settings->trace_rooms | (settings->errors ? 1U << TRACE_ERROR : 0);
    t->file = stderr;
    if (settings->trace_path[0] != '\0') {
        int fd = own_file_open(settings->trace_path, O_APPEND, is_trace);
        FILE *file = fd >= 0 ? fdopen(fd, "a") : NULL;
        if (file == NULL) {
            fprintf(stderr,
                    "weft: cannot open %s (WEFT_TRACE_FILE): %s; tracing to standard error\n",
                    settings->trace_path, own_file_error(fd < 0 ? fd : -errno));
            return;
        }
        setvbuf(file, NULL, _IOLBF, 0);
        t->file = file;
    }
}
