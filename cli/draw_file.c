#include "cli/draw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/span.h"
#include "cli/say.h"

enum { BUFFER_LEN = 4 << 20 };
_Static_assert((int)BUFFER_LEN >= 2 * (int)CAPTURE_NEED_MAX, "room for a packet behind another");

static bool fail(const struct draw_file *file, const char *what, const char *remedy, int error)
{
    say_error(what, file->path, remedy, "%s", strerror(error));
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

// An unnamed file with all that the pipe has to say; a negative errno.
static int keep_pipe(int pipe, uint8_t *buffer)
{
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    for (;;) {
        ssize_t len = read(pipe, buffer, BUFFER_LEN);
        if (len == 0) {
            return fd;
        }
        if (len < 0 && errno == EINTR) {
            continue;
        }
        if (len < 0 || write(fd, buffer, (size_t)len) != len) {
            int error = errno != 0 ? errno : ENOSPC;
            close(fd);
            return -error;
        }
    }
}

bool draw_file_open(struct draw_file *file, const char *path, uint16_t roce_port)
{
    bool is_stdin = strcmp(path, "-") == 0;
    *file =
        (struct draw_file){.path = is_stdin ? "standard input" : path,
                           .fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC),
                           .buffer = malloc(BUFFER_LEN),
                           .scratch = malloc(FRAME_SCRATCH_LEN),
                           .roce_port = roce_port};
    if (file->fd < 0) {
        int error = errno;
        draw_file_close(file);
        return fail(file, "no capture", "name a file that WEFT_PCAP or tcpdump -w has written",
                    error);
    }
    if (file->buffer == NULL || file->scratch == NULL) {
        draw_file_close(file);
        return fail(file, "no picture", "free some memory", ENOMEM);
    }
    if (lseek(file->fd, 0, SEEK_CUR) < 0) {
        int kept = keep_pipe(file->fd, file->buffer);
        close(file->fd);
        file->fd = kept;
        if (kept < 0) {
            draw_file_close(file);
            return fail(file, "no capture", "make room in TMPDIR, or save it in a file first",
                        -kept);
        }
    }
    return true;
}

void draw_file_close(struct draw_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->buffer);
    free(file->scratch);
    file->fd = -1;
    file->buffer = file->scratch = NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct window {
    size_t begin, end; // octets of the buffer that are to be read
    bool is_at_end;    // of the file
};

// Fills the buffer behind what is left. False: it was said why.
static bool window_fill(struct draw_file *file, struct window *w)
{
    memmove(file->buffer, file->buffer + w->begin, w->end - w->begin);
    w->end -= w->begin;
    w->begin = 0;
    while (w->end < BUFFER_LEN && !w->is_at_end) {
        ssize_t len = read(file->fd, file->buffer + w->end, BUFFER_LEN - w->end);
        if (len < 0 && errno != EINTR) {
            return fail(file, "capture unreadable", "see to the disk, or copy the file", errno);
        }
        w->is_at_end = len == 0;
        w->end += len > 0 ? (size_t)len : 0;
    }
    return true;
}

typedef void see_fn(void *ctx, const struct capture_packet *packet, const struct frame *frame);

static void note_unread(struct draw_file *file, const struct capture_packet *packet,
                        enum frame_verdict verdict, const struct frame *frame)
{
    if (file->unread_count++ == 0) {
        file->first_unread = packet->number;
        snprintf(file->why_unread, sizeof file->why_unread, "%s",
                 frame_verdict_text(verdict, frame));
    }
}

static void take_packet(struct draw_file *file, const struct capture_packet *packet, see_fn *see,
                        void *ctx)
{
    struct frame frame;
    enum frame_verdict verdict = frame_parse(packet, file->roce_port, file->scratch, &frame);
    if (verdict != FRAME_OK && verdict != FRAME_NOT_IP) {
        note_unread(file, packet, verdict, &frame);
    }
    if (verdict == FRAME_OK && frame.kind != FRAME_OTHER) {
        do {
            see(ctx, packet, &frame);
        } while (frame_next(&frame));
    }
}

static bool refuse(struct draw_file *file, const struct capture *capture,
                   enum capture_verdict verdict)
{
    bool is_said = file->is_refused;
    file->is_refused = true;
    if (is_said) {
        return false; // by the first reading
    }
    if (capture->packet_count == 0) {
        say_error("not a capture", file->path,
                  "give it what tcpdump -w, dumpcap or WEFT_PCAP has written", "%s",
                  capture_verdict_name(verdict));
    } else {
        say_error("capture broken", file->path, "what is in front of that packet was read",
                  "packet %" PRIu64 ": %s", capture->packet_count + 1,
                  capture_verdict_name(verdict));
    }
    return false;
}

// The file ended where more was needed.
static bool end(struct draw_file *file, const struct capture *capture, bool is_rest)
{
    if (capture->format == CAPTURE_UNKNOWN) {
        return refuse(file, capture, CAPTURE_FOREIGN);
    }
    file->is_cut = is_rest || capture->skip > 0;
    return true;
}

bool draw_file_read(struct draw_file *file,
                    void (*see)(void *ctx, const struct capture_packet *packet,
                                const struct frame *frame),
                    void *ctx)
{
    struct capture capture = {0};
    struct capture_packet packet;
    struct window w = {0};
    file->unread_count = file->packet_count = 0;
    if (lseek(file->fd, 0, SEEK_SET) < 0) {
        return fail(file, "capture unreadable", "save it in a file first", errno);
    }
    for (;;) {
        size_t used;
        struct span octets = span_of(file->buffer + w.begin, w.end - w.begin);
        enum capture_verdict verdict = capture_next(&capture, octets, &used, &packet);
        w.begin += used;
        file->packet_count = capture.packet_count;
        if (verdict == CAPTURE_PACKET) {
            take_packet(file, &packet, see, ctx);
        } else if (verdict == CAPTURE_MORE && w.is_at_end) {
            return end(file, &capture, w.end > w.begin);
        } else if (verdict == CAPTURE_MORE && !window_fill(file, &w)) {
            return false;
        } else if (verdict != CAPTURE_MORE && verdict != CAPTURE_NOTHING) {
            return refuse(file, &capture, verdict);
        }
    }
}
