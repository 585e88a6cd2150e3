// The environment refuses: each allocation and each system call of a scenario (create, connect,
// exchange, disconnect, destroy) fails once, the Nth, for every N. The program gets an error where
// one is due or the connection ends, nothing hangs, nothing is left, no descriptor is lost.
//
// The device has no thread here, so that the Nth call is the same one in every run.

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "host/clock.h"
#include "link/socket.h"
#include "rnic/create.h"

/* ---- failing the Nth ------------------------------------------------------------------------- */

enum kind { KIND_NONE, KIND_ALLOCATION, KIND_SYSTEM_CALL };

static struct {
    enum kind kind;
    unsigned at;    // the one that fails, 1 the first
    unsigned count; // so many there were
} fault;

static bool fails(enum kind kind)
{
    return fault.kind == kind && ++fault.count == fault.at;
}

// What a call may fail with; 0: it is left alone (it cannot fail, or nobody could do anything).
static int error_of(long number, long operation)
{
    switch (number) {
    case SYS_socket:
    case SYS_accept4:
    case SYS_eventfd2:
    case SYS_epoll_create1:
    case SYS_fcntl:
        return EMFILE;
    case SYS_bind:
    case SYS_listen:
        return EADDRINUSE;
    case SYS_connect:
    case SYS_getsockname:
    case SYS_setsockopt:
    case SYS_getsockopt:
        return ENOBUFS;
    case SYS_epoll_ctl:
        return operation == EPOLL_CTL_DEL ? 0 : ENOMEM;
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
        return ECONNRESET;
    default:
        return 0;
    }
}

static long raw_call(long number, const long *args)
{
    register long a __asm__("rdi") = args[0];
    register long b __asm__("rsi") = args[1];
    register long c __asm__("rdx") = args[2];
    register long d __asm__("r10") = args[3];
    register long e __asm__("r8") = args[4];
    register long f __asm__("r9") = args[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f)
                     : "rcx", "r11", "memory");
    return result;
}

// In place of libc's, through which link/ makes all its calls.
long syscall(long number, ...)
{
    long args[6];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < 6; i++) {
        args[i] = va_arg(list, long);
    }
    va_end(list);
    int error = error_of(number, args[1]);
    long result = error != 0 && fails(KIND_SYSTEM_CALL) ? -error : raw_call(number, args);
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static long allocations_live;

#if IS_SANITIZED
enum { ALLOCATIONS_CAN_FAIL = false }; // they are the sanitizer's, which looks for leaks itself
#else
enum { ALLOCATIONS_CAN_FAIL = true };
void *__libc_malloc(size_t len);
void *__libc_calloc(size_t count, size_t len);
void *__libc_realloc(void *ptr, size_t len);
void *__libc_memalign(size_t alignment, size_t len);
void __libc_free(void *ptr);

static void *counted(void *ptr)
{
    allocations_live += ptr != NULL;
    return ptr;
}

void *malloc(size_t len)
{
    return fails(KIND_ALLOCATION) ? NULL : counted(__libc_malloc(len));
}

void *calloc(size_t count, size_t len)
{
    return fails(KIND_ALLOCATION) ? NULL : counted(__libc_calloc(count, len));
}

void *realloc(void *ptr, size_t len)
{
    if (fails(KIND_ALLOCATION)) {
        return NULL;
    }
    return ptr == NULL ? counted(__libc_realloc(NULL, len)) : __libc_realloc(ptr, len);
}

void *aligned_alloc(size_t alignment, size_t len)
{
    return fails(KIND_ALLOCATION) ? NULL : counted(__libc_memalign(alignment, len));
}

void free(void *ptr)
{
    allocations_live -= ptr != NULL;
    __libc_free(ptr);
}
#endif

/* ---- the scenario, as a careful program would write it --------------------------------------- */

enum { BUF_LEN = 256, HANG_MS = 5000 };

struct end {
    struct rnic_qp *qp;
    struct rnic_ep *ep;
    bool is_established, has_ended; // ended: refused, failed, disconnected
};

struct scenario {
    struct rnic *rnic;
    uint32_t pd, stag;
    bool has_pd, has_stag;
    struct rnic_cq *cq;
    struct rnic_ep *listener;
    struct end active, passive;
    unsigned completions;
    uint8_t buf[BUF_LEN];
};

