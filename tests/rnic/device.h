// Devices on kernel TCP over loopback, their queue pairs and connections, for the tests of this
// folder: through rnic/rnic.h, as the fronts do, but with as many devices in a process as wanted
// and their counters in reach.
#pragma once

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rnic/create.h"
#include "rnic/internal.h"
#include "rnic/rnic.h"

enum { DEVICE_BUF_LEN = 64 * 1024, DEVICE_DEPTH = 64, MAILBOX_LEN = 1024 };

// How long a test waits for what must come. Only a failing test ever waits so long.
#define DEVICE_PATIENCE_NS (20 * NS_PER_S)

struct device {
    struct rnic *rnic;
    uint32_t pd;
    struct rnic_cq *cq; // of all its queue pairs
    uint32_t stag;      // of `buf`, all rights
    uint8_t *buf;
};

// Events of endpoints, oldest first, until a test takes them.
struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct rnic_ep_event events[MAILBOX_LEN];
    struct rnic_ep *eps[MAILBOX_LEN];
    unsigned count, taken;
};

// One end of a connection.
struct end {
    struct device *device;
    struct rnic_qp *qp;
    struct rnic_ep *ep;
    struct mailbox mailbox;
};

// The defaults of weft(7), but that start-up may take as long as a test waits for it.
struct rnic_config device_config(void);
void device_open(struct device *d, const struct rnic_config *config, duration_ns peer_timeout_ns);
void device_open_traced(struct device *d, const struct rnic_config *config,
                        duration_ns peer_timeout_ns, struct trace *trace);
void device_open_over(struct device *d, const struct rnic_config *config, struct link *link,
                      struct trace *trace); // the link is the device's
void device_open_parts(struct device *d, const struct rnic_parts *parts); // keys as they are
void device_register(struct device *d); // again, behind taking away `stag`
// The test has destroyed its ends: nothing may be left but what device_open made.
void device_close(struct device *d);

void end_init(struct end *e, struct device *device); // with a queue pair
void end_init_addressable(struct end *e, struct device *device);
void end_init_with(struct end *e, struct device *device, struct rnic_qp *qp); // which is its own
void end_fini(struct end *e);
struct rnic_qp *device_qp(struct device *d);
// Waits for the next event, which must be of this type.
struct rnic_ep_event end_take(struct end *e, enum rnic_ep_event_type type);
struct rnic_ep_event end_take_any(struct end *e, struct rnic_ep **ret_ep);
bool end_has_event(struct end *e);
bool end_is_paused(struct end *e);           // what comes from its peer is left where it is
struct rnic_ep_port end_port(struct end *e); // to its mailbox

// A listener on a free port of 127.0.0.1; its requests are in its mailbox.
void end_listen(struct end *listener, struct device *device, struct sockaddr_in *ret_addr);
void end_listen_at(struct end *listener, struct device *device, struct sockaddr_in *at); // in, out
void end_bind(struct end *e); // to any address; its events come to its mailbox
void end_connect(struct end *e, const struct sockaddr_in *to);
// Takes the listener's next request; `e` answers it from now on.
void end_take_request(struct end *e, struct end *listener);
void end_accept(struct end *e);
// All of it: both ends established.
void ends_connect(struct end *active, struct end *passive, struct end *listener,
                  const struct sockaddr_in *addr);

void end_post_recv(struct end *e, uint64_t wr_id, uint32_t offset, uint32_t len);
// `remote_offset` counts in `remote`'s buffer.
void end_post_send(struct end *e, enum wqe_opcode opcode, uint32_t offset, uint32_t len,
                   const struct device *remote, uint32_t remote_offset);
// Waits for the next completion of the device.
struct cqe device_poll(struct device *d);
// The sum of all that `weft stat` would show as `"name": number`, and waiting until it is `count`.
uint64_t device_count(struct device *d, const char *name);
bool device_waits_for_count(struct device *d, const char *name, uint64_t count);
bool device_waits_for_endpoints(struct device *d, uint32_t count);
void pause_ms(unsigned ms);
