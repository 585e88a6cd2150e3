// Queue pair 1: messages of the connection manager as datagrams.

#include "rnic/packet/cm.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/siphash.h"
#include "link/datagram/slot.h"
#include "rnic/internal.h"
#include "rnic/packet/packet.h"
#include "rnic/shard.h"
#include "wire/bth.h"
#include "wire/mad.h"
#include "wire/psn.h"
#include "wire/roce.h"
#include "wire/roce_verdict.h"

enum { SOURCE_PORT = 0xc000 };

// A MAD as a packet from queue pair 1 to queue pair 1; what is done with it is `use`'s.
static bool with_packet(struct packet_side *p, const struct ibcm_ends *ends, const uint8_t *mad,
                        bool (*use)(struct packet_side *p, uint32_t place,
                                    const struct datagram_tx *tx),
                        uint32_t place)
{
    const struct roce_packet head = {
        .bth = {.opcode = ROCE_UD | ROCE_SEND_ONLY,
                .mig_req = true,
                .pkey = BTH_PKEY_DEFAULT,
                .dest_qp = BTH_QP_GSI,
                .psn = p->cm.psn++ & PSN_MASK},
        .deth = {.qkey = MAD_QKEY, .src_qp = BTH_QP_GSI},
    };
    const struct datagram_path path = {
        .local = ends->local,
        .remote = ends->remote,
        .scope_id = ends->scope_id,
        .source_port = SOURCE_PORT,
    };
    uint8_t octets[ROCE_HEAD_MAX_LEN];
    const struct span payload = span_of(mad, MAD_LEN);
    const struct datagram_tx tx = {
        .path = &path,
        .head = span_of(octets, roce_head_emit(&head, octets)),
        .pieces = &payload,
        .piece_count = 1,
    };
    return use(p, place, &tx);
}

static bool put(struct packet_side *p, uint32_t place, const struct datagram_tx *tx)
{
    return packet_put(p, tx);
}

static bool put_mad(void *ctx, const struct ibcm_ends *ends, const uint8_t *mad)
{
    return with_packet(ctx, ends, mad, put, 0);
}

static bool bequeath(struct packet_side *p, uint32_t place, const struct datagram_tx *tx)
{
    datagram_bequeath(p->link, place, tx);
    return true;
}

static void bequeath_mad(void *ctx, uint32_t place, const struct ibcm_ends *ends,
                         const uint8_t *mad)
{
    with_packet(ctx, ends, mad, bequeath, place);
}

static void revoke_mad(void *ctx, uint32_t place)
{
    datagram_revoke(((struct packet_side *)ctx)->link, place);
}

static bool others_serve(void *ctx, uint64_t service_id, const struct in6_addr *local)
{
    return datagram_is_served(((struct packet_side *)ctx)->link, service_id, local);
}

uint8_t packet_mtu_code(uint32_t path_mtu)
{
    uint8_t code = 1;
    while (path_mtu > PACKET_MTU_MIN) {
        path_mtu /= 2;
        code++;
    }
    return code;
}

static uint64_t draw(const uint8_t *key, const char *what)
{
    return siphash(key, span_of(what, strlen(what)));
}

int packet_cm_init(struct shard *shard, const uint8_t *key)
{
    struct packet_side *p = &shard->packets;
    struct ibcm_config config = ibcm_config_default();
    put_be64(config.key, draw(key, "ibcm, one half"));
    put_be64(config.key + 8, draw(key, "ibcm, the other"));
    config.ca_guid = draw(key, "ca guid");
    config.id_slot = (uint8_t)(p->link->qp_num_first / DATAGRAM_SLOT_LEN);
    config.path_mtu_max = packet_mtu_code(shard->rnic->port.path_mtu);
    config.sink = (struct ibcm_sink){.put = put_mad, .ctx = p};
    config.will = (struct ibcm_will){.bequeath = bequeath_mad, .revoke = revoke_mad, .ctx = p};
    config.others = (struct ibcm_others){.serve = others_serve, .ctx = p};
    config.trace = shard->rnic->trace;
    p->cm.ibcm = ibcm_create(&config);
    return p->cm.ibcm != NULL ? 0 : -ENOMEM;
}

void packet_cm_fini(struct packet_cm *cm)
{
    ibcm_destroy(cm->ibcm);
}

bool packet_cm_has_qp_num(const struct packet_cm *cm, uint32_t qp_num)
{
    return cm->ibcm != NULL && ibcm_has_qp_num(cm->ibcm, qp_num);
}

void packet_cm_on_packet(struct shard *shard, const struct datagram_rx *rx, instant_ns now)
{
    struct packet_cm *cm = &shard->packets.cm;
    struct roce_packet packet;
    const bool is_management = roce_packet_parse(rx->octets, &packet) == ROCE_PARSE_OK &&
                               packet.bth.opcode == (ROCE_UD | ROCE_SEND_ONLY) &&
                               packet.deth.qkey == MAD_QKEY && packet.deth.src_qp == BTH_QP_GSI;
    if (!is_management) {
        cm->not_management++;
        return;
    }
    const struct ibcm_ends ends = {
        .local = rx->local, .remote = rx->remote, .scope_id = rx->scope_id};
    const enum ibcm_sharing sharing = rx->is_shared ? IBCM_SHARING_FIRST : IBCM_SHARING_NONE;
    const int owner = ibcm_on_mad(cm->ibcm, &ends, packet.payload,
                                  rx->is_copy ? IBCM_SHARING_COPY : sharing, now);
    if (owner == IBCM_OWNER_ALL) {
        datagram_hand_on(shard->packets.link, rx, DATAGRAM_SLOT_ALL);
    } else if (owner != IBCM_OWNER_HERE &&
               !datagram_hand_on(shard->packets.link, rx, (unsigned)owner)) {
        // Whose it was has ended, perhaps before its last words had left: the host answers for it.
        ibcm_on_mad(cm->ibcm, &ends, packet.payload, IBCM_SHARING_NONE, now);
    }
}