static void on_event(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct end *end = ctx;
    end->is_established |= event->type == RNIC_EP_ESTABLISHED;
    end->has_ended |= event->type >= RNIC_EP_REJECTED;
    if (event->type >= RNIC_EP_REJECTED && event->type <= RNIC_EP_CONNECT_ERROR &&
        event->status >= 0) {
        abort(); // a failure without a reason
    }
}

static void on_request(void *ctx, struct rnic_ep *ep, const struct rnic_ep_event *event)
{
    struct scenario *s = ctx;
    s->passive.ep = event->new_ep;
    *event->new_ep_port = (struct rnic_ep_port){.on_event = on_event, .ctx = &s->passive};
}

static int device_make(struct scenario *s)
{
    const struct link_socket_config link_config = {.peer_timeout_ns = NS_PER_S};
    struct rnic_parts parts = {
        .config = {.crc = true,
                   .read_contexts = 16,
                   .extensions = true,
                   .mpa_revision = 2,
                   .rnr_store_len = 4096,
                   .rnr_timeout_ns = NS_PER_S,
                   .mpa_timeout_ns = 100 * NS_PER_MS},
        .clock = host_clock,
        .is_simulated = true,
    };
    int error = link_socket_create(&link_config, &parts.link);
    return error != 0 ? error : rnic_create(&parts, &s->rnic);
}

static int objects_make(struct scenario *s)
{
    const struct cq_port quiet = {0};
    struct rnic_qp_init init = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    int error = rnic_pd_alloc(s->rnic, &s->pd);
    s->has_pd = error == 0;
    if (error == 0) {
        error = rnic_region_register(s->rnic, s->pd, s->buf, BUF_LEN, (uintptr_t)s->buf,
                                     MEM_ACCESS_LOCAL_WRITE, &s->stag);
        s->has_stag = error == 0;
    }
    if (error == 0) {
        error = rnic_cq_create(s->rnic, 16, &quiet, &s->cq);
    }
    init.pd = s->pd;
    init.send_cq = init.recv_cq = s->cq;
    if (error == 0) {
        error = rnic_qp_create(s->rnic, &init, &s->active.qp);
    }
    if (error == 0) {
        error = rnic_qp_create(s->rnic, &init, &s->passive.qp);
    }
    return error;
}

static bool turn(struct scenario *s, instant_ns until_ns)
{
    struct cqe cqe;
    rnic_step(s->rnic);
    while (s->cq != NULL && rnic_cq_poll(s->cq, &cqe, 1) == 1) {
        s->completions++;
    }
    return host_clock(NULL) < until_ns;
}

// A condition that must come true, whatever failed.
#define TURN_UNTIL(s, condition)                                              \
    do {                                                                      \
        instant_ns until_ns = host_clock(NULL) + HANG_MS * NS_PER_MS;         \
        while (!(condition)) {                                                \
            if (!turn(s, until_ns)) {                                         \
                fault.kind = KIND_NONE;                                       \
                fail_msg("hangs after failure %u: %s", fault.at, #condition); \
            }                                                                 \
        }                                                                     \
    } while (0)

static int both_connect(struct scenario *s)
{
    const struct rnic_ep_params params = {.ird = 2, .ord = 2};
    const struct rnic_ep_port listener_port = {.on_event = on_request, .ctx = s};
    const struct rnic_ep_port port = {.on_event = on_event, .ctx = &s->active};
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_storage addr;
    int error =
        rnic_ep_bind(s->rnic, (const struct sockaddr *)&any, 0, &listener_port, &s->listener);
    error = error != 0 ? error : rnic_ep_listen(s->listener, 0);
    error = error != 0 ? error : rnic_ep_local_addr(s->listener, &addr);
    error = error != 0 ? error : rnic_ep_bind(s->rnic, NULL, 0, &port, &s->active.ep);
    error = error != 0
                ? error
                : rnic_ep_connect(s->active.ep, (struct sockaddr *)&addr, s->active.qp, &params);
    if (error != 0) {
        return error;
    }
    TURN_UNTIL(s, s->passive.ep != NULL || s->active.has_ended);
    if (s->passive.ep != NULL) {
        error = rnic_ep_accept(s->passive.ep, s->passive.qp, &params);
    }
    TURN_UNTIL(
        s, s->active.has_ended || error != 0 ||
               (s->active.is_established && (s->passive.is_established || s->passive.has_ended)));
    return error;
}

static void recv_post(struct scenario *s)
{
    struct recv_wqe *wqe = wq_receive_slot(s->passive.qp->wq, 0);
    wqe->wr_id = 0;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){(uintptr_t)s->buf, BUF_LEN / 2, s->stag};
    wq_receive_commit(s->passive.qp->wq, 1);
    rnic_qp_ring_rq(s->passive.qp);
}

