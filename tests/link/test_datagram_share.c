// Processes that share the port of RoCE at an address: packets come to whom they are for, whoever
// dies, stops or is another user.
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/prng.h"
#include "link/datagram/share.h"
#include "link/datagram/udp.h"
#include "tests/own_port.h"
#include "wire/icrc.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { WORKERS = 8, HEAD_LEN = 12, PACKETS = 200, NOBODY = 65534, LINKS_MAX = 64, MANAGEMENT = 1 };

static uint16_t port;
static struct in6_addr here = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

/* ---- a process ------------------------------------------------------------------------------- */

enum what { WORK_OPEN, WORK_SEND, WORK_COUNTER, WORK_FIRST_NUMBER, WORK_RECEIVED };

// What a process is told to do; it answers with a number.
struct order {
    enum what what;
    uint32_t qp_num; // WORK_SEND: to this
    unsigned count;  // WORK_SEND: so many packets
    char name[32];   // WORK_COUNTER
    uint8_t host;    // WORK_OPEN: the last octet of the address
};

struct worker {
    pid_t pid;
    int fd; // orders and answers
};

static struct worker workers[WORKERS + 1];

static struct datagram_link *link_of_worker;
static int64_t received;

static void take_counter(void *ctx, const char *name, uint64_t value)
{
    struct order *o = ctx;
    if (strcmp(name, o->name) == 0) {
        o->count = (unsigned)value;
    }
}

static int64_t send_packets(const struct order *o)
{
    struct datagram_path path = {.local = here, .remote = here};
    uint8_t head[HEAD_LEN] = {0x64};
    int64_t sent = 0;
    for (unsigned i = 0; i < o->count; i++) {
        put_be32(head + 4, o->qp_num);
        put_be32(head + 8, i);
        struct datagram_tx tx = {.path = &path, .head = span_of(head, sizeof head)};
        sent += datagram_put(link_of_worker, &tx);
    }
    datagram_flush(link_of_worker);
    return sent;
}

static int64_t obey(struct order *o)
{
    struct in6_addr addr = here;
    switch (o->what) {
    case WORK_OPEN:
        addr.s6_addr[15] = o->host;
        return datagram_open(link_of_worker, &addr, 0);
    case WORK_SEND:
        return send_packets(o);
    case WORK_COUNTER:
        datagram_counters(link_of_worker, take_counter, o);
        return o->count;
    case WORK_FIRST_NUMBER:
        return link_of_worker->qp_num_first;
    default:
        return received;
    }
}

static void look(void)
{
    struct datagram_rx rx[8];
    datagram_wait(link_of_worker, NS_PER_MS);
    if ((datagram_poll(link_of_worker, 0) & DATAGRAM_READY_IN) != 0) {
        unsigned count = datagram_receive(link_of_worker, rx, 8, 0);
        for (unsigned i = 0; i < count; i++) {
            if (rx[i].is_shared) {
                datagram_hand_on(link_of_worker, &rx[i], DATAGRAM_SLOT_ALL);
            }
        }
        received += count;
    }
}

static _Noreturn void work(int fd, uid_t uid)
{
    struct datagram_udp_config config = {.port = port};
    struct order o;
    if ((uid != 0 && setuid(uid) != 0) || datagram_udp_create(&config, &link_of_worker) != 0) {
        _exit(1);
    }
    for (;;) {
        ssize_t len = recv(fd, &o, sizeof o, MSG_DONTWAIT);
        if (len == 0) {
            datagram_destroy(link_of_worker);
            _exit(0);
        }
        if (len == (ssize_t)sizeof o) {
            int64_t answer = obey(&o);
            send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
        } else {
            look();
        }
    }
}

static void worker_start(struct worker *w, uid_t uid)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0) {
        for (unsigned i = 0; i <= WORKERS; i++) {
            if (&workers[i] != w && workers[i].pid != 0) {
                close(workers[i].fd);
            }
        }
        close(fds[0]);
        work(fds[1], uid);
    }
    close(fds[1]);
    w->fd = fds[0];
}

