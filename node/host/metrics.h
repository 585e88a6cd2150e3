// The node's counters for Prometheus.
#pragma once

#include <stdio.h>

struct host;

void metrics_write(const struct host *host, FILE *out);
