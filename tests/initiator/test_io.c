// Reads, writes and the rest, each way that data may go; and targets that do not keep to it.
#include <malloc.h>

#include "format/nvme_wire.h"
#include "initiator/agent.h"
#include "tests/initiator/scene.h"

enum { COUNT = 200 };

// Writes, looks at the disk, reads back.
static void there_and_back(struct scene *s, uint32_t len)
{
    uint8_t *back = s->data + LEN;
    assert_int_equal(move(s, WEFT_NVME_WRITE, 8192, s->data, len), 0);
    assert_memory_equal(target_disk(s->target) + 8192, s->data, len);
    memset(back, 0xee, len);
    assert_int_equal(move(s, WEFT_NVME_READ, 8192, back, len), 0);
    assert_memory_equal(back, s->data, len);
}

/* ---- the ways -------------------------------------------------------------------------------- */

static void one_shot_registers_nothing(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    assert_true(s.info.is_oneshot);
    there_and_back(&s, LEN);
    assert_int_equal(s.counters.oneshots, 2);
    assert_int_equal(s.counters.closes, 2);
    assert_int_equal(s.counters.registrations + s.counters.revokes, 0);
    assert_int_equal(target_counters(s.target)->advertised, 2);
    scene_close(&s);
}

static void short_writes_go_along(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    there_and_back(&s, TARGET_IN_CAPSULE_LEN);
    assert_int_equal(s.counters.in_capsules, 1);
    assert_int_equal(s.counters.oneshots, 1); // the read
    scene_close(&s);
}

static void pieces_go_by_one_shot(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    const struct iovec pieces[] = {{s.data + 3000, 1001}, {s.data, 3000}, {s.data + 5000, 4191}};
    struct weft_nvme_io io = {
        .operation = WEFT_NVME_WRITE, .len = 8192, .memory = pieces, .memory_count = 3};
    assert_int_equal(run(&s, &io), 0);
    assert_memory_equal(target_disk(s.target), s.data + 3000, 1001);
    assert_memory_equal(target_disk(s.target) + 1001, s.data, 3000);
    assert_memory_equal(target_disk(s.target) + 4001, s.data + 5000, 4191);
    scene_close(&s);
}

static void the_usual_way_registers_each_time(void **state)
{
    const struct target_wish wish = {.has_no_oneshot = true};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    assert_false(s.info.is_oneshot);
    there_and_back(&s, LEN);
    assert_int_equal(s.counters.registrations, 2);
    assert_int_equal(s.counters.oneshots, 0);
    scene_close(&s);
}

static void lent_memory_is_registered_once(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    assert_int_equal(weft_nvme_lend(s.nvme, s.data, (size_t)2 * LEN), 0);
    there_and_back(&s, LEN);
    assert_int_equal(s.counters.lent, 2);
    weft_nvme_take_back(s.nvme, s.data);
    there_and_back(&s, LEN);
    assert_int_equal(s.counters.registrations, 2);
    scene_close(&s);
}

static void pieces_are_copied_the_usual_way(void **state)
{
    const struct target_wish wish = {.has_no_capsule_room = true};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    uint8_t *back = s.data + LEN;
    const struct iovec out[] = {{s.data, 1000}, {s.data + 1000, 3096}};
    const struct iovec in[] = {{back, 3000}, {back + 3000, 1096}};
    struct weft_nvme_io io = {
        .operation = WEFT_NVME_WRITE, .len = 4096, .memory = out, .memory_count = 2};
    assert_int_equal(run(&s, &io), 0);
    io.operation = WEFT_NVME_READ;
    io.memory = in;
    assert_int_equal(run(&s, &io), 0);
    assert_memory_equal(back, s.data, 4096);
    assert_int_equal(s.counters.copies, 2);
    scene_close(&s);
}

/* ---- without data ---------------------------------------------------------------------------- */

