#include "tests/rsocket/pair.h"

int listener_open(struct sockaddr_in *ret_addr)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof *ret_addr;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(rbind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(rlisten(fd, 8), 0);
    assert_int_equal(rgetsockname(fd, (struct sockaddr *)ret_addr, &len), 0);
    assert_int_not_equal(ret_addr->sin_port, 0);
    return fd;
}

int bound_open(struct sockaddr_in *ret_addr)
{
    socklen_t len = sizeof *ret_addr;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    *ret_addr =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(rbind(fd, (struct sockaddr *)ret_addr, len), 0);
    assert_int_equal(rgetsockname(fd, (struct sockaddr *)ret_addr, &len), 0);
    return fd;
}

void *connect_main(void *ctx)
{
    struct connecting *c = ctx;
    c->result = rconnect(c->fd, (struct sockaddr *)&c->addr, sizeof c->addr);
    return NULL;
}

void pair_open_with(struct pair *p, int buffer_len, int iomap_count)
{
    struct connecting c;
    pthread_t thread;
    p->listener = listener_open(&c.addr);
    c.fd = p->active = rsocket(AF_INET, SOCK_STREAM, 0);
    const int fds[] = {p->listener, p->active};
    for (unsigned i = 0; i < 2; i++) {
        if (buffer_len > 0) {
            rsetsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &buffer_len, sizeof buffer_len);
            rsetsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer_len, sizeof buffer_len);
        }
        rsetsockopt(fds[i], SOL_RDMA, RDMA_IOMAPSIZE, &iomap_count, sizeof iomap_count);
    }
    assert_int_equal(pthread_create(&thread, NULL, connect_main, &c), 0);
    p->passive = raccept(p->listener, NULL, NULL);
    pthread_join(thread, NULL);
    assert_true(p->passive >= 0);
    assert_int_equal(c.result, 0);
}

void pair_open(struct pair *p)
{
    pair_open_with(p, 0, 0);
}

void *close_main(void *ctx)
{
    rclose(*(int *)ctx);
    return NULL;
}

void pair_close(struct pair *p)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, close_main, &p->active), 0);
    rclose(p->passive);
    pthread_join(thread, NULL);
    rclose(p->listener);
}
