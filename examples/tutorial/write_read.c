// 4: Write and Read, of which the other end's program hears nothing. Without a word the server,
// with a host the client.
#include <endian.h>
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>

enum { MEMORY_LEN = 4096 };

// What the server tells of its memory. On the wire, hence in network byte order.
struct offer {
    uint64_t address;
    uint32_t rkey;
} __attribute__((packed));

static char memory[MEMORY_LEN]; // the server's; the client writes into it and reads from it
static struct offer offer;
static char word[16] = "look now"; // what ends it: Write and Read wake nobody
static struct ibv_qp_init_attr queues = {
    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    .sq_sig_all = 1,
};

static void must(int result, const char *what)
{
    if (result != 0) {
        err(1, "%s", what);
    }
}

static struct rdma_cm_id *id_create(const char *host, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *where;
    struct rdma_cm_id *id;
    must(rdma_getaddrinfo(host, "7471", &hints, &where), "rdma_getaddrinfo");
    must(rdma_create_ep(&id, where, NULL, &queues), "rdma_create_ep");
    rdma_freeaddrinfo(where);
    return id;
}

static void await(struct rdma_cm_id *id, int (*completion)(struct rdma_cm_id *, struct ibv_wc *))
{
    struct ibv_wc wc;
    if (completion(id, &wc) <= 0 || wc.status != IBV_WC_SUCCESS) {
        errx(1, "failed: %s", ibv_wc_status_str(wc.status));
    }
}

static void serve(void)
{
    struct rdma_cm_id *listener = id_create(NULL, RAI_PASSIVE), *id;
    must(rdma_listen(listener, 1), "rdma_listen");
    must(rdma_get_request(listener, &id), "rdma_get_request");

    struct ibv_mr *open =
        ibv_reg_mr(id->pd, memory, MEMORY_LEN,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    struct ibv_mr *mr = rdma_reg_msgs(id, &offer, sizeof offer);
    offer = (struct offer){htobe64((uintptr_t)memory), htobe32(open->rkey)};
    struct ibv_mr *heard = rdma_reg_msgs(id, word, sizeof word);
    must(rdma_post_recv(id, NULL, word, sizeof word, heard), "rdma_post_recv");
    must(rdma_accept(id, NULL), "rdma_accept");
    must(rdma_post_send(id, NULL, &offer, sizeof offer, mr, 0), "rdma_post_send");
    await(id, rdma_get_send_comp);
    await(id, rdma_get_recv_comp);
    printf("%s: %s\n", word, memory);
}

static void write_and_read(struct rdma_cm_id *id)
{
    static char source[64] = "written from afar", sink[64];
    struct ibv_mr *offered = rdma_reg_msgs(id, &offer, sizeof offer);
    struct ibv_mr *read = rdma_reg_write(id, sink, sizeof sink); // iWARP: answers write there
    struct ibv_mr *written = rdma_reg_msgs(id, source, sizeof source);
    must(rdma_post_recv(id, NULL, &offer, sizeof offer, offered), "rdma_post_recv");
    must(rdma_connect(id, NULL), "rdma_connect");
    await(id, rdma_get_recv_comp);

    uint64_t address = be64toh(offer.address);
    uint32_t rkey = be32toh(offer.rkey);
    must(rdma_post_write(id, NULL, source, sizeof source, written, 0, address, rkey), "write");
    await(id, rdma_get_send_comp);
    must(rdma_post_read(id, NULL, sink, sizeof sink, read, 0, address, rkey), "read");
    await(id, rdma_get_send_comp);
    printf("read back: %s\n", sink);
    struct ibv_mr *said = rdma_reg_msgs(id, word, sizeof word);
    must(rdma_post_send(id, NULL, word, sizeof word, said, 0), "rdma_post_send");
    await(id, rdma_get_send_comp);
}

int main(int argc, char **argv)
{
    argc < 2 ? serve() : write_and_read(id_create(argv[1], 0));
    return 0;
}
