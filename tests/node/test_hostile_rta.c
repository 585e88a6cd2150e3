// RTAs that mean harm: this program is a storage node, and, started again by it as the process of
// an RTA, speaks the unit's side and does one wicked thing after the other. The host goes on to
// serve another volume as before, and says what it refused.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/sanitized.h"
#include "node/bus/ring.h"
#include "node/ddm/drivers.h"
#include "node/host/config.h"
#include "node/host/wish.h"
#include "node/unit/channel.h"
#include "node/unit/confinement.h"
#include "node/unit/process.h"
#include "node/unit/segment.h"

enum {
    BLOCK = 512,
    LOG_MAX = 1 << 16,
    LOG_IN_SECOND = LOG_MAX / 8, // at most: a busy host takes its time for the rounds
    ROUNDS = 200,
    ANSWER_SECONDS = 20
};

/* ---- the hostile RTA ------------------------------------------------------------------------- */

static const unsigned rounds = ROUNDS;

struct rta_process {
    const char *act;
    struct bus_memory *bus;
    bool is_restart;
};

static void say(const struct unit_message *message)
{
    struct pollfd poll_fd = {.fd = UNIT_FD_CHANNEL, .events = POLLOUT};
    while (channel_send(UNIT_FD_CHANNEL, message, -1) == -EAGAIN) {
        poll(&poll_fd, 1, -1);
    }
}

// A message with more than the one descriptor that may be.
static void say_with_descriptors(enum unit_message_kind kind, int fd, unsigned count)
{
    struct unit_message message = {.kind = kind};
    union {
        struct cmsghdr header;
        char octets[CMSG_SPACE(16 * sizeof(int))];
    } control = {.octets = {0}};
    struct iovec iov = {.iov_base = &message, .iov_len = sizeof message};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = control.octets,
                            .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (unsigned i = 0; i < count; i++) {
        memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
    sendmsg(UNIT_FD_CHANNEL, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Both bells block whoever writes to them, if anything of the kind can be done to them.
static void act_bells(struct rta_process *p)
{
    uint64_t most = UINT64_MAX - 1;
    for (int fd = UNIT_FD_BELL_RTA; fd <= UNIT_FD_BELL_CTA; fd++) {
        ssize_t written = write(fd, &most, sizeof most);
        (void)written;
        fcntl(fd, F_SETFL, 0);
    }
    for (;;) {
        atomic_store(&p->bus->to_rta.is_asleep, 1);
        usleep(100);
    }
}

static void act_descriptors(struct rta_process *p)
{
    int fd = eventfd(0, 0);
    for (unsigned i = 0; i < 64; i++) {
        say_with_descriptors(UNIT_STATUS, fd, 1 + i % 16);
    }
}

static void act_no_memory(struct rta_process *p)
{
    say_with_descriptors(UNIT_OPEN, eventfd(0, 0), 1);
}

static void act_answers(struct rta_process *p)
{
    for (uint32_t i = 1; i < 100; i++) {
        say(&(struct unit_message){.kind = UNIT_CONNECTION_REMOVE, .connection = i});
        say(&(struct unit_message){.kind = UNIT_CONNECTION_ADD, .connection = i, .error = -EPERM});
    }
}

static void act_exit(struct rta_process *p)
{
    _exit(3);
}

static void act_flood(struct rta_process *p)
{
    for (;;) {
        say(&(struct unit_message){.kind = UNIT_STATUS});
    }
}

static void act_bus(struct rta_process *p)
{
    memset(p->bus, 0x5a, sizeof *p->bus);
    uint64_t one = 1;
    ssize_t written = write(UNIT_FD_BELL_CTA, &one, sizeof one);
    (void)written;
    pause();
}

// Forged lines on its standard error, and more than anybody reads.
static void act_log(struct rta_process *p)
{
    static const char line[] = "x\nweft: forged\033[2J\n";
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    for (;;) {
        ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
        (void)written;
    }
}

static void act_silence(struct rta_process *p)
{
    close(UNIT_FD_CHANNEL);
    pause();
}

/* ---- what it tries against others ------------------------------------------------------------ */

__attribute__((unused)) static bool does_execute(void)
{
    char *argv[] = {"true", NULL};
    return execv("/bin/true", argv) == 0; // there would be nothing more to say
}

static bool does_fork(void)
{
    return syscall(SYS_fork) == 0 || syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0;
}

static bool does_signal(void)
{
    return kill(getppid(), 0) == 0 || syscall(SYS_tgkill, getppid(), getppid(), 0) == 0;
}

static bool does_trace(void)
{
    return ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0;
}

static bool does_read_memory(void)
{
    char octet;
    struct iovec here = {.iov_base = &octet, .iov_len = 1}, there = {.iov_base = (void *)&rounds};
    there.iov_len = 1;
    // Where it has nothing at that address, it was let in to see that.
    return process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 1 || errno == EFAULT;
}

static bool does_open_file(void)
{
    return open("/etc/passwd", O_RDONLY) >= 0;
}

static bool does_make_file(void)
{
    return open("/tmp", O_TMPFILE | O_RDWR, 0600) >= 0;
}

static bool does_remove_file(void)
{
    return unlink("/tmp/weft-hostile-nothing") == 0 || errno == ENOENT;
}

static bool does_connect(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}

static bool does_mount(void)
{
    return mount("none", "/tmp", "tmpfs", MS_REMOUNT | MS_BIND, NULL) == 0 || errno == EINVAL;
}

static bool does_leave_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0;
}

static bool does_make_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}

static bool does_queue_for_kernel(void)
{
    struct io_uring_params params = {0};
    return syscall(SYS_io_uring_setup, 1, &params) >= 0;
}

static bool does_take_descriptor(void)
{
    return syscall(SYS_pidfd_open, getppid(), 0) >= 0;
}

static bool does_change_limits(void)
{
    struct rlimit limit;
    return prlimit(getppid(), RLIMIT_CORE, NULL, &limit) == 0;
}

static bool does_keep_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    bool has_answer = syscall(SYS_capget, &header, data) == 0;
    return has_answer && (data[0].permitted | data[1].permitted) != 0;
}

