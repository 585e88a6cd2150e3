// Values of parameters: sizes, durations, shares, words. Each gives 0, or -EINVAL with the reason
// in `ret_why`; a key that is not there leaves `ret` as it is.
#pragma once

#include "base/time.h"
#include "node/interface/rta_ddm.h"

// NULL: not there.
const char *parameter_find(const struct ddm_target *target, const char *key);

// "4096", "64K", "1M", "1G", "1T": powers of 1024.
int parameter_size_parse(const char *text, uint64_t *ret, struct why *ret_why);
int parameter_size(const struct ddm_target *target, const char *key, uint64_t *ret,
                   struct why *ret_why);

// "10ms", "2s", "5us", "100ns"; a number alone: seconds.
int parameter_duration_parse(const char *text, duration_ns *ret, struct why *ret_why);
int parameter_duration(const struct ddm_target *target, const char *key, duration_ns *ret,
                       struct why *ret_why);

// "10%", "0.1": in millionths.
int parameter_share(const struct ddm_target *target, const char *key, uint32_t *ret,
                    struct why *ret_why);

// One of the words, ended by NULL: its index.
int parameter_word(const struct ddm_target *target, const char *key, const char *const *words,
                   unsigned *ret, struct why *ret_why);
