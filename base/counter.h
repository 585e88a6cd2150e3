// How counters are told to whoever shows them: one call each, with a name that a key can be.
#pragma once

#include <stdint.h>

// `name` is valid during the call only.
typedef void (*counter_each)(void *ctx, const char *name, uint64_t value);

// The name is put together, and one word: "in." and "RDMA Read Request" become
// "in.rdma_read_request".
void counter_tell(counter_each each, void *ctx, const char *prefix, const char *words,
                  const char *suffix, uint64_t value);