static void trims_zeroes_and_flushes(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct target_wish wish = {.has_no_capsule_room = i == 1};
        struct scene s;
        scene_open(&s, &wish, 0, 1);
        memset(target_disk(s.target), 0xff, 65536);
        struct weft_nvme_io trim = {.operation = WEFT_NVME_TRIM, .offset = 4096, .len = 4096};
        struct weft_nvme_io zero = {.operation = WEFT_NVME_WRITE_ZEROES,
                                    .flags = WEFT_NVME_FUA,
                                    .offset = 32768,
                                    .len = 512};
        struct weft_nvme_io flush = {.operation = WEFT_NVME_FLUSH};
        assert_int_equal(run(&s, &trim), 0);
        assert_int_equal(run(&s, &zero), 0);
        assert_int_equal(run(&s, &flush), 0);
        const uint8_t *disk = target_disk(s.target);
        assert_true(disk[4095] == 0xff && disk[4096] == 0 && disk[8191] == 0 && disk[8192] == 0xff);
        assert_true(disk[32767] == 0xff && disk[32768] == 0 && disk[33280] == 0xff);
        assert_int_equal(target_counters(s.target)->flushes, 1);
        assert_int_equal(target_counters(s.target)->fuas, 1);
        scene_close(&s);
    }
}

/* ---- many ------------------------------------------------------------------------------------ */

static unsigned ended;

static void count_end(struct weft_nvme_io *io)
{
    assert_int_equal(io->error, 0);
    ended++;
}

static void queues_are_filled_and_no_further(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    static struct weft_nvme_io ios[2 * DEPTH + 1];
    scene_open(&s, &wish, 0, 2);
    const struct iovec piece = {s.data, 8192};
    unsigned submitted = 0, most = 0;
    ended = 0;
    assert_int_equal(s.info.queue_count, 2);
    assert_int_equal(s.info.depth, 2 * DEPTH);
    while (ended < COUNT) {
        unsigned slot = submitted % (2 * DEPTH + 1);
        ios[slot] =
            (struct weft_nvme_io){.operation = submitted % 3 ? WEFT_NVME_WRITE : WEFT_NVME_READ,
                                  .nsid = 1,
                                  .len = 8192,
                                  .memory = &piece,
                                  .memory_count = 1,
                                  .on_complete = count_end};
        int error = submitted - ended < 2 * DEPTH + 1 && submitted < COUNT
                        ? weft_nvme_submit(s.nvme, &ios[slot])
                        : -EAGAIN;
        if (error == -EAGAIN) {
            most = submitted - ended > most ? submitted - ended : most;
            weft_nvme_wait(s.nvme, 1000);
            continue;
        }
        assert_int_equal(error, 0);
        submitted++;
    }
    assert_int_equal(most, 2 * DEPTH);
    scene_close(&s);
}

static struct ibv_cq *held_back; // its completions are not there yet
static unsigned notify_count;    // that completions of Sends be told of
static int (*poll_cq)(struct ibv_cq *cq, int max, struct ibv_wc *wc);
static int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);

static int poll_what_is_not_held_back(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    return cq == held_back ? 0 : poll_cq(cq, max, wc);
}

static int count_notify(struct ibv_cq *cq, int solicited_only)
{
    notify_count += cq == held_back;
    return req_notify_cq(cq, solicited_only);
}

// As many writes whose data go along as the queue is deep.
static void write_queue_full(struct scene *s)
{
    static struct weft_nvme_io ios[DEPTH];
    const struct iovec piece = {s->data, 4096};
    ended = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        ios[i] = (struct weft_nvme_io){.operation = WEFT_NVME_WRITE,
                                       .nsid = 1,
                                       .offset = 4096 * i,
                                       .len = 4096,
                                       .memory = &piece,
                                       .memory_count = 1,
                                       .on_complete = count_end};
        assert_int_equal(weft_nvme_submit(s->nvme, &ios[i]), 0);
    }
    while (ended < DEPTH) {
        weft_nvme_wait(s->nvme, 1000);
    }
}

static bool has_heard; // an answer, in this look

