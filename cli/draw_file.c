#include "cli/draw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/span.h"
#include "base/time.h"
#include "cli/say.h"

enum { BUFFER_LEN = 4 << 20 };
_Static_assert((int)BUFFER_LEN >= 2 * (int)CAPTURE_NEED_MAX, "room for a packet behind another");

static bool fail(const struct draw_file *file, const char *what, const char *remedy, int error)
{
    say_error(what, file->path, remedy, "%s", strerror(error));
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

// An unnamed file; a negative errno.
static int keeping_open(void)
{
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

// One read of the pipe, put behind what the unnamed file has. Its octets, 0 at the pipe's end; a
// negative errno.
static ssize_t keep_some(const struct draw_file *file)
{
    ssize_t len;
    do {
        len = read(file->pipe, file->buffer, BUFFER_LEN);
    } while (len < 0 && errno == EINTR);
    if (len < 0) {
        return -errno;
    }
    errno = 0;
    if (lseek(file->fd, 0, SEEK_END) < 0 || write(file->fd, file->buffer, (size_t)len) != len) {
        return errno != 0 ? -errno : -ENOSPC;
    }
    return len;
}

static bool keep_failed(struct draw_file *file, int error)
{
    return fail(file, "no capture", "make room in TMPDIR, or save it in a file first", error);
}

// What cannot be read twice becomes an unnamed file: with all that the pipe has to say, or, of one
// that is followed, with nothing yet.
static bool keep_pipe(struct draw_file *file, bool is_followed)
{
    file->pipe = file->fd;
    file->fd = keeping_open();
    if (file->fd < 0) {
        return keep_failed(file, -file->fd);
    }
    while (!is_followed && file->pipe >= 0) {
        if (!draw_file_take(file)) {
            return false;
        }
    }
    return true;
}

bool draw_file_take(struct draw_file *file)
{
    ssize_t len = keep_some(file);
    if (len <= 0) {
        close(file->pipe);
        file->pipe = -1;
    }
    return len >= 0 || keep_failed(file, (int)-len);
}

bool draw_file_look(struct draw_file *file)
{
    struct stat st;
    uint64_t before = file->len;
    if (fstat(file->fd, &st) == 0) {
        file->len = (uint64_t)st.st_size;
    }
    return file->len != before;
}

bool draw_file_open(struct draw_file *file, const char *path, uint16_t roce_port, bool is_followed)
{
    bool is_stdin = strcmp(path, "-") == 0;
    *file =
        (struct draw_file){.path = is_stdin ? "standard input" : path,
                           .fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC),
                           .buffer = malloc(BUFFER_LEN),
                           .scratch = malloc(FRAME_SCRATCH_LEN),
                           .roce_port = roce_port,
                           .pipe = -1,
                           .len = is_followed ? 0 : UINT64_MAX,
                           .is_growing = is_followed};
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
    if (lseek(file->fd, 0, SEEK_CUR) < 0 && !keep_pipe(file, is_followed)) {
        draw_file_close(file);
        return false;
    }
    return true;
}

void draw_file_close(struct draw_file *file)
{
    if (file->fd >= 0) {
        close(file->fd);
    }
    if (file->pipe >= 0) {
        close(file->pipe);
    }
    free(file->buffer);
    free(file->scratch);
    file->fd = file->pipe = -1;
    file->buffer = file->scratch = NULL;
}

/* ---- one file -------------------------------------------------------------------------------- */

enum draw_file_item {
    DRAW_FILE_PACKET, // file->packet
    DRAW_FILE_RECORD, // file->capture.record
    DRAW_FILE_END,
    DRAW_FILE_FAILED, // it was said why
};

// Fills the buffer behind what is left. False: it was said why.
static bool window_fill(struct draw_file *file)
{
    memmove(file->buffer, file->buffer + file->begin, file->end - file->begin);
    file->end -= file->begin;
    file->begin = 0;
    while (file->end < BUFFER_LEN && !file->is_at_end) {
        size_t room = BUFFER_LEN - file->end;
        room = file->left < room ? (size_t)file->left : room;
        ssize_t len = read(file->fd, file->buffer + file->end, room);
        if (len < 0 && errno != EINTR) {
            return fail(file, "capture unreadable", "see to the disk, or copy the file", errno);
        }
        file->is_at_end = len == 0;
        file->end += len > 0 ? (size_t)len : 0;
        file->left -= len > 0 ? (uint64_t)len : 0;
    }
    return true;
}

static void refuse(struct draw_file *file, enum capture_verdict verdict)
{
    bool is_said = file->is_refused;
    file->is_refused = true;
    if (is_said) {
        return; // by the first reading
    }
    if (file->capture.packet_count == 0) {
        say_error("not a capture", file->path,
                  "give it what tcpdump -w, dumpcap or WEFT_PCAP has written", "%s",
                  capture_verdict_name(verdict));
    } else {
        say_error("capture broken", file->path, "what is in front of that packet was read",
                  "packet %" PRIu64 ": %s", file->capture.packet_count + 1,
                  capture_verdict_name(verdict));
    }
}

static enum draw_file_item end(struct draw_file *file)
{
    if (file->capture.format == CAPTURE_UNKNOWN && !file->is_growing) {
        refuse(file, CAPTURE_FOREIGN);
        return DRAW_FILE_FAILED;
    }
    file->is_cut = !file->is_growing && (file->end > file->begin || file->capture.skip > 0);
    return DRAW_FILE_END;
}

static void note_unread_record(struct draw_file *file)
{
    const struct capture_record *record = &file->capture.record;
    if (file->unread_records++ == 0) {
        file->first_unread_record = record->number;
        file->why_unread_record = capture_record_fault(record);
    }
}

static enum draw_file_item next(struct draw_file *file)
{
    for (;;) {
        size_t used;
        struct span octets = span_of(file->buffer + file->begin, file->end - file->begin);
        enum capture_verdict verdict = capture_next(&file->capture, octets, &used, &file->packet);
        file->begin += used;
        switch (verdict) {
        case CAPTURE_PACKET:
            return DRAW_FILE_PACKET;
        case CAPTURE_RECORD:
            if (capture_record_fault(&file->capture.record) == NULL) {
                return DRAW_FILE_RECORD;
            }
            note_unread_record(file);
            break;
        case CAPTURE_NOTHING:
            break;
        case CAPTURE_MORE:
            if (file->is_at_end) {
                return end(file);
            }
            if (!window_fill(file)) {
                return DRAW_FILE_FAILED;
            }
            break;
        default:
            refuse(file, verdict);
            return DRAW_FILE_FAILED;
        }
    }
}

static enum draw_file_item next_record(struct draw_file *file)
{
    enum draw_file_item item;
    do {
        item = next(file);
    } while (item == DRAW_FILE_PACKET);
    return item;
}

static bool rewind_file(struct draw_file *file)
{
    file->capture = (struct capture){0};
    file->begin = file->end = 0;
    file->left = file->len;
    file->is_at_end = false;
    file->unread_count = file->unread_records = 0;
    return lseek(file->fd, 0, SEEK_SET) == 0 ||
           fail(file, "capture unreadable", "save it in a file first", errno);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void note_unread(struct draw_file *file, enum frame_verdict verdict,
                        const struct frame *frame)
{
    if (file->unread_count++ == 0) {
        file->first_unread = file->packet.number;
        snprintf(file->why_unread, sizeof file->why_unread, "%s",
                 frame_verdict_text(verdict, frame));
    }
}

static void take_packet(struct draw_file *file, const struct draw_eye *eye)
{
    struct frame frame;
    enum frame_verdict verdict = frame_parse(&file->packet, file->roce_port, file->scratch, &frame);
    if (verdict != FRAME_OK && verdict != FRAME_NOT_IP) {
        note_unread(file, verdict, &frame);
    }
    if (verdict == FRAME_OK && frame.kind != FRAME_OTHER) {
        do {
            eye->see(eye->ctx, &file->packet, &frame);
        } while (frame_next(&frame));
    }
}

static instant_ns time_of(const struct draw_file *file, enum draw_file_item item)
{
    return item == DRAW_FILE_PACKET   ? file->packet.at
           : item == DRAW_FILE_RECORD ? file->capture.record.at
                                      : INSTANT_NEVER;
}

static void take(struct draw_file *files, unsigned origin, enum draw_file_item item,
                 const struct draw_eye *eye)
{
    if (item == DRAW_FILE_PACKET) {
        take_packet(&files[origin], eye);
    } else if (item == DRAW_FILE_RECORD) {
        eye->see_record(eye->ctx, origin, &files[origin].capture.record);
    }
}

static bool is_over(enum draw_file_item item)
{
    return item == DRAW_FILE_END || item == DRAW_FILE_FAILED;
}

bool draw_file_read(struct draw_file *files, unsigned count, const struct draw_eye *eye)
{
    for (unsigned i = 0; i < count; i++) {
        if (!rewind_file(&files[i])) {
            return false;
        }
    }
    enum draw_file_item first = next(&files[0]);
    enum draw_file_item second = count > 1 ? next_record(&files[1]) : DRAW_FILE_END;
    while (!is_over(first) || !is_over(second)) {
        if (is_over(second) ||
            (!is_over(first) && time_of(&files[0], first) <= time_of(&files[1], second))) {
            take(files, 0, first, eye);
            first = next(&files[0]);
        } else {
            take(files, 1, second, eye);
            second = next_record(&files[1]);
        }
    }
    return first == DRAW_FILE_END && second == DRAW_FILE_END;
}
