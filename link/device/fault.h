// A device that stands before another and makes its path bad: segments are lost, made late, sent
// twice, changed. What is drawn depends on the seed and the order of the packets alone.
#pragma once

#include "link/device/device.h"
#include "link/fault_model.h"

// Wraps `inner`, which now belongs to *ret and is destroyed with it; on failure (-ENOMEM) it stays
// the caller's.
int device_fault_wrap(struct device *inner, const struct fault_config *config, struct device **ret);
const struct fault_counters *device_fault_counters(const struct device *d);