// As if the device had gone on between the two: Sends are over once an answer is there.
static int poll_sends_behind_answers(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    if (cq == held_back && !has_heard) {
        return 0;
    }
    int count = poll_cq(cq, max, wc);
    has_heard = cq != held_back && count > 0;
    return count;
}

static void submit_another(struct weft_nvme_io *io)
{
    struct scene *s = io->context;
    static struct weft_nvme_io other;
    assert_int_equal(io->error, 0);
    ended++;
    other =
        (struct weft_nvme_io){.operation = WEFT_NVME_FLUSH, .nsid = 1, .on_complete = count_end};
    assert_int_equal(weft_nvme_submit(s->nvme, &other), 0);
}

static void who_hears_of_an_answer_has_room_for_the_next_command(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    struct ibv_context_ops *ops = &s.nvme->verbs->ops;
    const struct iovec piece = {s.data, 4096};
    struct weft_nvme_io ios[DEPTH];
    poll_cq = ops->poll_cq;
    ops->poll_cq = poll_sends_behind_answers;
    held_back = s.nvme->send_cq;
    has_heard = false;
    ended = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        ios[i] = (struct weft_nvme_io){.operation = WEFT_NVME_WRITE,
                                       .nsid = 1,
                                       .offset = 4096 * i,
                                       .len = 4096,
                                       .memory = &piece,
                                       .memory_count = 1,
                                       .on_complete = i == 0 ? submit_another : count_end,
                                       .context = &s};
        assert_int_equal(weft_nvme_submit(s.nvme, &ios[i]), 0);
    }
    while (ended < DEPTH + 1) {
        weft_nvme_wait(s.nvme, 1000);
    }
    ops->poll_cq = poll_cq;
    scene_close(&s);
}

// The answer comes behind what it answers. Only a command that waits for nothing else is told that
// its Send is over, since its place in the queue is free then.
static void a_send_is_told_of_where_the_answer_came_before_it(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    struct ibv_context_ops *ops = &s.nvme->verbs->ops;
    poll_cq = ops->poll_cq;
    req_notify_cq = ops->req_notify_cq;
    ops->poll_cq = poll_what_is_not_held_back;
    ops->req_notify_cq = count_notify;
    held_back = s.nvme->send_cq;
    notify_count = 0;
    write_queue_full(&s);
    struct weft_nvme_io flush = {.operation = WEFT_NVME_FLUSH};
    assert_int_equal(run(&s, &flush), -EAGAIN);
    weft_nvme_wait(s.nvme, 0);
    assert_int_equal(notify_count, 1);
    ops->poll_cq = poll_cq;
    weft_nvme_wait(s.nvme, 0);
    assert_int_equal(run(&s, &flush), 0);
    ops->req_notify_cq = req_notify_cq;
    scene_close(&s);
}

static unsigned refusals_left;
static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int post_send_if_there_is_room(struct ibv_qp *qp, struct ibv_send_wr *wr,
                                      struct ibv_send_wr **bad)
{
    if (refusals_left > 0) {
        refusals_left--;
        *bad = wr;
        return ENOMEM;
    }
    return post_send(qp, wr, bad);
}

// The receive for the answer is posted before the command: if that cannot be sent, the receive is
// the next one's. There are only as many as the queue is deep.
static void a_receive_whose_command_was_not_sent_serves_the_next(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    struct weft_nvme_io flush = {.operation = WEFT_NVME_FLUSH};
    struct ibv_context_ops *ops = &s.nvme->queues[0].id->qp->context->ops;
    post_send = ops->post_send;
    ops->post_send = post_send_if_there_is_room;
    for (unsigned i = 0; i < 3; i++) {
        refusals_left = DEPTH + 1;
        while (refusals_left > 0) {
            assert_int_equal(run(&s, &flush), -EAGAIN);
        }
        for (unsigned k = 0; k < DEPTH + 1; k++) {
            assert_int_equal(run(&s, &flush), 0);
        }
    }
    ops->post_send = post_send;
    there_and_back(&s, LEN);
    scene_close(&s);
}

