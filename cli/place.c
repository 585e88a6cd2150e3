#include "cli/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/say.h"

/* ---- opening and closing --------------------------------------------------------------------- */

static int volume_take(struct copy_place *place, unsigned depth)
{
    int result = volume_open(place->name, depth, &place->volume);
    const struct volume_facts *facts = &place->volume.facts;
    if (result == 0) {
        place->len = facts->len;
        place->block_len = facts->block_len;
        place->piece_max = facts->transfer_max_len;
    }
    return result;
}

static int say_file(const struct copy_place *place, const char *what, const char *remedy, int error)
{
    say_error(what, place->name, remedy, "%s", strerror(-error));
    return EXIT_FAILED;
}

// Size and kind of what was opened.
static int file_look(struct copy_place *place)
{
    struct stat status;
    if (fstat(place->fd, &status) != 0) {
        return -errno;
    }
    if (S_ISDIR(status.st_mode)) {
        return -EISDIR; // its end would be found, and its octets refused
    }
    off_t end = S_ISREG(status.st_mode) ? status.st_size : lseek(place->fd, 0, SEEK_END);
    place->is_regular = S_ISREG(status.st_mode);
    place->len = (uint64_t)end;
    return end < 0 ? -ESPIPE : 0;
}

bool place_is_stream(const char *name)
{
    return strcmp(name, "-") == 0;
}

static void place_name(struct copy_place *place, const char *name)
{
    *place = (struct copy_place){.name = name,
                                 .is_volume = volume_is_uri(name),
                                 .is_stream = place_is_stream(name),
                                 .fd = -1,
                                 .block_len = 1,
                                 .piece_max = UINT32_MAX};
    list_init(&place->ended);
}

static int stream_take(struct copy_place *place, int fd, const char *name, const char *remedy)
{
    place->name = name;
    place->len = PLACE_LEN_UNKNOWN;
    if (isatty(fd)) {
        say_error("cannot copy", name, remedy, "it is a terminal");
        return EXIT_FAILED;
    }
    place->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return place->fd >= 0 ? 0 : say_file(place, "cannot copy", remedy, -errno);
}

int place_open_source(const char *name, unsigned depth, struct copy_place *ret)
{
    place_name(ret, name);
    if (ret->is_volume) {
        return volume_take(ret, depth);
    }
    if (ret->is_stream) {
        return stream_take(ret, STDIN_FILENO, "standard input", "redirect it from a file or pipe");
    }
    ret->fd = open(name, O_RDONLY | O_CLOEXEC);
    int error = ret->fd < 0 ? -errno : file_look(ret);
    return error == 0
               ? 0
               : say_file(ret, "cannot read", "give a file or block device that is there", error);
}

