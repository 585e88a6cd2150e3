#include "node/rta/store.h"

#include <stdlib.h>

#include "base/check.h"

struct store {
    struct store_row rows[NODE_CONNECTION_COUNT_MAX];
    struct store_transaction transactions[NODE_TRANSACTION_COUNT_MAX];
    uint32_t count;
};

struct store *store_create(void)
{
    return calloc(1, sizeof(struct store));
}

void store_destroy(struct store *store)
{
    free(store);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct store_row *store_row_add(struct store *store, uint32_t connection, struct io_volume *volume)
{
    struct store_row *row = &store->rows[node_connection_slot(connection)];
    if (row->connection != 0 || connection == 0) {
        return NULL;
    }
    *row = (struct store_row){.connection = connection, .volume = volume};
    return row;
}

struct store_row *store_row_find(struct store *store, uint32_t connection)
{
    struct store_row *row = &store->rows[node_connection_slot(connection)];
    bool is_it = connection != 0 && row->connection == connection && !row->is_leaving;
    return is_it ? row : NULL;
}

bool store_row_remove(struct store *store, uint32_t connection)
{
    struct store_row *row = store_row_find(store, connection);
    if (row == NULL) {
        return false;
    }
    row->is_leaving = true;
    if (row->in_flight == 0) {
        *row = (struct store_row){0};
    }
    return true;
}

unsigned store_rows_of(const struct store *store, const struct io_volume *volume)
{
    unsigned count = 0;
    for (unsigned i = 0; i < NODE_CONNECTION_COUNT_MAX; i++) {
        count += store->rows[i].connection != 0 && store->rows[i].volume == volume;
    }
    return count;
}

/* ---- transactions ---------------------------------------------------------------------------- */

struct store_transaction *store_find(struct store *store, uint64_t transaction)
{
    struct store_transaction *t = &store->transactions[frame_transaction_slot(transaction)];
    bool is_it = t->state != STORE_FREE && t->request.transaction == transaction;
    return is_it ? t : NULL;
}

struct store_transaction *store_begin(struct store *store, struct store_row *row,
                                      const struct frame *request)
{
    struct store_transaction *t =
        &store->transactions[frame_transaction_slot(request->transaction)];
    if (t->state != STORE_FREE) {
        return NULL;
    }
    *t = (struct store_transaction){.state = STORE_IN_DEVICE, .request = *request, .row = row};
    list_init(&t->link);
    row->in_flight++;
    store->count++;
    return t;
}

void store_end(struct store *store, struct store_transaction *transaction)
{
    struct store_row *row = transaction->row;
    CHECK(!deadline_is_armed(&transaction->retry));
    list_remove(&transaction->link);
    transaction->state = STORE_FREE;
    store->count--;
    row->in_flight--;
    if (row->is_leaving && row->in_flight == 0) {
        *row = (struct store_row){0};
    }
}

uint32_t store_count(const struct store *store)
{
    return store->count;
}