static int64_t answer_of(const struct worker *w)
{
    int64_t answer = INT64_MIN;
    assert_int_equal(recv(w->fd, &answer, sizeof answer, 0), sizeof answer);
    return answer;
}

static int64_t tell(const struct worker *w, struct order o)
{
    assert_int_equal(send(w->fd, &o, sizeof o, MSG_NOSIGNAL), sizeof o);
    return answer_of(w);
}

static int64_t open_at(const struct worker *w, uint8_t host)
{
    return tell(w, (struct order){.what = WORK_OPEN, .host = host});
}

static uint32_t number_of(const struct worker *w)
{
    return (uint32_t)tell(w, (struct order){.what = WORK_FIRST_NUMBER});
}

static int64_t counter_of(const struct worker *w, const char *name)
{
    struct order o = {.what = WORK_COUNTER};
    snprintf(o.name, sizeof o.name, "%s", name);
    return tell(w, o);
}

static int64_t received_by(const struct worker *w)
{
    return tell(w, (struct order){.what = WORK_RECEIVED});
}

static void worker_end(struct worker *w, int signal)
{
    if (w->pid != 0) {
        if (signal != 0) {
            kill(w->pid, signal);
        }
        close(w->fd);
        assert_int_equal(waitpid(w->pid, NULL, 0), w->pid);
        w->pid = 0;
    }
}

static void worker_stop(const struct worker *w)
{
    assert_int_equal(kill(w->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(w->pid, NULL, WUNTRACED), w->pid);
}

static int begin(void **state)
{
    port = own_port();
    memset(workers, 0, sizeof workers);
    return 0;
}

static int end(void **state)
{
    for (unsigned i = 0; i <= WORKERS; i++) {
        worker_end(&workers[i], SIGKILL);
    }
    return 0;
}

static void start_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        worker_start(&workers[i], 0);
        assert_int_equal(open_at(&workers[i], 1), 0);
    }
}

// Until it has so many; false: it does not come to that.
static bool comes_to(const struct worker *w, int64_t count)
{
    for (unsigned i = 0; i < 2000 && received_by(w) < count; i++) {
        usleep(1000);
    }
    return received_by(w) == count;
}

static void send_to(const struct worker *from, uint32_t qp_num, unsigned count)
{
    struct order o = {.what = WORK_SEND, .qp_num = qp_num, .count = count};
    assert_int_equal(tell(from, o), count);
}

/* ---- whose they are -------------------------------------------------------------------------- */

static void packets_come_to_whom_they_are_for(void **state)
{
    uint32_t numbers[WORKERS];
    start_all(WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        numbers[i] = number_of(&workers[i]) + i;
        for (unsigned j = 0; j < i; j++) {
            assert_int_not_equal(numbers[i] >> 16, numbers[j] >> 16);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        for (unsigned j = 0; j < WORKERS; j++) {
            send_to(&workers[i], numbers[j], PACKETS);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_true(comes_to(&workers[i], WORKERS * PACKETS));
        assert_int_equal(counter_of(&workers[i], "handed_on"), 0);
        assert_int_equal(counter_of(&workers[i], "not_ours"), 0);
    }
}

// As GRO makes them of packets of one sender: steered by the first.
static void packets_that_came_together_are_parted(void **state)
{
    enum { LEN = 64, COUNT = 6 };
    uint8_t octets[COUNT * LEN] = {0};
    start_all(2);
    uint32_t numbers[2] = {number_of(&workers[0]), number_of(&workers[1])};
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        uint8_t *packet = octets + (size_t)i * LEN;
        struct icrc_outer outer = {.src = &here,
                                   .dst = &here,
                                   .id = (uint16_t)i,
                                   .fragment = ICRC_DF,
                                   .src_port = ntohs(name.sin_port),
                                   .dst_port = port,
                                   .udp_len = 8 + LEN};
        packet[0] = 0x64;
        put_be32(packet + 4, numbers[i % 2]);
        icrc_put(packet + LEN - ICRC_LEN, icrc_finish(icrc_begin(&outer), packet, LEN - ICRC_LEN));
    }
    name.sin_port = htons(port);
    int each = LEN;
    if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &each, sizeof each) != 0) {
        print_message("SKIP: this kernel has no UDP_SEGMENT\n");
        close(fd);
        skip();
    }
    assert_int_equal(sendto(fd, octets, sizeof octets, 0, (struct sockaddr *)&name, sizeof name),
                     sizeof octets);
    close(fd);
    assert_true(comes_to(&workers[0], COUNT / 2));
    assert_true(comes_to(&workers[1], COUNT / 2));
    assert_int_equal(counter_of(&workers[0], "handed_on"), COUNT / 2);
    assert_int_equal(counter_of(&workers[1], "handed_in"), COUNT / 2);
}