static int file_prepare(struct copy_place *place, uint64_t len)
{
    place->fd = open(place->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int error = place->fd < 0 ? -errno : file_look(place);
    if (error == 0 && place->is_regular &&
        (ftruncate(place->fd, 0) != 0 || ftruncate(place->fd, (off_t)len) != 0)) {
        error = -errno;
    }
    if (error == 0 && !place->is_regular && place->len < len) {
        error = -ENOSPC;
    }
    place->len = place->is_regular ? len : place->len;
    return error;
}

int place_open_destination(const char *name, unsigned depth, uint64_t len, struct copy_place *ret)
{
    place_name(ret, name);
    if (ret->is_stream) {
        return stream_take(ret, STDOUT_FILENO, "standard output", "redirect it to a file or pipe");
    }
    if (!ret->is_volume) {
        int error = file_prepare(ret, len);
        return error == 0
                   ? 0
                   : say_file(ret, "cannot write", "give a place where a file may be made", error);
    }
    int result = volume_take(ret, depth);
    if (result == 0 && ret->volume.facts.is_read_only) {
        say_error("cannot write", name, "have it served so that it may be written",
                  "the volume is read-only");
        return EXIT_FAILED;
    }
    if (result == 0 && len != PLACE_LEN_UNKNOWN && ret->len < len) {
        say_error("cannot write", name, "have a larger volume served",
                  "it has %llu octets, fewer than the %llu to be copied",
                  (unsigned long long)ret->len, (unsigned long long)len);
        return EXIT_FAILED;
    }
    return result;
}

void place_close(struct copy_place *place)
{
    volume_close(&place->volume);
    if (place->fd >= 0) {
        close(place->fd);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static int file_read(const struct copy_place *place, struct piece *piece)
{
    uint32_t done = 0;
    while (done < piece->len) {
        ssize_t got =
            pread(place->fd, piece->data + done, piece->len - done, (off_t)(piece->offset + done));
        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        if (got == 0) {
            memset(piece->data + done, 0, piece->len - done);
            return 0;
        }
        done += got > 0 ? (uint32_t)got : 0;
    }
    return 0;
}

// What lies behind the end that the file is to have is padding.
static int file_write(const struct copy_place *place, const struct piece *piece)
{
    uint64_t room = place->len > piece->offset ? place->len - piece->offset : 0;
    uint32_t len = piece->len < room ? piece->len : (uint32_t)room, done = 0;
    while (done < len) {
        ssize_t put =
            pwrite(place->fd, piece->data + done, len - done, (off_t)(piece->offset + done));
        if (put < 0 && errno != EINTR) {
            return -errno;
        }
        done += put > 0 ? (uint32_t)put : 0;
    }
    return 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

// Pieces come and go in order: what is read or written lies where the stream has got to.
static int stream_read(struct copy_place *place, struct piece *piece)
{
    uint32_t done = 0;
    bool is_at_end = place->len != PLACE_LEN_UNKNOWN;
    while (done < piece->len && !is_at_end) {
        ssize_t got = read(place->fd, piece->data + done, piece->len - done);
        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        is_at_end = got == 0;
        done += got > 0 ? (uint32_t)got : 0;
    }
    if (is_at_end && place->len == PLACE_LEN_UNKNOWN) {
        place->len = piece->offset + done;
    }
    memset(piece->data + done, 0, piece->len - done);
    return 0;
}

static int stream_write(const struct copy_place *place, const struct piece *piece)
{
    uint32_t done = 0;
    while (done < piece->len) {
        ssize_t put = write(place->fd, piece->data + done, piece->len - done);
        if (put < 0 && errno != EINTR) {
            return -errno;
        }
        done += put > 0 ? (uint32_t)put : 0;
    }
    return 0;
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void piece_over(struct copy_place *place, struct piece *piece, int error, const char *answer)
{
    piece->error = error;
    piece->answer = answer;
    list_push_tail(&place->ended, &piece->link);
}

/* ---- volumes --------------------------------------------------------------------------------- */

static void submit(struct copy_place *place, struct piece *piece, enum volume_operation operation)
{
    piece->io = (struct volume_io){.operation = operation,
                                   .offset = piece->offset,
                                   .len = piece->len,
                                   .data = piece->data,
                                   .context = piece};
    int error = volume_submit(&place->volume, &piece->io);
    while (error == -EAGAIN && place_wait(place) == 0) {
        error = volume_submit(&place->volume, &piece->io);
    }
    if (error != 0) {
        piece_over(place, piece, error, "");
    }
}

/* ---- all three ------------------------------------------------------------------------------- */

void place_read(struct copy_place *place, struct piece *piece)
{
    if (place->is_volume) {
        submit(place, piece, VOLUME_READ);
    } else if (place->is_stream) {
        piece_over(place, piece, stream_read(place, piece), "");
    } else {
        piece_over(place, piece, file_read(place, piece), "");
    }
}

void place_write(struct copy_place *place, struct piece *piece)
{
    if (place->is_volume) {
        submit(place, piece, VOLUME_WRITE);
    } else if (place->is_stream) {
        piece_over(place, piece, stream_write(place, piece), "");
    } else {
        piece_over(place, piece, file_write(place, piece), "");
    }
}

bool place_is_zero(struct copy_place *place, uint64_t offset, uint32_t len)
{
    return place->is_volume && volume_is_zero(&place->volume, offset, len);
}

void place_zero(struct copy_place *place, struct piece *piece)
{
    if (place->is_volume && place->volume.facts.can_write_zeroes) {
        submit(place, piece, VOLUME_WRITE_ZEROES);
    } else if (place->is_regular) {
        piece_over(place, piece, 0, ""); // emptied when it was opened: a hole
    } else {
        place_write(place, piece); // its data are zeroes
    }
}

void place_read_zeroes(struct copy_place *place, struct piece *piece)
{
    memset(piece->data, 0, piece->len);
    piece_over(place, piece, 0, "");
}

struct piece *place_ended(struct copy_place *place)
{
    struct list_link *link = list_pop_head(&place->ended);
    return link != NULL ? LIST_ENTRY(link, struct piece, link) : NULL;
}

int place_flush(struct copy_place *place)
{
    struct piece flush = {0};
    if (!place->is_volume) {
        return fdatasync(place->fd) == 0 || errno == EINVAL ? 0 : -errno;
    }
    submit(place, &flush, VOLUME_FLUSH);
    while (place_ended(place) == NULL) {
        place_wait(place);
    }
    return flush.error;
}

int place_wait(struct copy_place *place)
{
    return place_wait_for(place, -1);
}

int place_wait_for(struct copy_place *place, int timeout_ms)
{
    int result = volume_wait(&place->volume, timeout_ms);
    for (struct volume_io *io; (io = volume_ended(&place->volume)) != NULL;) {
        struct piece *piece = io->context;
        piece_over(place, piece, io->error, io->answer);
    }
    return result;
}