/* ---- together -------------------------------------------------------------------------------- */

static struct ibv_qp *counted;
static unsigned chains; // lists of Sends that were posted by it
static int (*post_oneshots)(struct ibv_qp *qp, struct weft_oneshot_wr *wr,
                            struct weft_oneshot_wr **bad);

static int count_sends(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    chains += qp == counted;
    return post_send(qp, wr, bad);
}

static int count_oneshots(struct ibv_qp *qp, struct weft_oneshot_wr *wr,
                          struct weft_oneshot_wr **bad)
{
    chains += qp == counted;
    return post_oneshots(qp, wr, bad);
}

static void count_chains(struct scene *s, bool counts)
{
    counted = s->nvme->queues[0].id->qp;
    struct ibv_context_ops *ops = &counted->context->ops;
    if (counts) {
        post_send = ops->post_send;
        post_oneshots = s->nvme->oneshot.post;
    }
    ops->post_send = counts ? count_sends : post_send;
    s->nvme->oneshot.post = counts ? count_oneshots : post_oneshots;
    chains = 0;
}

static void submit_read(struct scene *s, struct weft_nvme_io *io, const struct iovec *piece)
{
    *io = (struct weft_nvme_io){.operation = WEFT_NVME_READ,
                                .flags = WEFT_NVME_MORE,
                                .nsid = 1,
                                .len = piece->iov_len,
                                .memory = piece,
                                .memory_count = 1,
                                .on_complete = count_end};
    assert_int_equal(weft_nvme_submit(s->nvme, io), 0);
}

static void wait_for(struct scene *s, unsigned count)
{
    while (ended < count) {
        weft_nvme_wait(s->nvme, 1000);
    }
}

static void commands_that_others_follow_leave_with_them(void **state)
{
    const struct target_wish wish = {0};
    static const unsigned ways[] = {0, WEFT_NVME_NO_ONESHOT};
    for (unsigned way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        struct scene s;
        struct weft_nvme_io ios[4];
        scene_open(&s, &wish, ways[way], 1);
        const struct iovec piece = {s.data, 4096};
        ended = 0;
        count_chains(&s, true);
        for (unsigned i = 0; i < 4; i++) {
            submit_read(&s, &ios[i], &piece);
        }
        assert_int_equal(chains, 0);
        weft_nvme_send(s.nvme);
        assert_int_equal(chains, 1);
        wait_for(&s, 4);
        count_chains(&s, false);
        scene_close(&s);
    }
}

static void who_polls_sends_what_waits(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    struct weft_nvme_io io;
    scene_open(&s, &wish, 0, 1);
    const struct iovec piece = {s.data, 4096};
    ended = 0;
    submit_read(&s, &io, &piece);
    wait_for(&s, 1);
    scene_close(&s);
}

// A read that goes by one-shot, and a flush that has nothing to advertise, are not of one list.
static void a_command_without_others_takes_along_what_waits(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    struct weft_nvme_io read, flush = {.operation = WEFT_NVME_FLUSH};
    scene_open(&s, &wish, 0, 1);
    const struct iovec piece = {s.data, 4096};
    ended = 0;
    count_chains(&s, true);
    submit_read(&s, &read, &piece);
    assert_int_equal(run(&s, &flush), 0);
    assert_int_equal(chains, 2);
    wait_for(&s, 1);
    count_chains(&s, false);
    scene_close(&s);
}

static struct weft_nvme_io again[DEPTH];
static struct ibv_wc heard[DEPTH];
static unsigned heard_count;

// All answers at once.
static int poll_answers_together(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    if (cq != held_back) {
        return poll_cq(cq, max, wc);
    }
    int count = poll_cq(cq, (int)(DEPTH - heard_count), &heard[heard_count]);
    heard_count += count > 0 ? (unsigned)count : 0;
    if (heard_count < DEPTH) {
        return 0;
    }
    assert_true(max >= DEPTH);
    memcpy(wc, heard, sizeof heard);
    heard_count = 0;
    return DEPTH;
}

