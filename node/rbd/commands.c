#include "node/rbd/commands.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { REAP_BATCH = 64 };

int commands_init(struct commands *commands, const struct weft_ddm_host *host, bool is_read_only)
{
    *commands = (struct commands){.host = host,
                                  .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .is_read_only = is_read_only};
    return commands->event_fd >= 0 ? 0 : -errno;
}

void commands_fini(struct commands *commands)
{
    if (commands->event_fd >= 0) {
        close(commands->event_fd);
    }
}

int commands_attach(struct commands *commands, rbd_image_t image)
{
    commands->is_shut_out = false;
    return rbd_set_image_notification(image, commands->event_fd, EVENT_TYPE_EVENTFD);
}

/* ---- ends ------------------------------------------------------------------------------------ */

// A read that reaches over the end of an image that has become smaller is cut there by librbd, and
// succeeds with what it read: what lies behind in the buffer is no data.
static int64_t whole(const struct weft_ddm_command *command, int64_t result)
{
    bool is_cut =
        command->operation == WEFT_DDM_READ && result >= 0 && (uint64_t)result < command->data_len;
    return is_cut ? -EINVAL : result;
}

// A write that does is cut there, too, and succeeds without a word of it.
static int64_t within(rbd_image_t image, const struct weft_ddm_command *command, int64_t result)
{
    const bool is_write = command->operation == WEFT_DDM_WRITE;
    const uint64_t len = is_write ? command->data_len : command->len;
    uint64_t size;
    if (result < 0 || (!is_write && command->operation != WEFT_DDM_WRITE_ZEROES)) {
        return result;
    }
    int error = rbd_get_size(image, &size);
    if (error != 0) {
        return error;
    }
    return command->offset > size || len > size - command->offset ? -EINVAL : result;
}

// What the cluster answers, in words of the host's.
static int error_of(struct commands *commands, int64_t result)
{
    switch (result) {
    case -ESHUTDOWN: // blocklisted
        commands->is_shut_out = true;
        return -ENODEV;
    case -EROFS: // writing without the lock
        commands->is_shut_out |= !commands->is_read_only;
        return commands->is_read_only ? -EROFS : -ENODEV;
    case -ENOENT: // image or pool
        return -ENODEV;
    case -EDQUOT:
        return -ENOSPC;
    case -EINVAL: // beyond the end: the image has become smaller
        return -ERANGE;
    case -EAGAIN:
        return -EIO; // never given again: it may have been carried out
    default:
        return result < 0 ? (int)result : 0;
    }
}

// Where another node serves the image by now, its clients are to ask that one.
static void end(struct commands *commands, struct weft_ddm_command *command, int64_t result)
{
    const struct weft_ddm_host *host = commands->host;
    int error = error_of(commands, result);
    if (commands->is_shut_out && host->lost != NULL) {
        host->lost(host->ctx, "rbd: the image's lock is lost to another client");
    }
    host->complete(host->ctx, command, error);
}

void commands_reap(struct commands *commands, rbd_image_t image)
{
    eventfd_t ended;
    eventfd_read(commands->event_fd, &ended);
    rbd_completion_t completions[REAP_BATCH];
    int count;
    while (commands->out_count > 0 &&
           (count = rbd_poll_io_events(image, completions, REAP_BATCH)) > 0) {
        for (int i = 0; i < count; i++) {
            struct weft_ddm_command *command = rbd_aio_get_arg(completions[i]);
            int64_t result = whole(command, rbd_aio_get_return_value(completions[i]));
            result = within(image, command, result);
            rbd_aio_release(completions[i]);
            commands->out_count--;
            end(commands, command, result);
        }
    }
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static int begin(rbd_image_t image, struct weft_ddm_command *command, rbd_completion_t completion)
{
    int thick =
        (command->flags & WEFT_DDM_NO_HOLE) != 0 ? RBD_WRITE_ZEROES_FLAG_THICK_PROVISION : 0;
    switch (command->operation) {
    case WEFT_DDM_READ:
        return rbd_aio_read(image, command->offset, command->data_len, command->data, completion);
    case WEFT_DDM_WRITE:
        return rbd_aio_write(image, command->offset, command->data_len, command->data, completion);
    case WEFT_DDM_FLUSH:
        return rbd_aio_flush(image, completion);
    case WEFT_DDM_TRIM:
        return rbd_aio_discard(image, command->offset, command->len, completion);
    case WEFT_DDM_WRITE_ZEROES:
        return rbd_aio_write_zeroes(image, command->offset, command->len, completion, thick, 0);
    default:
        return -EOPNOTSUPP;
    }
}

void commands_submit(struct commands *commands, rbd_image_t image, struct weft_ddm_command *command)
{
    rbd_completion_t completion;
    int error = rbd_aio_create_completion(command, NULL, &completion);
    if (error == 0) {
        error = begin(image, command, completion);
        if (error == 0) {
            commands->out_count++;
            return;
        }
        rbd_aio_release(completion);
    }
    end(commands, command, error);
}
