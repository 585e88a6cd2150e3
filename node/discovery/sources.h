// The sources that a host has, by their URIs.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/why.h"
#include "node/discovery/source.h"
#include "node/interface/uma_rta.h"

struct sources;

// Does the URI stand for what a source finds, and not for one device?
bool sources_is(const char *uri);
// Takes it apart, as source_kind.check.
int sources_check(const char *uri, char ret_one[UNIT_URI_MAX], struct why *ret_why);

// NULL without memory.
struct sources *sources_create(const struct source_host *host);
// NULL is allowed.
void sources_destroy(struct sources *sources);

// The number of the source of this URI, which begins to be asked if it is new, and is wanted until
// the next sweep. 0 without memory.
unsigned sources_want(struct sources *sources, const char *uri);
// Ends those that nobody has wanted since the last one.
void sources_sweep(struct sources *sources);

// Has all of them asked anew.
void sources_ask(struct sources *sources);
// Has each of them answered, or failed?
bool sources_are_settled(const struct sources *sources);

// What the one of this number has; how many it leaves out.
size_t sources_each(struct sources *sources, unsigned number, source_seen *seen, void *ctx);
// Its URI, as it may be shown: without a password or a secret. NULL: there is none of this number.
const char *sources_uri(const struct sources *sources, unsigned number);
// By index from 0: its number; 0: there are no more.
unsigned sources_at(const struct sources *sources, size_t index, struct source_status *ret);
