// What reads first: a read into the part of the buffer that lies behind the client's data, a look
// at both, and then for NODE_COMPARE_AND_WRITE a write of what the client sent behind what it
// expects, for NODE_OR_WRITE of what the client sent, with the bits added that were read.
//
//     compare              expected │ read
//     compare and write    expected │ new │ read
//     or write             bits │ read
//
// The unit is asked for reads and writes alone.

#include <string.h>

#include "node/cta/agent.h"
#include "node/interface/request.h"

uint32_t compare_room(unsigned operation, uint64_t len)
{
    return node_operation_facts(operation)->reads_first ? (uint32_t)len : 0;
}

struct transaction_half compare_half(const struct transaction *t)
{
    struct transaction_half whole = {t->operation, t->flags, t->buffer};
    if (!node_operation_facts(t->operation)->reads_first) {
        return whole;
    }
    uint32_t len = (uint32_t)t->len;
    uint64_t fresh = t->buffer.offset + (t->operation == NODE_COMPARE_AND_WRITE ? len : 0);
    uint64_t behind = t->buffer.offset + t->buffer.len - len;
    return (struct transaction_half){
        .operation = t->has_compared ? NODE_WRITE : NODE_READ,
        .flags = t->has_compared ? t->flags : 0,
        .buffer = {.offset = t->has_compared ? fresh : behind, .len = len}};
}

// Of two that differ.
static uint32_t same_len(const uint8_t *a, const uint8_t *b)
{
    uint32_t len = 0;
    while (a[len] == b[len]) {
        len++;
    }
    return len;
}

static void add_bits(uint8_t *bits, const uint8_t *read, uint64_t len)
{
    for (uint64_t i = 0; i < len; i++) {
        bits[i] |= read[i];
    }
}

static enum node_completion look(const struct transaction *t)
{
    uint8_t *expected = memory_of(t->unit, t->buffer);
    const uint8_t *read = expected + t->buffer.len - t->len;
    if (t->operation == NODE_OR_WRITE) {
        add_bits(expected, read, t->len);
        return NODE_OK;
    }
    if (memcmp(expected, read, t->len) == 0) {
        return NODE_OK;
    }
    if (t->request != NULL) {
        t->request->miscompare_at = same_len(expected, read);
    }
    return NODE_MISCOMPARE;
}

// Between the halves its volume may have become somebody else's.
static enum node_completion may_write(const struct transaction *t)
{
    bool is_barred = t->is_fenced || reservation_bars(t->route, t->operation, t->flags);
    return is_barred ? NODE_RESERVED : NODE_OK;
}

enum node_completion compare_judge(const struct transaction *t, enum node_completion completion)
{
    if (!node_operation_facts(t->operation)->reads_first || t->has_compared ||
        completion != NODE_OK) {
        return completion;
    }
    completion = look(t);
    return completion == NODE_OK ? may_write(t) : completion;
}

bool compare_goes_on(const struct transaction *t)
{
    const struct node_operation_facts *facts = node_operation_facts(t->operation);
    return facts->reads_first && facts->changes && !t->has_compared && t->request != NULL;
}
