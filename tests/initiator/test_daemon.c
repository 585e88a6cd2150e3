// Initiators of a process that has closed its standard descriptors; their targets have none of them
// either.

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "descriptor/descriptor.h"
#include "format/nvme_tcp_wire.h"
#include "initiator/iscsi/iscsi.h"
#include "initiator/tcp/stream.h"
#include "tests/daemon.h"
#include "tests/initiator/iscsi_target.h"
#include "tests/initiator/scene.h"

enum { SHORT_MS = 10000 };

static int nvme_run(void)
{
    struct scene s;
    scene_open(&s, &(struct target_wish){0}, 0, 1);
    const int in_use = standard_in_use();
    scene_close(&s);
    return in_use;
}

static int iscsi_run(void)
{
    struct why why;
    struct iscsi_target *target = iscsi_target_start(&(struct iscsi_target_wish){0});
    const struct iscsi_initiator_attr attr = {.host = "127.0.0.1",
                                              .port = iscsi_target_port(target),
                                              .target = "iqn.2026-11.invalid.judge:disk",
                                              .name = "iqn.2026-11.invalid.judge:us",
                                              .depth = 1};
    struct iscsi_initiator *initiator = iscsi_initiator_begin(&attr, &why);
    assert_non_null(initiator);
    const int in_use = standard_in_use();
    iscsi_initiator_end(initiator);
    iscsi_target_stop(target);
    return in_use;
}

static int listener;

// What is in use while the initiator waits for an answer.
static void *tcp_target_main(void *ret_in_use)
{
    uint8_t request[NVME_TCP_IC_LEN];
    const int fd = descriptor_above_standard(accept(listener, NULL, NULL));
    recv(fd, request, sizeof request, MSG_WAITALL);
    *(int *)ret_in_use = standard_in_use();
    close(fd);
    return NULL;
}

static int tcp_run(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    struct pdu_stream stream;
    struct why why;
    char port[8];
    int in_use = -1;
    pthread_t thread;
    listener = descriptor_above_standard(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    assert_int_equal(listen(listener, 1), 0); // takes a port of its own
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    snprintf(port, sizeof port, "%u", ntohs(addr.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, tcp_target_main, &in_use), 0);
    assert_int_equal(pdu_stream_init(&stream, 1, 8), 0);
    assert_true(pdu_stream_connect(&stream, "127.0.0.1", port, 0, SHORT_MS, &why) < 0);
    pthread_join(thread, NULL);
    pdu_stream_destroy(&stream);
    close(listener);
    return in_use;
}

static void no_descriptor_of_an_nvme_controller_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("nvme"), 0);
}

static void no_descriptor_of_an_nvme_tcp_queue_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("tcp"), 0);
}

static void no_descriptor_of_an_iscsi_session_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("iscsi"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_descriptor_of_an_nvme_controller_has_a_standard_number),
        cmocka_unit_test(no_descriptor_of_an_nvme_tcp_queue_has_a_standard_number),
        cmocka_unit_test(no_descriptor_of_an_iscsi_session_has_a_standard_number),
    };
    if (argc == 2) {
        daemon_begin();
        return strcmp(argv[1], "nvme") == 0  ? nvme_run()
               : strcmp(argv[1], "tcp") == 0 ? tcp_run()
                                             : iscsi_run();
    }
    return cmocka_run_group_tests_name("initiator/daemon", tests, NULL, NULL);
}
