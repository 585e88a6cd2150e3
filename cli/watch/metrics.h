// What is known of processes, for Prometheus: a program that uses a device has no door of its own.
// watch.c has the door, and the page beside it.
#pragma once

#include <stdio.h>

#include "cli/top/model.h"

void watch_metrics_write(const struct top_model *model, FILE *out);
