#include "host/pressure_events.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "descriptor/descriptor.h"
#include "link/sys.h"

// What a trigger would be asked for (host/pressure.c).
static const duration_ns window_ns = 2 * NS_PER_S;
static const uint64_t short_us = 100000;

static int group_file_open(const char *folder, const char *name)
{
    char path[2048];
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    return len < (int)sizeof path ? descriptor_above_standard(open(path, O_RDONLY | O_CLOEXEC))
                                  : -1;
}

// Reading also tells the kernel that what was changed till now is known. False: the group is gone.
static bool file_read(int fd, char *ret, size_t size)
{
    long len = syscall(SYS_pread64, fd, ret, size - 1, 0L);
    ret[len > 0 ? len : 0] = '\0';
    return len > 0;
}

// The number behind a word; 0 without it.
static uint64_t number_behind(const char *text, const char *word)
{
    uint64_t number = 0;
    const char *at = strstr(text, word);
    return at != NULL && sscanf(at + strlen(word), "%" SCNu64, &number) == 1 ? number : 0;
}

// memory.pressure: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", then the same of "full".
static bool stalled_read(const struct pressure_events *e, uint64_t *ret_us)
{
    char text[256];
    bool is_read = file_read(e->stall_fd, text, sizeof text);
    *ret_us = number_behind(text, "total=");
    return is_read;
}

// memory.events: "low 0", "high 0", "max 0" and more, a line each.
static bool met_read(const struct pressure_events *e, uint64_t *ret)
{
    char text[512];
    bool is_read = file_read(e->fd, text, sizeof text);
    *ret = number_behind(text, "high ") + number_behind(text, "max ");
    return is_read;
}

void pressure_events_open(struct pressure_events *e, const char *group_folder)
{
    uint64_t ignored;
    *e = (struct pressure_events){.fd = group_file_open(group_folder, "memory.events"),
                                  .stall_fd = group_file_open(group_folder, "memory.pressure")};
    if (e->stall_fd >= 0 && !stalled_read(e, &ignored)) {
        sys_close_fd(&e->stall_fd); // the kernel was started without PSI
    }
    if (e->fd >= 0 && !met_read(e, &e->met_count)) {
        pressure_events_close(e);
    }
}

void pressure_events_close(struct pressure_events *e)
{
    sys_close_fd(&e->fd);
    sys_close_fd(&e->stall_fd);
    e->window_end_ns = 0;
}

int pressure_events_poll_fd(const struct pressure_events *e)
{
    return e->window_end_ns == 0 ? e->fd : -1;
}

// What is counted now; the difference is what came in the window. Without PSI a limit that is met
// all the time is as much as is known.
static bool window_is_short(struct pressure_events *e, bool *ret_is_there)
{
    uint64_t stalled_us = 0, met_count = 0;
    *ret_is_there = met_read(e, &met_count) && (e->stall_fd < 0 || stalled_read(e, &stalled_us));
    bool is_short =
        e->stall_fd >= 0 ? stalled_us - e->stalled_us >= short_us : met_count != e->met_count;
    e->stalled_us = stalled_us;
    e->met_count = met_count;
    return *ret_is_there && is_short;
}

bool pressure_events_look(struct pressure_events *e, bool has_news, instant_ns now)
{
    bool is_there = true, is_short = false;
    if (e->window_end_ns != 0) {
        if (now < e->window_end_ns) {
            return false;
        }
        is_short = window_is_short(e, &is_there);
        e->window_end_ns = is_short ? instant_after(now, window_ns) : 0;
    } else if (has_news) {
        window_is_short(e, &is_there);
        e->window_end_ns = instant_after(now, window_ns);
    }
    if (!is_there) {
        pressure_events_close(e);
    }
    return is_short;
}
