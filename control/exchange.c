#include "control/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_FIRST_LEN = 64 << 10 };

static void end_with(struct exchange *e, int error)
{
    e->error = error;
    e->state = EXCHANGE_OVER;
    if (e->fd >= 0) {
        close(e->fd);
        e->fd = -1;
    }
}

// It hung up without an answer. So a device shows strangers the door, but never its own user: that
// one finds it ending, and the others do when nobody listens any more.
static void end_hung_up(struct exchange *e)
{
    end_with(e, e->is_own || !process_is_alive(&e->process) ? -ECONNREFUSED : -EACCES);
}

static void end_failed(struct exchange *e, int error)
{
    if (error == ECONNRESET || error == EPIPE) {
        end_hung_up(e);
    } else {
        end_with(e, -error);
    }
}

// Anybody may take an abstract name, and a path may lead elsewhere. In a user namespace a process
// may know its user by another number than we do; it is believed if it is our own.
static bool is_genuine(struct exchange *e)
{
    const struct process *process = &e->process;
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(e->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return false;
    }
    e->is_own = peer.uid == geteuid();
    return peer.uid == process->uid || (process->path[0] == '\0' && e->is_own);
}

static void try_connect(struct exchange *e)
{
    struct sockaddr_un addr;
    socklen_t addr_len = process_address(&e->process, &addr);
    if (e->fd < 0) {
        e->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (e->fd < 0 || connect(e->fd, (struct sockaddr *)&addr, addr_len) != 0) {
        if (errno != EAGAIN) {
            end_failed(e, errno);
        }
    } else if (!is_genuine(e)) {
        end_with(e, -EACCES);
    } else {
        e->state = EXCHANGE_SENDING;
    }
}

static void try_send(struct exchange *e)
{
    const size_t left = strlen(e->request) - e->sent_len;
    ssize_t sent = send(e->fd, e->request + e->sent_len, left, MSG_NOSIGNAL);
    if (sent >= 0) {
        e->sent_len += (size_t)sent;
        e->state = (size_t)sent == left ? EXCHANGE_READING : EXCHANGE_SENDING;
    } else if (errno != EAGAIN) {
        end_failed(e, errno);
    }
}

// 0, or why there is no room for more of the answer.
static int make_room(struct exchange *e)
{
    if (e->answer_len < e->answer_capacity) {
        return 0;
    }
    size_t capacity = e->answer_capacity == 0 ? ANSWER_FIRST_LEN : 2 * e->answer_capacity;
    if (capacity > e->answer_max_len) {
        return -EMSGSIZE;
    }
    char *larger = realloc(e->answer, capacity);
    if (larger == NULL) {
        return -ENOMEM;
    }
    e->answer = larger;
    e->answer_capacity = capacity;
    return 0;
}

// False: nothing more is there now.
static bool try_read(struct exchange *e)
{
    int error = make_room(e);
    if (error != 0) {
        end_with(e, error);
        return false;
    }
    ssize_t got = read(e->fd, e->answer + e->answer_len, e->answer_capacity - e->answer_len);
    if (got > 0) {
        e->answer_len += (size_t)got;
    } else if (got == 0 && e->answer_len == 0) {
        end_hung_up(e);
    } else if (got == 0) {
        end_with(e, 0);
    } else if (errno != EAGAIN) {
        end_failed(e, errno);
    }
    return got > 0;
}

void exchange_begin(struct exchange *e, const struct process *process, const char *request,
                    size_t answer_max_len, instant_ns now, instant_ns deadline_ns)
{
    *e = (struct exchange){
        .process = *process,
        .request = request,
        .answer_max_len = answer_max_len,
        .deadline_ns = deadline_ns,
        .fd = -1,
    };
    exchange_step(e, now);
}

struct pollfd exchange_wants(const struct exchange *e)
{
    const bool can_wait = e->state == EXCHANGE_SENDING || e->state == EXCHANGE_READING;
    return (struct pollfd){.fd = can_wait ? e->fd : -1,
                           .events = e->state == EXCHANGE_SENDING ? POLLOUT : POLLIN};
}

void exchange_step(struct exchange *e, instant_ns now)
{
    enum { READS_MAX = 16 }; // who writes without end does not keep the others
    if (e->state == EXCHANGE_CONNECTING) {
        try_connect(e);
    }
    if (e->state == EXCHANGE_SENDING) {
        try_send(e);
    }
    for (unsigned i = 0; i < READS_MAX && e->state == EXCHANGE_READING && try_read(e); i++) {
    }
    if (e->state != EXCHANGE_OVER && now >= e->deadline_ns) {
        end_with(e, -ETIMEDOUT);
    }
}

int exchange_take(struct exchange *e, char **ret_text, size_t *ret_len)
{
    if (e->error == 0) {
        *ret_text = e->answer;
        *ret_len = e->answer_len;
        e->answer = NULL;
    }
    return e->error;
}

void exchange_end(struct exchange *e)
{
    if (!exchange_is_over(e)) {
        end_with(e, -ECANCELED);
    }
    free(e->answer);
    e->answer = NULL;
}
