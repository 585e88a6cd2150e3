#include "cli/draw_live.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "cli/say.h"
#include "clock/clock.h"

enum {
    LOOK_MS =
        200, // captures are looked at so often: to be told of each write would cost the writer
    AWAIT_MS = 100,
    SHARE = 4, // times as long as the drawing took pass until the next
    NOTICE_LEN = 4096,
    TABLE_LEN = 1 << 20, // what is longer is the kernel's again after each picture: zeros anew
};

static const duration_ns PAUSE_MIN_NS = NS_PER_S;

static sigset_t ending_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

bool draw_live_open(struct draw_live *live)
{
    sigset_t taken = ending_signals();
    *live = (struct draw_live){.signals = signalfd(-1, &taken, SFD_CLOEXEC),
                               .notices = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    if (live->signals < 0 || live->notices < 0) {
        say_error("no live picture", "this process", "raise the limit on open files (ulimit -n)",
                  "%m");
        draw_live_close(live);
        return false;
    }
    sigprocmask(SIG_BLOCK, &taken, NULL);
    mallopt(M_MMAP_THRESHOLD, TABLE_LEN);
    return true;
}

void draw_live_close(struct draw_live *live)
{
    if (live->signals >= 0) {
        close(live->signals);
    }
    if (live->notices >= 0) {
        close(live->notices);
    }
    live->signals = live->notices = -1;
}

bool draw_live_await(struct draw_live *live, const char *path)
{
    struct pollfd signals = {.fd = live->signals, .events = POLLIN};
    bool is_stopped = false;
    while (access(path, F_OK) != 0 && !is_stopped) {
        is_stopped = poll(&signals, 1, AWAIT_MS) > 0;
    }
    return !is_stopped;
}

// A lease for reading is not to be had while somebody has the file open to write, or by who does
// not own it. It is given back at once.
static bool is_closed(int fd)
{
    signal(SIGIO, SIG_IGN); // what tells of who would open it meanwhile
    return fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && fcntl(fd, F_SETLEASE, F_UNLCK) == 0;
}

// Of some file systems nobody is told: then a signal ends it.
void draw_live_follow(struct draw_live *live, const struct draw_file *file, unsigned number,
                      bool is_new)
{
    live->watch[number] =
        file->pipe < 0 ? inotify_add_watch(live->notices, file->path, IN_CLOSE_WRITE) : -1;
    if (is_new && is_closed(file->fd)) {
        live->watch[number] = -1;
    } else {
        live->open_count++;
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void on_closed(struct draw_live *live, int watch)
{
    for (unsigned i = 0; i < DRAW_FILE_MAX; i++) {
        if (live->watch[i] == watch) {
            live->watch[i] = -1;
            live->open_count--;
        }
    }
}

static void notices_read(struct draw_live *live)
{
    _Alignas(struct inotify_event) char buffer[NOTICE_LEN];
    for (;;) {
        ssize_t len = read(live->notices, buffer, sizeof buffer);
        if (len <= 0) {
            return;
        }
        for (ssize_t at = 0; at < len;) {
            const struct inotify_event *event = (const struct inotify_event *)(buffer + at);
            if ((event->mask & IN_CLOSE_WRITE) != 0) {
                on_closed(live, event->wd);
            }
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

// What the pipe of a file has, or its end. False: it was said why.
static bool pipe_read(struct draw_live *live, struct draw_file *file)
{
    if (!draw_file_take(file)) {
        return false;
    }
    live->open_count -= file->pipe < 0;
    return true;
}

static bool look(struct draw_file *files, unsigned count)
{
    bool has_changed = false;
    for (unsigned i = 0; i < count; i++) {
        has_changed |= draw_file_look(&files[i]);
    }
    return has_changed;
}

// One wait for any of them. False: it was said why.
static bool turn(struct draw_live *live, struct draw_file *files, unsigned count, int timeout_ms,
                 bool *ret_is_stopped)
{
    enum { SIGNALS, NOTICES, PIPES };
    struct pollfd fds[PIPES + DRAW_FILE_MAX] = {
        [SIGNALS] = {live->signals, POLLIN, 0}, [NOTICES] = {live->notices, POLLIN, 0}};
    for (unsigned i = 0; i < count; i++) {
        fds[PIPES + i] = (struct pollfd){.fd = files[i].pipe, .events = POLLIN};
    }
    poll(fds, PIPES + count, timeout_ms);
    *ret_is_stopped = fds[SIGNALS].revents != 0;
    notices_read(live);
    for (unsigned i = 0; i < count; i++) {
        if (fds[PIPES + i].revents != 0 && !pipe_read(live, &files[i])) {
            return false;
        }
    }
    return true;
}

// Who has no patience for the last picture sends another.
static void signals_let_go(const struct draw_live *live)
{
    struct signalfd_siginfo info;
    sigset_t taken = ending_signals();
    if (read(live->signals, &info, sizeof info) > 0) {
        sigprocmask(SIG_UNBLOCK, &taken, NULL);
    }
}

enum draw_live_news draw_live_wait(struct draw_live *live, struct draw_file *files, unsigned count)
{
    const instant_ns next = instant_after(live->drawn_at, live->pause);
    bool has_changed = look(files, count), is_stopped = false;
    while (live->open_count > 0) {
        const instant_ns now = clock_now();
        if (has_changed && now >= next) {
            return DRAW_LIVE_GREW;
        }
        if (!turn(live, files, count, has_changed ? poll_ms(now, next) : LOOK_MS, &is_stopped)) {
            return DRAW_LIVE_FAILED;
        }
        has_changed |= look(files, count);
        if (is_stopped) {
            signals_let_go(live);
            return DRAW_LIVE_STOPPED;
        }
    }
    return DRAW_LIVE_OVER;
}

void draw_live_on_drawn(struct draw_live *live, instant_ns began)
{
    live->drawn_at = clock_now();
    const duration_ns share = SHARE * (live->drawn_at - began);
    live->pause = share > PAUSE_MIN_NS ? share : PAUSE_MIN_NS;
}