static void submit_again(struct weft_nvme_io *io)
{
    struct scene *s = io->context;
    assert_int_equal(io->error, 0);
    if (ended++ < DEPTH) {
        assert_int_equal(weft_nvme_submit(s->nvme, io), 0);
    }
}

static void what_answers_bring_leaves_together(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    struct ibv_context_ops *ops = &s.nvme->verbs->ops;
    const struct iovec piece = {s.data, 4096};
    poll_cq = ops->poll_cq;
    ops->poll_cq = poll_answers_together;
    held_back = s.nvme->cq;
    heard_count = ended = 0;
    for (unsigned i = 0; i < DEPTH; i++) {
        again[i] = (struct weft_nvme_io){.operation = WEFT_NVME_READ,
                                         .nsid = 1,
                                         .len = 4096,
                                         .memory = &piece,
                                         .memory_count = 1,
                                         .on_complete = submit_again,
                                         .context = &s};
        assert_int_equal(weft_nvme_submit(s.nvme, &again[i]), 0);
    }
    count_chains(&s, true);
    wait_for(&s, 2 * DEPTH);
    assert_int_equal(chains, 1);
    count_chains(&s, false);
    ops->poll_cq = poll_cq;
    scene_close(&s);
}

static int error_of_bad;

static void note_error(struct weft_nvme_io *io)
{
    error_of_bad = io->error;
    ended++;
}

static void of_those_that_wait_one_that_cannot_be_sent_ends_alone(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    struct weft_nvme_io ios[3];
    scene_open(&s, &wish, 0, 1);
    const struct iovec good = {s.data, 4096}, bad = {(void *)(uintptr_t)4096, 4096};
    ended = 0;
    error_of_bad = 0;
    submit_read(&s, &ios[0], &good);
    submit_read(&s, &ios[1], &bad);
    ios[1].on_complete = note_error;
    submit_read(&s, &ios[2], &good);
    weft_nvme_send(s.nvme);
    assert_int_equal(error_of_bad, -EFAULT);
    wait_for(&s, 3);
    there_and_back(&s, LEN);
    scene_close(&s);
}

static void what_waits_ends_with_the_connection(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    struct weft_nvme_io io;
    scene_open(&s, &wish, 0, 1);
    const struct iovec piece = {s.data, 4096};
    ended = 0;
    submit_read(&s, &io, &piece);
    io.on_complete = note_error;
    initiator_lose(s.nvme, -ECONNRESET, "it is lost");
    assert_int_equal(ended, 1);
    assert_int_equal(error_of_bad, -ECONNRESET);
    weft_nvme_send(s.nvme);
    scene_close(&s);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static int try(struct scene *s, struct weft_nvme_io io)
{
    const struct iovec piece = {s->data, io.len};
    if (io.memory == NULL) {
        io.memory = &piece;
        io.memory_count = 1;
    }
    return run(s, &io);
}

#define IO(...)           \
    (struct weft_nvme_io) \
    {                     \
        __VA_ARGS__       \
    }

static void wrong_requests_are_refused(void **state)
{
    const struct target_wish wish = {0};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    const struct iovec half = {s.data, 256};
    assert_int_equal(try(&s, IO(.operation = 9, .len = 512)), -EINVAL);
    assert_int_equal(try(&s, IO(.operation = WEFT_NVME_READ, .flags = 1, .len = 512)), -EINVAL);
    assert_int_equal(try(&s, IO(.operation = WEFT_NVME_READ, .nsid = 5, .len = 512)), -EINVAL);
    assert_int_equal(try(&s, IO(.operation = WEFT_NVME_READ, .len = 0)), -EINVAL);
    assert_int_equal(try(&s, IO(.operation = WEFT_NVME_READ, .len = 100)), -EINVAL);
    assert_int_equal(try(&s, IO(.operation = WEFT_NVME_READ, .offset = 1, .len = 512)), -EINVAL);
    assert_int_equal(
        try(&s, IO(.operation = WEFT_NVME_READ, .offset = TARGET_DISK_LEN, .len = 512)), -EINVAL);
    assert_int_equal(
        try(&s, IO(.operation = WEFT_NVME_READ, .offset = UINT64_MAX - 511, .len = 1024)), -EINVAL);
    assert_int_equal(
        try(&s, IO(.operation = WEFT_NVME_READ, .len = 512, .memory = &half, .memory_count = 1)),
        -EINVAL);
    assert_int_equal(try(&s, IO(.operation = WEFT_NVME_READ, .len = TARGET_TRANSFER_MAX + 512)),
                     -EMSGSIZE);
    assert_int_equal(weft_nvme_range_max_len(s.nvme, 1, WEFT_NVME_WRITE_ZEROES), 65536 * 512);
    scene_close(&s);
}

static void a_read_only_namespace_takes_no_writes(void **state)
{
    const struct target_wish wish = {.is_read_only = true};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    assert_int_equal(move(&s, WEFT_NVME_WRITE, 0, s.data, 512), -EROFS);
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data, 512), 0);
    scene_close(&s);
}