static const struct {
    const char *name;
    bool (*does)(void);
} harms[] = {
    {"fork", does_fork},
    {"signal", does_signal},
    {"trace", does_trace},
    {"read memory", does_read_memory},
    {"open a file", does_open_file},
    {"make a file", does_make_file},
    {"remove a file", does_remove_file},
    {"connect", does_connect},
    {"mount", does_mount},
    {"leave its namespace", does_leave_namespace},
    {"make code", does_make_code},
    {"queue for the kernel", does_queue_for_kernel},
    {"take descriptors", does_take_descriptor},
    {"look at limits", does_change_limits},
    {"keep capabilities", does_keep_capabilities},
};

// As a process of an RTA whose device is a file that is open.
static void act_harm(struct rta_process *p)
{
    char line[512] = "it could:";
    const struct ddm file = {.driver = &ddm_file};
    confinement_begin();
    confinement_narrow(&file);
    for (unsigned i = 0; i < sizeof harms / sizeof harms[0]; i++) {
        if (harms[i].does()) {
            snprintf(line + strlen(line), sizeof line - strlen(line), " %s,", harms[i].name);
        }
    }
    dprintf(STDERR_FILENO, "%s nothing else\n", line);
    for (;;) {
        pause();
    }
}

// Looks for data of others in the memory that it has for buffers, and spoils all of it. What it has
// not written itself, and is not given back to the system, is another's.
static void act_buffers(struct rta_process *p)
{
    enum { PAGE = 4096, LOOK = 16, SWEEPS = 60, MINE = 0xee };
    struct segment pool;
    uint64_t seen = 0;
    if (segment_open(UNIT_FD_POOL, &pool) != 0) {
        return;
    }
    for (unsigned sweep = 0; sweep < SWEEPS; sweep++) {
        for (uint8_t *page = pool.ptr; page < (uint8_t *)pool.ptr + pool.len; page += PAGE) {
            for (unsigned i = 0; i < LOOK; i++) {
                seen += page[i] != 0 && page[i] != MINE;
            }
            memset(page, MINE, LOOK);
        }
        usleep(2000);
    }
    dprintf(STDERR_FILENO, "it saw %" PRIu64 " octets of others\n", seen);
    for (;;) {
        pause();
    }
}

