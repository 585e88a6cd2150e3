// The node's counters for Prometheus, at /metrics of an HTTP address of their own.
#pragma once

struct host;
struct why;
struct host_metrics;

// "HOST:PORT". NULL with the reason in `ret_why`.
struct host_metrics *metrics_create(struct host *host, const char *listen, struct why *ret_why);
void metrics_destroy(struct host_metrics *metrics);