/* ---- targets that do not keep to it ---------------------------------------------------------- */

static void errors_of_the_target_have_their_status(void **state)
{
    const struct target_wish wish = {.io_status = NVME_UNRECOVERED_READ | NVME_STATUS_DNR};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    const struct iovec piece = {s.data, 8192};
    struct weft_nvme_io io = {
        .operation = WEFT_NVME_READ, .len = 8192, .memory = &piece, .memory_count = 1};
    assert_int_equal(run(&s, &io), -EIO);
    assert_int_equal(io.status, NVME_UNRECOVERED_READ);
    assert_false(io.may_retry);
    scene_close(&s);
}

static void what_an_answer_leaves_open_is_taken_back(void **state)
{
    const struct target_wish wish = {.leaves_open = true};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    there_and_back(&s, LEN);
    assert_int_equal(s.counters.revokes, 2);
    assert_int_equal(s.counters.closes, 0);
    scene_close(&s);
}

// Octets that the C library left in the heap are nobody's business.
static void a_target_that_reads_the_memory_of_a_read_finds_zeroes(void **state)
{
    const struct target_wish wish = {.is_curious = true, .has_no_oneshot = true};
    static const uint8_t zeroes[LEN];
    struct scene s;
    scene_open(&s, &wish, WEFT_NVME_NO_ONESHOT, 1);
    const struct iovec pieces[] = {{s.data, 4096}, {s.data + 8192, LEN - 4096}};
    struct weft_nvme_io io = {
        .operation = WEFT_NVME_READ, .len = LEN, .memory = pieces, .memory_count = 2};
    mallopt(M_PERTURB, 0x5a);
    assert_int_equal(run(&s, &io), 0);
    mallopt(M_PERTURB, 0);
    assert_int_equal(s.counters.copies, 1);
    assert_memory_equal(target_disk(s.target), zeroes, LEN);
    scene_close(&s);
}

// It takes the command for one with the key 0; the program is told what to do about that.
static void a_target_without_one_shot_is_told_from_one_that_ends(void **state)
{
    const struct target_wish wish = {.has_no_oneshot = true};
    const struct target_wish other = {.drops_after = 2};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    assert_true(s.info.is_oneshot);
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data, LEN), -ECONNRESET);
    assert_non_null(strstr(weft_nvme_why(s.nvme), "WEFT_ONESHOT=off"));
    scene_close(&s);
    scene_open(&s, &other, 0, 1);
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data, LEN), 0);
    assert_int_equal(move(&s, WEFT_NVME_READ, 0, s.data, LEN), -ECONNRESET);
    assert_null(strstr(weft_nvme_why(s.nvme), "WEFT_ONESHOT"));
    scene_close(&s);
}