static const struct {
    const char *name;
    void (*act)(struct rta_process *p); // when it has a client
} acts[] = {
    {"bells", act_bells},         {"descriptors", act_descriptors},
    {"no-memory", act_no_memory}, {"answers", act_answers},
    {"identity", act_exit},       {"texts", act_exit},
    {"flood", act_flood},         {"bus", act_bus},
    {"silence", act_silence},     {"log", act_log},
    {"harm", act_harm},           {"buffers", act_buffers},
};

static void answer_open(struct rta_process *p, const struct unit_message *ask)
{
    struct unit_message answer = {.kind = UNIT_OPEN, .volume = ask->volume};
    p->is_restart = ask->is_restart != 0;
    answer.profile = (struct volume_profile){.size = 1 << 20,
                                             .abilities = VOLUME_CAN_WRITE,
                                             .block_size = 512,
                                             .alignment = 1,
                                             .preferred = 4096,
                                             .transfer_max = 1 << 20,
                                             .range_max = 1 << 20,
                                             .depth = 8,
                                             .driver = "null",
                                             .origin = "evil"};
    if (p->is_restart && strcmp(p->act, "identity") == 0) {
        snprintf(answer.profile.origin, sizeof answer.profile.origin, "another's");
    } else if (p->is_restart && strcmp(p->act, "texts") == 0) {
        answer.error = -EIO;
        snprintf(answer.why, sizeof answer.why, "x\nweft: forged\033[2J");
    }
    say(&answer);
}

// Well-behaved until it has a client.
static int hostile_main(const char *act)
{
    if (strcmp(act, "never-up") == 0) {
        return 3;
    }
    struct segment bus;
    struct rta_process p = {.act = act};
    struct pollfd poll_fd = {.fd = UNIT_FD_CHANNEL, .events = POLLIN};
    struct unit_message message;
    int keepsake;
    prctl(PR_SET_PDEATHSIG, SIGKILL); // whatever it does, it does not outlive the test
    if (getppid() == 1 || segment_open(UNIT_FD_BUS, &bus) != 0) {
        return 1;
    }
    p.bus = bus.ptr;
    say(&(struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION});
    while (poll(&poll_fd, 1, -1) > 0) {
        int got = channel_receive(UNIT_FD_CHANNEL, &message, &keepsake);
        if (got <= 0 && got != -EAGAIN) {
            return 0;
        }
        if (got > 0 && message.kind == UNIT_OPEN) {
            answer_open(&p, &message);
        } else if (got > 0) {
            message.error = 0;
            say(&message);
        }
        for (unsigned i = 0;
             got > 0 && message.kind == UNIT_CONNECTION_ADD && i < sizeof acts / sizeof acts[0];
             i++) {
            if (strcmp(acts[i].name, act) == 0) {
                acts[i].act(&p);
            }
        }
    }
    return 0;
}

/* ---- the node -------------------------------------------------------------------------------- */

struct node {
    pid_t pid;
    char place[64], socket[96], log[96];
};

static void volume_add(struct host_config *config, const char *text)
{
    struct volume_wish wish;
    struct why why;
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_int_equal(config_volume_add(config, &wish), 0);
}

