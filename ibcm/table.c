// Connections by their own id, by their peer's id and address, by their peer's queue pair, and, as
// long as they are half-open, by their source. The keys that peers choose are hashed with the
// agent's key, so that nobody can make them meet.
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/siphash.h"
#include "ibcm/internal.h"
#include "ibcm/state.h"

enum { ID_SLOT_SHIFT = 24, ID_MASK = (1 << ID_SLOT_SHIFT) - 1 };

static uint32_t bucket_of(const struct ibcm *ibcm, const struct in6_addr *address, uint64_t number)
{
    uint8_t key[sizeof *address + sizeof number];
    memcpy(key, address, sizeof *address);
    put_be64(key + sizeof *address, number);
    return (uint32_t)siphash(ibcm->config.key, span_of(key, sizeof key)) & ibcm->bucket_mask;
}

uint64_t ibcm_draw(struct ibcm *ibcm)
{
    uint8_t octets[8];
    put_be64(octets, ++ibcm->drawn);
    return siphash(ibcm->config.key, span_of(octets, sizeof octets));
}

void ibcm_table_init(struct ibcm *ibcm, struct list_link *heads)
{
    uint32_t count = ibcm->bucket_mask + 1;
    ibcm->by_id = heads;
    ibcm->by_remote = heads + count;
    ibcm->by_qp = heads + 2 * (size_t)count;
    ibcm->by_source = heads + 3 * (size_t)count;
    for (size_t i = 0; i < 4 * (size_t)count; i++) {
        list_init(&heads[i]);
    }
    list_init(&ibcm->free);
    list_init(&ibcm->half_open);
    list_init(&ibcm->timewait);
}

/* ---- taken and given back -------------------------------------------------------------------- */

static uint32_t id_draw(struct ibcm *ibcm)
{
    for (;;) {
        uint32_t id =
            (uint32_t)ibcm->config.id_slot << ID_SLOT_SHIFT | (uint32_t)(ibcm_draw(ibcm) & ID_MASK);
        if (id != 0 && ibcm_conn_by_id(ibcm, id) == NULL) {
            return id;
        }
    }
}

static struct ibcm_conn *slot_take(struct ibcm *ibcm)
{
    struct list_link *l = list_pop_head(&ibcm->free);
    if (l != NULL) {
        return LIST_ENTRY(l, struct ibcm_conn, free_link);
    }
    return ibcm->touched < ibcm->config.conn_max ? &ibcm->conns[ibcm->touched++] : NULL;
}

struct ibcm_conn *ibcm_conn_take(struct ibcm *ibcm, const struct ibcm_ends *ends)
{
    struct ibcm_conn *conn = slot_take(ibcm);
    if (conn == NULL) {
        return NULL;
    }
    *conn = (struct ibcm_conn){.state = IBCM_IDLE, .ends = *ends, .is_owned = true};
    struct list_link *const links[] = {
        &conn->free_link,   &conn->event_link,    &conn->waiting_link,
        &conn->half_link,   &conn->timewait_link, &conn->id_link,
        &conn->remote_link, &conn->qp_link,       &conn->source_link,
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        list_init(links[i]);
    }
    conn->local_id = id_draw(ibcm);
    list_push_tail(&ibcm->by_id[conn->local_id & ibcm->bucket_mask], &conn->id_link);
    ibcm->conn_count++;
    return conn;
}

void ibcm_conn_give_back(struct ibcm *ibcm, struct ibcm_conn *conn)
{
    if (conn->state != IBCM_OVER || conn->is_owned || conn->event_mask != 0) {
        return;
    }
    CHECK(!deadline_is_armed(&conn->deadline));
    list_push_head(&ibcm->free, &conn->free_link);
    conn->state = IBCM_NO_STATE;
    ibcm->conn_count--;
}

/* ---- filed ----------------------------------------------------------------------------------- */

