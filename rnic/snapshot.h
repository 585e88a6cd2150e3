// The device's counters as a report (report/report.h): values are copied under the shard's lock,
// and nothing else happens there.
#pragma once

#include "report/report.h"

struct rnic;

// -ENOMEM. Otherwise report_fini is the caller's.
int snapshot_take(struct rnic *rnic, struct report *ret);