// A node with the volume "good", and one named after the act, which a hostile RTA serves.
static void node_run(const struct node *node, const char *act)
{
    static struct host_config config = {.pool_len = WISH_POOL_DEFAULT, .is_quiet = true};
    char text[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log = open(node->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, STDERR_FILENO);
    config.nbd_listen.count = 1;
    snprintf(config.nbd_listen.of[0], ADDRESS_MAX, "unix:%s", node->socket);
    snprintf(text, sizeof text, "%s=null:1M", act);
    volume_add(&config, "good=ram:1M");
    volume_add(&config, text);
    _exit(host_run(&config));
}

static struct node node_start(const char *act)
{
    struct node node = {.place = "/tmp/weft-hostile.XXXXXX"};
    assert_non_null(mkdtemp(node.place));
    snprintf(node.socket, sizeof node.socket, "%s/socket", node.place);
    snprintf(node.log, sizeof node.log, "%s/log", node.place);
    node.pid = fork();
    if (node.pid == 0) {
        node_run(&node, act);
    }
    return node;
}

static void node_log(const struct node *node, char ret[LOG_MAX])
{
    FILE *in = fopen(node->log, "r");
    assert_non_null(in);
    ret[fread(ret, 1, LOG_MAX - 1, in)] = '\0';
    fclose(in);
}

static uint64_t node_log_len(const struct node *node)
{
    struct stat found;
    assert_int_equal(stat(node->log, &found), 0);
    return (uint64_t)found.st_size;
}

static unsigned descriptors_of(const struct node *node)
{
    char path[32];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)node->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static void node_stop(const struct node *node)
{
    int status;
    kill(node->pid, SIGTERM);
    kill(node->pid, SIGINT); // asked twice: who hangs is not waited for
    assert_int_equal(waitpid(node->pid, &status, 0), node->pid);
    assert_true(WIFEXITED(status));
    unlink(node->log);
    unlink(node->socket);
    rmdir(node->place);
}

/* ---- a client -------------------------------------------------------------------------------- */

static void take(int fd, void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = recv(fd, (uint8_t *)data + done, len - done, 0);
        assert_true(got > 0);
        done += (size_t)got;
    }
}

static void put(int fd, const void *data, size_t len)
{
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

// A connection to the volume by the oldest of NBD's handshakes.
static int client_connect(const struct node *node, const char *volume)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    uint8_t greeting[18], chosen[10],
        choice[20] = {0, 0, 0, 3, 'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T', 0, 0, 0, 1};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", node->socket);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (unsigned i = 0; connect(fd, (struct sockaddr *)&addr, sizeof addr) != 0; i++) {
        assert_true(i < 1000 * ANSWER_SECONDS); // until it listens
        usleep(1000);
    }
    take(fd, greeting, sizeof greeting);
    choice[19] = (uint8_t)strlen(volume);
    put(fd, choice, sizeof choice);
    put(fd, volume, strlen(volume));
    take(fd, chosen, sizeof chosen);
    return fd;
}

static void request(int fd, uint8_t command, uint32_t offset, const void *data)
{
    uint8_t out[28 + BLOCK] = {0x25, 0x60, 0x95, 0x13, 0, 0, 0, command};
    uint32_t at = htobe32(offset), len = htobe32(BLOCK);
    memcpy(out + 20, &at, sizeof at);
    memcpy(out + 24, &len, sizeof len);
    if (data != NULL) {
        memcpy(out + 28, data, BLOCK);
    }
    put(fd, out, 28 + (data != NULL ? BLOCK : 0));
}

static void answer_is_good(int fd)
{
    static const uint8_t good[16] = {0x67, 0x44, 0x66, 0x98};
    uint8_t reply[16];
    take(fd, reply, sizeof reply);
    assert_memory_equal(reply, good, sizeof reply);
}

// Writes and reads back.
static void round_trip(int fd, unsigned round)
{
    uint8_t out[BLOCK], in[BLOCK];
    uint32_t offset = round * BLOCK % (1 << 20);
    memset(out, (int)round, sizeof out);
    request(fd, 1, offset, out);
    answer_is_good(fd);
    request(fd, 0, offset, NULL);
    answer_is_good(fd);
    take(fd, in, sizeof in);
    assert_memory_equal(in, out, sizeof in);
}

/* ---- what must hold whatever the RTA does ---------------------------------------------------- */

// "good" is served while the hostile RTA does its act, and the log has `said` in the end (NULL: it
// need not say anything).
static void the_host_serves_on(const char *act, const char *said)
{
    const time_t begin = time(NULL);
    struct node node = node_start(act);
    int good = client_connect(&node, "good");
    round_trip(good, 0);
    unsigned before = descriptors_of(&node);
    int evil = client_connect(&node, act);
    request(evil, 0, 0, NULL);
    char *log = malloc(LOG_MAX);
    unsigned round = 1;
    do {
        round_trip(good, round++);
        usleep(1000);
        node_log(&node, log);
    } while (round < ROUNDS || (said != NULL && strstr(log, said) == NULL && round < 50 * ROUNDS));
    assert_true(said == NULL || strstr(log, said) != NULL);
    assert_null(strstr(log, "\nweft: forged"));
    assert_null(strchr(log, '\033'));
    assert_in_range(node_log_len(&node), 0, (1 + (uint64_t)(time(NULL) - begin)) * LOG_IN_SECOND);
    assert_in_range(descriptors_of(&node), 0, before + 8);
    assert_int_equal(waitpid(node.pid, NULL, WNOHANG), 0);
    int another = client_connect(&node, "good");
    round_trip(another, round);
    free(log);
    close(good);
    close(evil);
    close(another);
    node_stop(&node);
}