static void send_post(struct scenario *s)
{
    struct send_wqe *wqe = wq_send_slot(s->active.qp->wq, 0);
    wqe->wr_id = 0;
    wqe->opcode = WQE_SEND;
    wqe->flags = WQE_SIGNALED;
    wqe->sge_count = 1;
    wqe->length = BUF_LEN / 2;
    wqe->sge[0] = (struct sge){(uintptr_t)s->buf + BUF_LEN / 2, BUF_LEN / 2, s->stag};
    wq_send_commit(s->active.qp->wq, 1);
    rnic_qp_ring_sq(s->active.qp);
}

static void exchange(struct scenario *s)
{
    recv_post(s); // before the Send, or the passive end may have failed and flushes it
    send_post(s);
    TURN_UNTIL(s, s->completions == 2);
    rnic_ep_disconnect(s->active.ep);
    TURN_UNTIL(s, s->active.has_ended && s->passive.has_ended);
}

static void all_destroy(struct scenario *s)
{
    struct rnic_ep *const eps[] = {s->active.ep, s->passive.ep, s->listener};
    for (unsigned i = 0; i < 3; i++) {
        if (eps[i] != NULL) {
            rnic_ep_destroy(eps[i]);
        }
    }
    if (s->active.qp != NULL) {
        rnic_qp_destroy(s->active.qp);
    }
    if (s->passive.qp != NULL) {
        rnic_qp_destroy(s->passive.qp);
    }
    if (s->cq != NULL) {
        assert_int_equal(rnic_cq_destroy(s->cq), 0);
    }
    if (s->has_stag) {
        assert_int_equal(rnic_region_deregister(s->rnic, s->stag), 0);
    }
    if (s->has_pd) {
        assert_int_equal(rnic_pd_dealloc(s->rnic, s->pd), 0);
    }
    static const struct rnic_live none;
    const struct rnic_live live = rnic_live(s->rnic);
    assert_memory_equal(&live, &none, sizeof live);
    rnic_destroy(s->rnic);
}

// 0, or the error that the program got.
static int scenario_run(void)
{
    static struct scenario s;
    memset(&s, 0, sizeof s);
    int error = device_make(&s);
    if (error != 0) {
        return error;
    }
    error = objects_make(&s);
    if (error == 0) {
        error = both_connect(&s);
    }
    if (error == 0 && s.active.is_established && s.passive.is_established) {
        exchange(&s);
    }
    all_destroy(&s);
    return error;
}

static unsigned descriptors_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void every_one_fails(enum kind kind)
{
    unsigned descriptors = descriptors_open(), at = 0, refused = 0;
    do {
        fault.kind = kind;
        fault.count = 0;
        fault.at = ++at;
        long allocations = allocations_live;
        int error = scenario_run();
        fault.kind = KIND_NONE;
        assert_int_equal(allocations_live, allocations);
        assert_true(error <= 0);
        refused += error < 0;
        assert_int_equal(descriptors_open(), descriptors);
    } while (fault.count >= at); // until there was no Nth any more
    print_message("%u failures, %u of them told by the call itself\n", at - 1, refused);
    assert_true(at > 10);
}

static void test_scenario_without_a_failure(void **state)
{
    assert_int_equal(scenario_run(), 0);
}

static void test_every_system_call_fails_once(void **state)
{
    every_one_fails(KIND_SYSTEM_CALL);
}

static void test_every_allocation_fails_once(void **state)
{
    if (!ALLOCATIONS_CAN_FAIL) {
        print_message("SKIP: allocations are the sanitizer's in this build\n");
        skip();
    }
    every_one_fails(KIND_ALLOCATION);
}

int main(void)
{
#ifndef __x86_64__
    print_message("SKIP: system calls are made by hand, for x86-64 only\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenario_without_a_failure),
        cmocka_unit_test(test_every_system_call_fails_once),
        cmocka_unit_test(test_every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