/* ---- who dies -------------------------------------------------------------------------------- */

// The others send to each other meanwhile.
static void assert_undisturbed_by(unsigned victim, int signal)
{
    uint32_t numbers[WORKERS];
    start_all(WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        numbers[i] = number_of(&workers[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        if (i == WORKERS / 2) {
            worker_end(&workers[victim], signal);
        }
        for (unsigned j = 0; j < WORKERS; j++) {
            if (i != victim) {
                send_to(&workers[i], numbers[j], PACKETS);
            }
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        if (i != victim) {
            assert_true(comes_to(&workers[i], (WORKERS - 1) * PACKETS));
            assert_int_equal(counter_of(&workers[i], "not_ours"), 0);
        }
    }
}

static void killed_process_disturbs_nobody(void **state)
{
    assert_undisturbed_by(WORKERS - 1, SIGKILL);
}

static void nor_does_the_one_that_made_the_sockets(void **state)
{
    assert_undisturbed_by(0, SIGKILL);
}

static void nor_does_one_that_ends_in_order(void **state)
{
    assert_undisturbed_by(WORKERS - 1, 0);
}

static void slot_of_a_killed_process_is_free_and_empty(void **state)
{
    start_all(3);
    uint32_t number = number_of(&workers[1]);
    worker_end(&workers[1], SIGKILL);
    send_to(&workers[0], number, PACKETS); // to nobody
    worker_start(&workers[1], 0);
    assert_int_equal(open_at(&workers[1], 1), 0);
    assert_int_equal(number_of(&workers[1]), number);
    assert_int_equal(received_by(&workers[1]), 0);
    send_to(&workers[2], number, PACKETS);
    assert_true(comes_to(&workers[1], PACKETS));
}

// Nobody is left who was there when the sockets were made.
static void sockets_outlive_every_process(void **state)
{
    start_all(1);
    for (unsigned i = 1; i < 6; i++) {
        worker_start(&workers[i], 0);
        assert_int_equal(open_at(&workers[i], 1), 0);
        worker_end(&workers[i - 1], SIGKILL);
    }
    worker_start(&workers[0], 0);
    assert_int_equal(open_at(&workers[0], 1), 0);
    send_to(&workers[0], number_of(&workers[5]), PACKETS);
    send_to(&workers[5], number_of(&workers[0]), PACKETS);
    assert_true(comes_to(&workers[5], PACKETS));
    assert_true(comes_to(&workers[0], PACKETS));
}

// Slots are taken and left at random, with and without a word; whoever is there hears from all.
static void processes_come_and_go_and_packets_find_them(void **state)
{
    enum { STEPS = 60, FEW = 20 };
    int64_t expected[WORKERS] = {0};
    struct prng rng;
    prng_init(&rng, 7);
    for (unsigned step = 0; step < STEPS; step++) {
        const unsigned it = (unsigned)prng_below(&rng, WORKERS);
        if (workers[it].pid != 0) {
            worker_end(&workers[it], prng_below(&rng, 2) == 0 ? SIGKILL : 0);
        } else {
            worker_start(&workers[it], 0);
            assert_int_equal(open_at(&workers[it], 1), 0);
            expected[it] = 0;
        }
        for (unsigned from = 0; from < WORKERS; from++) {
            for (unsigned to = 0; to < WORKERS; to++) {
                if (workers[from].pid != 0 && workers[to].pid != 0) {
                    send_to(&workers[from], number_of(&workers[to]), FEW);
                    expected[to] += FEW;
                }
            }
        }
        for (unsigned i = 0; i < WORKERS; i++) {
            if (workers[i].pid != 0) {
                assert_true(comes_to(&workers[i], expected[i]));
                assert_int_equal(counter_of(&workers[i], "handed_on"), 0);
            }
        }
    }
}

/* ---- who stops ------------------------------------------------------------------------------- */

static void stopped_process_is_passed_by(void **state)
{
    start_all(2);
    worker_stop(&workers[0]);
    worker_start(&workers[2], 0);
    assert_int_equal(open_at(&workers[2], 1), 0);
    send_to(&workers[2], number_of(&workers[1]), PACKETS);
    assert_true(comes_to(&workers[1], PACKETS));
    assert_int_equal(kill(workers[0].pid, SIGCONT), 0);
    send_to(&workers[2], number_of(&workers[0]), PACKETS);
    assert_true(comes_to(&workers[0], PACKETS));
}

static void address_of_a_stopped_process_alone_is_in_use(void **state)
{
    start_all(1);
    worker_stop(&workers[0]);
    worker_start(&workers[1], 0);
    assert_int_equal(open_at(&workers[1], 1), -EADDRINUSE);
    assert_int_equal(open_at(&workers[1], 2), 0);
    assert_int_equal(kill(workers[0].pid, SIGCONT), 0);
    assert_int_equal(open_at(&workers[1], 1), 0);
}

// Says to the process in `slot` again and again that it is here, itself in a slot that answers
// nobody, until it is killed or that has been for too long.
static pid_t chatterer_start(unsigned slot)
{
    enum { GAP_US = 20000, WORDS_MAX = 1000 };
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct datagram_share share;
        const int error = datagram_share_init(&share, port);
        for (unsigned i = 0; error == 0 && i < WORDS_MAX; i++) {
            datagram_share_come(&share, slot);
            usleep(GAP_US);
        }
        _exit(0);
    }
    return pid;
}

// Who waits for its answer hears of others meanwhile, and waits no longer for that.
static void stopped_process_is_passed_by_whatever_others_say(void **state)
{
    start_all(1);
    worker_stop(&workers[0]);
    worker_start(&workers[1], 0);
    assert_int_equal(number_of(&workers[1]) >> 16, 1); // its slot
    const pid_t chatterer = chatterer_start(1);
    assert_int_equal(open_at(&workers[1], 1), -EADDRINUSE);
    assert_int_equal(waitpid(chatterer, NULL, WNOHANG), 0); // it still talks
    kill(chatterer, SIGKILL);
    assert_int_equal(waitpid(chatterer, NULL, 0), chatterer);
}

// Nor does it take a question: so many messages wait for it. Somebody who is there for a moment has
// sent them.
static void fill(unsigned slot)
{
    enum { MESSAGES_MAX = 100000 };
    struct datagram_share share;
    int error = datagram_share_init(&share, port);
    for (unsigned i = 0; error == 0 && i < MESSAGES_MAX; i++) {
        error = datagram_share_come(&share, slot);
    }
    datagram_share_fini(&share);
    assert_int_equal(error, -EAGAIN);
}

static void who_has_no_room_for_a_question_is_asked_again(void **state)
{
    const struct order o = {.what = WORK_OPEN, .host = 1};
    start_all(1);
    worker_stop(&workers[0]);
    fill(0);
    worker_start(&workers[1], 0);
    assert_int_equal(send(workers[1].fd, &o, sizeof o, MSG_NOSIGNAL), sizeof o);
    struct pollfd early = {.fd = workers[1].fd, .events = POLLIN};
    assert_int_equal(poll(&early, 1, 100), 0);
    assert_int_equal(kill(workers[0].pid, SIGCONT), 0);
    assert_int_equal(answer_of(&workers[1]), 0);
}

// Others go on as if it were not there: also with what is for all, of which it takes no more.
static void stopped_process_holds_up_nobody(void **state)
{
    start_all(3);
    worker_stop(&workers[0]);
    for (unsigned i = 0; i < 5; i++) {
        send_to(&workers[1], MANAGEMENT, 1);
        send_to(&workers[2], number_of(&workers[1]), PACKETS);
        send_to(&workers[1], number_of(&workers[2]), PACKETS);
    }
    assert_true(comes_to(&workers[1], 5 * PACKETS + 5));
    assert_true(comes_to(&workers[2], 5 * PACKETS + 5));
    assert_int_equal(kill(workers[0].pid, SIGCONT), 0);
    send_to(&workers[1], number_of(&workers[0]), PACKETS);
    assert_true(comes_to(&workers[0], PACKETS + 5));
}

// It did not get what was made while it could not read. Who came to share with it alone would have
// one place too few, and packets would go astray.
static void process_that_lacks_a_socket_gives_no_wrong_ones(void **state)
{
    start_all(2);
    worker_stop(&workers[1]);
    send_to(&workers[0], MANAGEMENT, 600); // more copies than it keeps
    assert_true(comes_to(&workers[0], 600));
    assert_true(counter_of(&workers[0], "handed_on_lost") > 0);
    worker_start(&workers[2], 0);
    assert_int_equal(open_at(&workers[2], 1), 0);
    worker_end(&workers[0], SIGKILL);
    worker_stop(&workers[2]); // first: it would give what is lacking
    assert_int_equal(kill(workers[1].pid, SIGCONT), 0);
    worker_start(&workers[0], 0);
    assert_int_equal(open_at(&workers[0], 1), -EADDRINUSE);
    assert_int_equal(kill(workers[2].pid, SIGCONT), 0);
    assert_int_equal(open_at(&workers[0], 1), 0);
    worker_start(&workers[3], 0);
    assert_int_equal(open_at(&workers[3], 1), 0);
    const int64_t before = received_by(&workers[2]);
    send_to(&workers[3], number_of(&workers[2]), PACKETS);
    assert_true(comes_to(&workers[2], before + PACKETS));
    send_to(&workers[2], number_of(&workers[3]), PACKETS);
    assert_true(comes_to(&workers[3], PACKETS));
}

static void take(struct datagram_share *s, enum datagram_share_kind kind,
                 struct datagram_share_message *ret)
{
    do {
        datagram_share_receive(s, 20 * NS_PER_S, ret);
        assert_int_not_equal(ret->kind, DATAGRAM_SHARE_NOTHING);
    } while (ret->kind != kind);
}

// Who asked when it had some, was told nothing, and asks for all now hears of both.
static void an_answer_to_an_earlier_question_is_not_the_last(void **state)
{
    const struct order o = {.what = WORK_OPEN, .host = 1};
    struct datagram_share share;
    int fds[DATAGRAM_SHARE_FDS];
    struct datagram_share_message given = {.fds = fds}, asked = {.fds = NULL};
    start_all(1);
    assert_int_equal(datagram_share_init(&share, port), 0);
    assert_int_equal(datagram_share_ask(&share, 0, &here, 0, 0), 0);
    take(&share, DATAGRAM_SHARE_GIVE, &given);
    worker_end(&workers[0], SIGKILL);
    worker_start(&workers[0], 0);
    assert_int_equal(send(workers[0].fd, &o, sizeof o, MSG_NOSIGNAL), sizeof o);
    take(&share, DATAGRAM_SHARE_ASK, &asked);
    assert_int_equal(
        datagram_share_give(&share, asked.from, &here, 0, given.fd_count, given.fds, 1), 0);
    assert_int_equal(
        datagram_share_give(&share, asked.from, &here, 0, 0, given.fds, given.fd_count), 0);
    assert_int_equal(answer_of(&workers[0]), 0);
    for (unsigned i = given.fd_count; i-- > 0;) {
        close(fds[i]);
    }
    datagram_share_fini(&share);
}

static void processes_that_begin_at_once_share(void **state)
{
    struct order o = {.what = WORK_OPEN, .host = 1};
    for (unsigned i = 0; i < WORKERS; i++) {
        worker_start(&workers[i], 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(send(workers[i].fd, &o, sizeof o, MSG_NOSIGNAL), sizeof o);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(answer_of(&workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        send_to(&workers[i], number_of(&workers[(i + 1) % WORKERS]), PACKETS);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_true(comes_to(&workers[i], PACKETS));
    }
}

/* ---- users ----------------------------------------------------------------------------------- */

static void another_user_may_have_another_address(void **state)
{
    if (geteuid() != 0) {
        print_message("SKIP: only root is two users\n");
        skip();
    }
    start_all(1);
    worker_start(&workers[1], NOBODY);
    assert_int_equal(open_at(&workers[1], 1), -EADDRINUSE);
    assert_int_equal(open_at(&workers[1], 2), 0);
    assert_int_equal(open_at(&workers[0], 2), -EADDRINUSE);
    worker_start(&workers[2], NOBODY);
    assert_int_equal(open_at(&workers[2], 2), 0);
}

static void message_of_another_user_is_dropped(void **state)
{
    if (geteuid() != 0) {
        print_message("SKIP: only root is two users\n");
        skip();
    }
    start_all(1);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct {
            uint16_t family;
            char name[64];
        } to = {.family = AF_UNIX};
        int len = snprintf(to.name + 1, sizeof to.name - 1, "weft-roce.0.%u.0", port);
        int fd = setuid(NOBODY) == 0 ? socket(AF_UNIX, SOCK_DGRAM, 0) : -1;
        ssize_t sent =
            sendto(fd, "give me your sockets", 20, 0, (struct sockaddr *)&to, (socklen_t)(3 + len));
        _exit(sent == 20 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (unsigned i = 0; i < 2000 && counter_of(&workers[0], "strangers") == 0; i++) {
        usleep(1000);
    }
    assert_int_equal(counter_of(&workers[0], "strangers"), 1);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void slots_end_and_that_is_named(void **state)
{
    struct datagram_link *links[LINKS_MAX], *more;
    struct datagram_udp_config config = {.port = port};
    for (unsigned i = 0; i < LINKS_MAX; i++) {
        assert_int_equal(datagram_udp_create(&config, &links[i]), 0);
        assert_int_equal(links[i]->qp_num_first >> 16, i);
    }
    assert_int_equal(datagram_udp_create(&config, &more), -EUSERS);
    datagram_destroy(links[7]);
    assert_int_equal(datagram_udp_create(&config, &links[7]), 0);
    assert_int_equal(links[7]->qp_num_first >> 16, 7);
    for (unsigned i = 0; i < LINKS_MAX; i++) {
        datagram_destroy(links[i]);
    }
}

/* ---- bad messages ---------------------------------------------------------------------------- */

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

// Of this user, in the name of a slot: what is sent is drawn, often behind a good beginning, and
// descriptors come with some of it.
static void send_nonsense(struct prng *rng, int fd, const struct sockaddr_un *to, socklen_t to_len)
{
    static const uint32_t magic = 0x77656604; // as link/datagram/share.c has it
    uint8_t octets[5000];
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(2 * sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(2 * sizeof(int))}};
    const int fds[] = {fd, fd};
    struct iovec iov = {octets, prng_below(rng, 3) == 0 ? prng_below(rng, 100)
                                                        : prng_below(rng, sizeof octets)};
    struct msghdr msg = {
        .msg_name = (void *)to, .msg_namelen = to_len, .msg_iov = &iov, .msg_iovlen = 1};
    for (size_t i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)prng_next(rng);
    }
    if (prng_below(rng, 4) != 0) {
        const uint32_t kind = prng_below(rng, 10);
        memcpy(octets, &magic, sizeof magic);
        memcpy(octets + sizeof magic, &kind, sizeof kind);
    }
    if (prng_below(rng, 4) == 0) {
        memcpy(CMSG_DATA(&control.header), fds, sizeof fds);
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control;
    }
    sendmsg(fd, &msg, MSG_DONTWAIT);
}

static socklen_t slot_address(unsigned slot, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "weft-roce.%u.%u.%u", geteuid(),
                       port, slot);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static unsigned counted(const struct datagram_link *link, const char *name)
{
    struct order o = {.what = WORK_COUNTER};
    snprintf(o.name, sizeof o.name, "%s", name);
    datagram_counters(link, take_counter, &o);
    return o.count;
}

// It is not said that nothing is handed up: a process of this user may hand on what it likes.
static void nonsense_of_another_process_does_no_harm(void **state)
{
    struct datagram_udp_config config = {.port = port};
    struct datagram_link *link;
    struct datagram_rx rx[8];
    struct sockaddr_un name, to;
    struct prng rng;
    prng_init(&rng, 11);
    assert_int_equal(datagram_udp_create(&config, &link), 0);
    assert_int_equal(datagram_open(link, &here, 0), 0);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t len = slot_address(5, &name);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
    len = slot_address(0, &to);
    unsigned before = open_descriptors();
    for (unsigned i = 0; i < 5000; i++) {
        send_nonsense(&rng, fd, &to, len);
        while ((datagram_poll(link, 0) & DATAGRAM_READY_IN) != 0) {
            unsigned count = datagram_receive(link, rx, 8, 0);
            for (unsigned k = 0; k < count; k++) {
                assert_in_range(rx[k].octets.len, HEAD_LEN, DATAGRAM_LEN_MAX);
            }
        }
        datagram_wait(link, 0);
    }
    assert_int_equal(open_descriptors(), before);
    assert_in_range(counted(link, "strangers"), 1, 4000); // the others make sense to it
    link_of_worker = link;
    send_packets(&(struct order){.qp_num = link->qp_num_first, .count = 1});
    unsigned count = 0;
    for (unsigned i = 0; i < 100 && count == 0; i++) {
        datagram_wait(link, 10 * NS_PER_MS);
        datagram_poll(link, 0);
        count = datagram_receive(link, rx, 8, 0);
    }
    assert_int_equal(count, 1);
    close(fd);
    datagram_destroy(link);
}

int main(void)
{
#define SHARE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        SHARE_TEST(packets_come_to_whom_they_are_for),
        SHARE_TEST(packets_that_came_together_are_parted),
        SHARE_TEST(killed_process_disturbs_nobody),
        SHARE_TEST(nor_does_the_one_that_made_the_sockets),
        SHARE_TEST(nor_does_one_that_ends_in_order),
        SHARE_TEST(slot_of_a_killed_process_is_free_and_empty),
        SHARE_TEST(sockets_outlive_every_process),
        SHARE_TEST(stopped_process_is_passed_by),
        SHARE_TEST(address_of_a_stopped_process_alone_is_in_use),
        SHARE_TEST(stopped_process_is_passed_by_whatever_others_say),
        SHARE_TEST(who_has_no_room_for_a_question_is_asked_again),
        SHARE_TEST(processes_come_and_go_and_packets_find_them),
        SHARE_TEST(stopped_process_holds_up_nobody),
        SHARE_TEST(process_that_lacks_a_socket_gives_no_wrong_ones),
        SHARE_TEST(an_answer_to_an_earlier_question_is_not_the_last),
        SHARE_TEST(processes_that_begin_at_once_share),
        SHARE_TEST(another_user_may_have_another_address),
        SHARE_TEST(message_of_another_user_is_dropped),
        SHARE_TEST(slots_end_and_that_is_named),
        SHARE_TEST(nonsense_of_another_process_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
