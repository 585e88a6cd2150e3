// Any octets as what an NVMe/TCP host sends, from its ICReq on. What the node sends goes into a
// socket whose other end is emptied.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/tts/nvme_tcp_connection.h"
#include "tests/fuzz/nvme_node.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void drain(int fd)
{
    static uint8_t out[1 << 20];
    while (recv(fd, out, sizeof out, MSG_DONTWAIT) > 0) {
    }
}

static void serve(struct nvme_tcp_connection *c, int far_end)
{
    enum stream_verdict verdict = STREAM_GOES_ON;
    while (verdict == STREAM_GOES_ON) {
        uint32_t before = c->stream.in_at;
        verdict = nvme_tcp_take(c, 1);
        CHECK(c->stream.in_at >= before && c->stream.in_at <= c->stream.in_len);
        while (nvme_tcp_flush(c, 1) != 0) {
            drain(far_end);
        }
        drain(far_end);
        CHECK(list_is_empty(&c->outs));
    }
}

static struct nvme_tcp_connection *begin(struct nvme_tcp *tcp, int fd)
{
    struct nvme_tcp_connection *c = calloc(1, sizeof *c);
    CHECK(c != NULL);
    c->tcp = tcp;
    c->stream.server = &tcp->server;
    c->stream.fd = fd;
    c->stream.in = malloc(NVME_TCP_IN_LEN);
    CHECK(c->stream.in != NULL);
    list_init(&c->outs);
    list_init(&c->free);
    list_init(&c->control.link);
    list_init(&c->stream.dirty_link);
    return c;
}

static void end(struct nvme_tcp_connection *c)
{
    c->state = NVME_TCP_ENDED;
    if (c->queue != NULL) {
        nvme_queue_close(c->queue, 2);
    }
    nvme_tcp_abandon(c, 2);
    CHECK(c->queue == NULL || nvme_queue_is_over(c->queue));
    nvme_queue_destroy(c->queue);
    free(c->stream.in);
    free(c->commands);
    free(c->scratch);
    free(c->staging);
    free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loop *loop;
    int fds[2];
    loop = loop != NULL ? loop : loop_create();
    CHECK(loop != NULL);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    struct nvme_tcp tcp = {.parts = {.loop = loop, .target = nvme_node_target()}};
    list_init(&tcp.server.dirty);
    struct nvme_tcp_connection *c = begin(&tcp, fds[0]);
    c->stream.in_len = (uint32_t)(size < NVME_TCP_IN_LEN ? size : NVME_TCP_IN_LEN);
    memcpy(c->stream.in, data, c->stream.in_len);
    serve(c, fds[1]);
    end(c);
    CHECK(nvme_target_controller_count(tcp.parts.target) == 0);
    nvme_target_destroy(tcp.parts.target);
    close(fds[0]);
    close(fds[1]);
    return 0;
}
