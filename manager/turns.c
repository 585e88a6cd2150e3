#include "manager/turns.h"

#include "base/list.h"

void turns_init(struct turns *turns, uint64_t quantum_len)
{
    list_init(&turns->waiting);
    turns->quantum_len = quantum_len < INT64_MAX ? (int64_t)quantum_len : INT64_MAX;
}

bool turns_is_empty(const struct turns *turns)
{
    return list_is_empty(&turns->waiting);
}

void turns_join(struct turns *turns, struct progress *progress)
{
    progress->credit_len = turns->quantum_len;
    list_push_tail(&turns->waiting, &progress->link);
}

static bool is_alone(const struct turns *turns)
{
    return turns->waiting.next == turns->waiting.prev;
}

struct progress *turns_next(struct turns *turns)
{
    while (!turns_is_empty(turns)) {
        struct progress *first = LIST_ENTRY(turns->waiting.next, struct progress, link);
        bool has_only_trailer = first->current.element == NULL;
        if (first->credit_len > 0 || has_only_trailer) {
            return first;
        }
        list_remove(&first->link);
        list_push_tail(&turns->waiting, &first->link);
        // No debts among octets that nobody else waited for.
        first->credit_len =
            is_alone(turns) ? turns->quantum_len : first->credit_len + turns->quantum_len;
    }
    return NULL;
}

void turns_charge(struct progress *progress, uint64_t len)
{
    progress->credit_len -= (int64_t)len;
}
