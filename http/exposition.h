// Numbers in Prometheus' text format, version 0.0.4: families of them, each introduced once, all
// names beginning with weft_.
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/histogram.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

void exposition_family(FILE *out, const char *name, const char *type, const char *help);

// A stranger's text as the value of a label, without the quotation marks around it.
const char *exposition_label(const char *text, char *ret, size_t capacity);

// One of the format's histograms: how many took so long at most, in seconds, the sum, and how many
// there were. The bounds are the last nanosecond before each power of two, which ours tell exactly.
void exposition_histogram(FILE *out, const char *name, const char *labels,
                          const struct histogram *h);