static void a_lost_connection_ends_what_is_outstanding(void **state)
{
    const struct target_wish wish = {.drops_after = 3};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    assert_int_equal(move(&s, WEFT_NVME_WRITE, 0, s.data, LEN), 0);
    assert_int_equal(move(&s, WEFT_NVME_WRITE, 0, s.data, LEN), 0);
    assert_int_equal(move(&s, WEFT_NVME_WRITE, 0, s.data, LEN), -ECONNRESET);
    assert_int_equal(move(&s, WEFT_NVME_WRITE, 0, s.data, LEN), -ENOTCONN);
    assert_true(weft_nvme_poll(s.nvme) < 0);
    assert_non_null(weft_nvme_why(s.nvme));
    scene_close(&s);
}

static unsigned cancelled;

static void on_cancel(struct weft_nvme_io *io)
{
    assert_int_equal(io->error, -ECANCELED);
    cancelled++;
}

static void disconnecting_cancels_what_is_outstanding(void **state)
{
    const struct target_wish wish = {.is_silent = true};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    const struct iovec piece = {s.data, 8192};
    struct weft_nvme_io io = {.operation = WEFT_NVME_READ,
                              .nsid = 1,
                              .len = 8192,
                              .memory = &piece,
                              .memory_count = 1,
                              .on_complete = on_cancel};
    cancelled = 0;
    assert_int_equal(weft_nvme_submit(s.nvme, &io), 0);
    assert_int_equal(weft_nvme_submit(s.nvme, &io), -EINVAL); // it is out
    scene_close(&s);
    assert_int_equal(cancelled, 1);
}

// What is answered to another command than any that is out helps nobody: the right one stays out.
static void answers_to_nothing_are_counted(void **state)
{
    const struct target_wish wish = {.answers_strangely = true};
    struct scene s;
    scene_open(&s, &wish, 0, 1);
    struct weft_nvme_io io = {.operation = WEFT_NVME_FLUSH, .nsid = 1, .on_complete = on_cancel};
    cancelled = 0;
    assert_int_equal(weft_nvme_submit(s.nvme, &io), 0);
    while (s.counters.strange == 0) {
        assert_int_equal(weft_nvme_wait(s.nvme, 1000), 0);
        weft_nvme_counters(s.nvme, &s.counters);
    }
    assert_int_equal(cancelled, 0);
    scene_close(&s);
    assert_int_equal(cancelled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_shot_registers_nothing),
        cmocka_unit_test(short_writes_go_along),
        cmocka_unit_test(pieces_go_by_one_shot),
        cmocka_unit_test(the_usual_way_registers_each_time),
        cmocka_unit_test(lent_memory_is_registered_once),
        cmocka_unit_test(pieces_are_copied_the_usual_way),
        cmocka_unit_test(trims_zeroes_and_flushes),
        cmocka_unit_test(queues_are_filled_and_no_further),
        cmocka_unit_test(who_hears_of_an_answer_has_room_for_the_next_command),
        cmocka_unit_test(a_send_is_told_of_where_the_answer_came_before_it),
        cmocka_unit_test(a_receive_whose_command_was_not_sent_serves_the_next),
        cmocka_unit_test(commands_that_others_follow_leave_with_them),
        cmocka_unit_test(who_polls_sends_what_waits),
        cmocka_unit_test(a_command_without_others_takes_along_what_waits),
        cmocka_unit_test(what_answers_bring_leaves_together),
        cmocka_unit_test(of_those_that_wait_one_that_cannot_be_sent_ends_alone),
        cmocka_unit_test(what_waits_ends_with_the_connection),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(a_read_only_namespace_takes_no_writes),
        cmocka_unit_test(errors_of_the_target_have_their_status),
        cmocka_unit_test(what_an_answer_leaves_open_is_taken_back),
        cmocka_unit_test(a_target_that_reads_the_memory_of_a_read_finds_zeroes),
        cmocka_unit_test(a_target_without_one_shot_is_told_from_one_that_ends),
        cmocka_unit_test(a_lost_connection_ends_what_is_outstanding),
        cmocka_unit_test(disconnecting_cancels_what_is_outstanding),
        cmocka_unit_test(answers_to_nothing_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
