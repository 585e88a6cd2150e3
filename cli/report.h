// The counters of one process for people: a paragraph for the device, for each connection and for
// each queue pair. Numbers that are zero are left out; what is new in the JSON appears by itself.
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

// `process` is what a process answered, an object. Lines have at most `width` columns where the
// words allow it.
void report_print(FILE *out, struct json_object *process, unsigned width);

// Whether a counter of this name counts nanoseconds.
bool report_is_duration(const char *name);
