// The transaction store table of an RTA: a row per connection, which says where its requests go,
// and the transactions under way. Routing looks rows up by number; a request without a row is
// refused.
//
// Memory: taken in create. One thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/deadlines.h"
#include "base/list.h"
#include "base/time.h"
#include "node/interface/cta_rta.h"
#include "node/interface/request.h"

struct io_volume;

struct store_row {
    uint32_t connection; // 0: the slot is free
    struct io_volume *volume;
    uint32_t in_flight; // transactions
    bool is_leaving;    // removed by the UMA; goes with its last transaction
};

enum store_state {
    STORE_FREE,
    STORE_IN_DEVICE,  // at the I/O interface
    STORE_RESULT_OUT, // the CTA has been called back; its completion releases the buffer
};

struct store_transaction {
    enum store_state state;
    struct frame request; // as it came
    struct store_row *row;
    void *data;                // the buffer, as the DMA manager has it
    uint64_t done_len;         // octets of the volume that commands have dealt with
    uint32_t answer_len;       // octets of the buffer that are the answer
    instant_ns retry_until_ns; // transient failures of the device are tried again until then
    struct deadline retry;     // given to the device again then
    duration_ns retry_in_ns;   // the next wait; doubles
    struct list_link link;     // waiting at the I/O interface
};

struct store;

struct store *store_create(void);
void store_destroy(struct store *store);

// NULL: the slot is taken by another connection.
struct store_row *store_row_add(struct store *store, uint32_t connection, struct io_volume *volume);

// NULL: no such row, or it is leaving.
struct store_row *store_row_find(struct store *store, uint32_t connection);

// Its transactions end as they would; no new ones begin. False: there is no such row.
bool store_row_remove(struct store *store, uint32_t connection);

// How many rows lead to the volume, those that are leaving included.
unsigned store_rows_of(const struct store *store, const struct io_volume *volume);

// The transaction with exactly this number; NULL: none.
struct store_transaction *store_find(struct store *store, uint64_t transaction);

// A new one, in its slot. NULL: the slot is in use.
struct store_transaction *store_begin(struct store *store, struct store_row *row,
                                      const struct frame *request);
void store_end(struct store *store, struct store_transaction *transaction);

// Transactions under way.
uint32_t store_count(const struct store *store);
