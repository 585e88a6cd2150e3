// Connections whose peers say nothing: a process with few descriptors drops the oldest of them, and
// goes on serving.
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum {
    DESCRIPTOR_MAX = 64, // of the server
    LEFT_COUNT = 8,      // where the program has taken the others
    SILENT_COUNT = 200,
    PATIENCE_S = 30, // a silent peer's time runs out later than that
    FRAME_LEN = 20,
};

// RFC 5044 section 7.1: a Request of revision 1 that asks for the CRC.
static const uint8_t request[FRAME_LEN] = "MPA ID Req Frame\x40\x01\x00";

// All but a few of the descriptors that the server may have.
static void take_descriptors(void)
{
    for (int fd = 0; fd >= 0 && fd < DESCRIPTOR_MAX - LEFT_COUNT;) {
        fd = dup(STDIN_FILENO);
    }
}

// Listens, says where, and rejects the first Request.
static void serve(int port_fd, bool takes_the_rest)
{
    struct rdma_cm_id *listener, *id;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("WEFT_MPA_TIMEOUT", "120", 1);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){DESCRIPTOR_MAX, DESCRIPTOR_MAX});
    if (rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener, (struct sockaddr *)&any) != 0 || rdma_listen(listener, 16) != 0) {
        _exit(1);
    }
    uint16_t port = rdma_get_src_port(listener);
    if (takes_the_rest) {
        take_descriptors();
    }
    if (write(port_fd, &port, sizeof port) != sizeof port || rdma_get_request(listener, &id) != 0 ||
        rdma_reject(id, NULL, 0) != 0) {
        _exit(2);
    }
    pause();
}

// Who is reset before connect() returns is told so by it.
static int connected_socket(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval limit = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_true(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == ECONNRESET);
    return fd;
}

static void among_silent_peers_another_is_served(bool server_takes_the_rest)
{
    int fds[2], silent[SILENT_COUNT], status;
    uint16_t port;
    uint8_t reply[FRAME_LEN];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        serve(fds[1], server_takes_the_rest);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &port, sizeof port), sizeof port);
    for (unsigned i = 0; i < SILENT_COUNT; i++) {
        silent[i] = connected_socket(port);
    }
    assert_true(recv(silent[0], reply, 1, 0) <= 0); // the oldest was dropped
    int fd = connected_socket(port);
    assert_int_equal(send(fd, request, FRAME_LEN, MSG_NOSIGNAL), FRAME_LEN);
    assert_int_equal(recv(fd, reply, FRAME_LEN, MSG_WAITALL), FRAME_LEN);
    assert_memory_equal(reply, "MPA ID Rep Frame", 16);
    for (unsigned i = 0; i < SILENT_COUNT; i++) {
        close(silent[i]);
    }
    close(fd);
    close(fds[0]);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static void silent_peers_do_not_lock_others_out(void **state)
{
    among_silent_peers_another_is_served(false);
}

// One newcomer is reset, for which the oldest goes.
static void nor_where_the_program_has_nearly_all_descriptors(void **state)
{
    among_silent_peers_another_is_served(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_peers_do_not_lock_others_out),
        cmocka_unit_test(nor_where_the_program_has_nearly_all_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