// In the list, or in none.
static void place(struct list_link *l, struct list_link *list, bool belongs)
{
    if (!belongs) {
        list_remove(l);
    } else if (list_is_empty(l)) {
        list_push_tail(list, l);
    }
}

static void file_half_open(struct ibcm *ibcm, struct ibcm_conn *conn, bool is_half_open)
{
    bool was = !list_is_empty(&conn->half_link);
    ibcm->half_open_count += (uint32_t)is_half_open - (uint32_t)was;
    place(&conn->half_link, &ibcm->half_open, is_half_open);
    place(&conn->source_link, &ibcm->by_source[bucket_of(ibcm, &conn->ends.remote, 0)],
          is_half_open);
}

void ibcm_conn_file(struct ibcm *ibcm, struct ibcm_conn *conn)
{
    const struct ibcm_state_facts *facts = ibcm_state_facts(conn->state);
    const struct in6_addr *remote = &conn->ends.remote;
    bool is_over = conn->state == IBCM_OVER;
    file_half_open(ibcm, conn, facts->is_half_open && !conn->is_active);
    place(&conn->timewait_link, &ibcm->timewait, conn->state == IBCM_TIMEWAIT);
    place(&conn->remote_link, &ibcm->by_remote[bucket_of(ibcm, remote, conn->remote_id)],
          !is_over && conn->remote_id != 0);
    place(&conn->qp_link, &ibcm->by_qp[bucket_of(ibcm, remote, conn->theirs.qp_num)],
          facts->has_peer_qp);
    if (is_over) {
        list_remove(&conn->id_link);
    }
}

/* ---- found ----------------------------------------------------------------------------------- */

struct ibcm_conn *ibcm_conn_by_id(const struct ibcm *ibcm, uint32_t local_id)
{
    const struct list_link *head = &ibcm->by_id[local_id & ibcm->bucket_mask];
    for (struct list_link *l = head->next; l != head; l = l->next) {
        struct ibcm_conn *conn = LIST_ENTRY(l, struct ibcm_conn, id_link);
        if (conn->local_id == local_id) {
            return conn;
        }
    }
    return NULL;
}

static bool is_same_address(const struct in6_addr *a, const struct in6_addr *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

struct ibcm_conn *ibcm_conn_by_remote(const struct ibcm *ibcm, uint32_t remote_id,
                                      const struct in6_addr *remote, bool is_datagram)
{
    const struct list_link *head = &ibcm->by_remote[bucket_of(ibcm, remote, remote_id)];
    for (struct list_link *l = head->next; l != head; l = l->next) {
        struct ibcm_conn *conn = LIST_ENTRY(l, struct ibcm_conn, remote_link);
        if (conn->remote_id == remote_id && conn->is_datagram == is_datagram &&
            is_same_address(&conn->ends.remote, remote)) {
            return conn;
        }
    }
    return NULL;
}

struct ibcm_conn *ibcm_conn_by_qp(const struct ibcm *ibcm, uint32_t qp_num, uint64_t ca_guid,
                                  const struct in6_addr *remote)
{
    const struct list_link *head = &ibcm->by_qp[bucket_of(ibcm, remote, qp_num)];
    for (struct list_link *l = head->next; l != head; l = l->next) {
        struct ibcm_conn *conn = LIST_ENTRY(l, struct ibcm_conn, qp_link);
        if (conn->theirs.qp_num == qp_num && conn->theirs.ca_guid == ca_guid &&
            is_same_address(&conn->ends.remote, remote)) {
            return conn;
        }
    }
    return NULL;
}

uint32_t ibcm_half_open_of(const struct ibcm *ibcm, const struct in6_addr *remote, uint32_t max)
{
    const struct list_link *head = &ibcm->by_source[bucket_of(ibcm, remote, 0)];
    uint32_t count = 0;
    for (struct list_link *l = head->next; l != head && count < max; l = l->next) {
        count +=
            is_same_address(&LIST_ENTRY(l, struct ibcm_conn, source_link)->ends.remote, remote);
    }
    return count;
}
