// 1: what devices there are, and memory that one of them may reach.
#include <err.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_LEN = 4096 };

static struct ibv_context *first_device_open(void)
{
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    if (devices == NULL || count == 0) {
        errx(1, "no RDMA device");
    }
    for (int i = 0; i < count; i++) {
        printf("%s: %s\n", ibv_get_device_name(devices[i]),
               ibv_node_type_str(devices[i]->node_type));
    }
    struct ibv_context *device = ibv_open_device(devices[0]);
    if (device == NULL) {
        err(1, "ibv_open_device");
    }
    ibv_free_device_list(devices); // what is open stays open
    return device;
}

// Ports count from 1.
static void port_print(struct ibv_context *device)
{
    struct ibv_port_attr port;
    if (ibv_query_port(device, 1, &port) != 0) {
        err(1, "ibv_query_port");
    }
    printf("port 1: %s, %s\n", ibv_port_state_str(port.state),
           port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
}

int main(void)
{
    struct ibv_context *device = first_device_open();
    port_print(device);

    // What belongs to one protection domain may work together, and with nothing of another.
    struct ibv_pd *pd = ibv_alloc_pd(device);
    char *memory = calloc(1, MEMORY_LEN);
    if (pd == NULL || memory == NULL) {
        err(1, "ibv_alloc_pd");
    }

    // The peer may write here, and not read. The device itself writes what comes: LOCAL_WRITE.
    struct ibv_mr *mr =
        ibv_reg_mr(pd, memory, MEMORY_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (mr == NULL) {
        err(1, "ibv_reg_mr");
    }
    printf("%zu bytes registered, R_Key 0x%08x\n", mr->length, mr->rkey);

    // A device that wrote for a peer where it may not write itself would make no sense.
    if (ibv_reg_mr(pd, memory, MEMORY_LEN, IBV_ACCESS_REMOTE_WRITE) == NULL) {
        printf("REMOTE_WRITE without LOCAL_WRITE: %s\n", strerror(errno));
    }

    ibv_dereg_mr(mr); // from here on the key opens nothing
    free(memory);
    ibv_dealloc_pd(pd);
    ibv_close_device(device);
    return 0;
}
