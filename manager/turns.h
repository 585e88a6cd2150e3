// Whose octets get the next descriptor. Requests take turns by octets, in the order they came: each
// may move `quantum_len` octets in its turn; what its last descriptor moves beyond that it pays in
// later turns (deficit round robin). So between two turns of a request each other one moves at most
// a quantum and one descriptor, however many and long its descriptors are; and a request alone is
// never held up.
#pragma once

#include "manager/progress.h"

struct turns {
    struct list_link waiting; // of struct progress; the first has the turn
    int64_t quantum_len;
};

void turns_init(struct turns *turns, uint64_t quantum_len);

bool turns_is_empty(const struct turns *turns);

// Joins behind all others, with the credit of one turn.
void turns_join(struct turns *turns, struct progress *progress);

// Whose turn it is, or NULL. It stays in its place: list_remove() its link when it has no more
// octets.
struct progress *turns_next(struct turns *turns);

// Takes octets off its credit.
void turns_charge(struct progress *progress, uint64_t len);