static void bells_that_block_do_not_stop_the_host(void **state)
{
    the_host_serves_on("bells", NULL);
}

static void descriptors_beside_messages_are_refused_and_closed(void **state)
{
    the_host_serves_on("descriptors", "descriptors that it may not send");
}

static void a_keepsake_that_is_no_memory_is_refused(void **state)
{
    the_host_serves_on("no-memory", "a descriptor that is no memory");
}

static void answers_for_the_connections_of_others_are_refused(void **state)
{
    the_host_serves_on("answers", "answered for a connection that is not its");
}

static void a_successor_that_takes_another_identity_is_refused(void **state)
{
    the_host_serves_on("identity", "another device than the one that was first opened");
}

static void a_reason_forges_no_line_of_the_log(void **state)
{
    the_host_serves_on("texts", "not opened: x?weft: forged?[2J");
}

static void a_flood_of_messages_keeps_nobody_waiting(void **state)
{
    the_host_serves_on("flood", NULL);
}

static void what_it_says_is_said_in_its_name_and_seldom(void **state)
{
    the_host_serves_on("log", "weft: RTA log: forged?[2J");
}

static void a_bus_full_of_nonsense_is_refused(void **state)
{
    the_host_serves_on("bus", "spoiled the bus");
}

static void a_closed_socket_ends_the_process(void **state)
{
    the_host_serves_on("silence", "was ended by signal 9");
}

static void what_a_confined_rta_tries_against_others_is_refused(void **state)
{
#if IS_SANITIZED
    print_message("SKIP: a build with sanitizers is not confined\n");
    skip();
#endif
    the_host_serves_on("harm", "it could: nothing else");
}

static void the_data_of_other_volumes_are_not_in_its_buffers(void **state)
{
    the_host_serves_on("buffers", "it saw 0 octets of others");
}

static void an_rta_that_never_comes_up_ends_the_start_with_a_word(void **state)
{
    struct node node = node_start("never-up");
    int status;
    char *log = malloc(LOG_MAX);
    assert_int_equal(waitpid(node.pid, &status, 0), node.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    node_log(&node, log);
    assert_non_null(strstr(log, "weft: cannot start the RTA: never-up\n"
                                "  why: its process was ended by status 3\n"
                                "  do:  see what it said before it ended"));
    free(log);
    unlink(node.log);
    rmdir(node.place);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], UNIT_PROCESS_COMMAND) == 0) {
        return strcmp(argv[2], "good") == 0 ? unit_process_main() : hostile_main(argv[2]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bells_that_block_do_not_stop_the_host),
        cmocka_unit_test(descriptors_beside_messages_are_refused_and_closed),
        cmocka_unit_test(a_keepsake_that_is_no_memory_is_refused),
        cmocka_unit_test(answers_for_the_connections_of_others_are_refused),
        cmocka_unit_test(a_successor_that_takes_another_identity_is_refused),
        cmocka_unit_test(a_reason_forges_no_line_of_the_log),
        cmocka_unit_test(a_flood_of_messages_keeps_nobody_waiting),
        cmocka_unit_test(what_it_says_is_said_in_its_name_and_seldom),
        cmocka_unit_test(a_bus_full_of_nonsense_is_refused),
        cmocka_unit_test(a_closed_socket_ends_the_process),
        cmocka_unit_test(what_a_confined_rta_tries_against_others_is_refused),
        cmocka_unit_test(the_data_of_other_volumes_are_not_in_its_buffers),
        cmocka_unit_test(an_rta_that_never_comes_up_ends_the_start_with_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
