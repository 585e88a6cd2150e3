#include "link/local/channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "link/local/sealed.h"
#include "link/sys.h"

enum { NUMBERS_MIN = 16 };

static struct local_channel *channel_new(enum local_side side)
{
    struct local_channel *c = calloc(1, sizeof *c);
    if (c != NULL) {
        *c = (struct local_channel){.side = side,
                                    .means = {.memory_fd = -1, .socket_fd = -1},
                                    .own_fd = -1,
                                    .first_free = DOORBELL_NUMBERS,
                                    .user_count = 1};
        list_init(&c->link);
    }
    return c;
}

static void find_bells(struct local_channel *c)
{
    bool is_active = c->side == LOCAL_ACTIVE;
    uint8_t *active = c->memory + LOCAL_CHANNEL_ACTIVE_BELL;
    uint8_t *passive = c->memory + LOCAL_CHANNEL_PASSIVE_BELL;
    c->taker.memory = is_active ? active : passive;
    c->other_bell = is_active ? passive : active;
}

static int make_means(struct local_channel *c)
{
    int ends[2];
    if (getrandom(&c->means.id, sizeof c->means.id, GRND_NONBLOCK) != sizeof c->means.id) {
        return -EAGAIN;
    }
    int error = local_sealed_create("weft-channel", LOCAL_CHANNEL_LEN, LOCAL_SEALED_LEN, &c->memory,
                                    &c->means.memory_fd);
    if (error == 0) {
        error = sys_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, ends);
    }
    if (error == 0) {
        c->own_fd = ends[0];
        c->means.socket_fd = ends[1];
    }
    return error;
}

int local_channel_create(struct local_channel **ret)
{
    struct local_channel *c = channel_new(LOCAL_ACTIVE);
    if (c == NULL) {
        return -ENOMEM;
    }
    int error = make_means(c);
    if (error != 0) {
        local_channel_destroy(c);
        return error;
    }
    find_bells(c);
    *ret = c;
    return 0;
}

static bool claim(struct local_channel *c)
{
    _Atomic uint64_t *claimed = (_Atomic uint64_t *)(void *)(c->memory + LOCAL_CHANNEL_CLAIMED);
    uint64_t nobody = 0;
    return atomic_compare_exchange_strong(claimed, &nobody, 1);
}

static int take_over(struct local_channel *c, const struct local_channel_means *means)
{
    uint8_t *memory;
    if (!sys_is_socket_of_host(means->socket_fd)) {
        return -EINVAL;
    }
    int error = local_sealed_adopt(means->memory_fd, LOCAL_CHANNEL_LEN, &memory);
    if (error != 0) {
        return error;
    }
    c->memory = memory;
    if (!claim(c)) {
        local_sealed_release(memory, LOCAL_CHANNEL_LEN);
        c->memory = NULL;
        return -EBUSY;
    }
    c->means.id = means->id;
    c->own_fd = sys_dup(means->socket_fd);
    return c->own_fd < 0 ? c->own_fd : 0;
}

int local_channel_adopt(const struct local_channel_means *means, struct local_channel **ret)
{
    struct local_channel *c = channel_new(LOCAL_PASSIVE);
    if (c == NULL) {
        return -ENOMEM;
    }
    int error = take_over(c, means);
    if (error != 0) {
        local_channel_destroy(c);
        return error;
    }
    find_bells(c);
    *ret = c;
    return 0;
}

void local_channel_destroy(struct local_channel *c)
{
    if (c->memory != NULL && c->side == LOCAL_PASSIVE) {
        atomic_store((_Atomic uint64_t *)(void *)(c->memory + LOCAL_CHANNEL_CLAIMED), 0);
    }
    local_sealed_release(c->memory, LOCAL_CHANNEL_LEN);
    sys_close_fd(&c->means.memory_fd);
    sys_close_fd(&c->means.socket_fd);
    sys_close_fd(&c->own_fd);
    free(c->numbers);
    free(c);
}

void local_channel_abandon(struct local_channel *c)
{
    c->memory = NULL;
    c->own_fd = -1; // the bell's
    sys_close_fd(&c->means.memory_fd);
    sys_close_fd(&c->means.socket_fd);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int grow(struct local_channel *c)
{
    uint32_t count = c->number_count < NUMBERS_MIN ? NUMBERS_MIN : 2 * c->number_count;
    if (count > DOORBELL_NUMBERS) {
        return -ENOSPC;
    }
    struct local_number *numbers = realloc(c->numbers, count * sizeof *numbers);
    if (numbers == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = count; i-- > c->number_count;) {
        numbers[i] = (struct local_number){.next_free = c->first_free};
        c->first_free = i;
    }
    c->numbers = numbers;
    c->number_count = count;
    return 0;
}

int local_channel_number(struct local_channel *c, struct local_stream *s, uint32_t *ret)
{
    int error = c->first_free == DOORBELL_NUMBERS ? grow(c) : 0;
    if (error == 0) {
        *ret = c->first_free;
        c->first_free = c->numbers[*ret].next_free;
        c->numbers[*ret].stream = s;
    }
    return error;
}

void local_channel_free_number(struct local_channel *c, uint32_t number)
{
    c->numbers[number] = (struct local_number){.next_free = c->first_free};
    c->first_free = number;
}

struct local_stream *local_channel_stream(const struct local_channel *c, uint32_t number)
{
    return number < c->number_count ? c->numbers[number].stream : NULL;
}
