// A packet of RoCE in words.
#pragma once

#include "draw/lives.h"
#include "draw/story.h"
#include "wire/ibcm.h"
#include "wire/roce.h"

enum story_kind roce_words_kind(const struct roce_packet *p);

// Writes the event's label and detail. `part`: of a Read Request that begins a part of a Read.
void roce_words(const struct roce_packet *p, struct lives_part part, struct story_event *e);
// Of a message of the connection manager.
void roce_words_cm(const struct ibcm_message *m, const struct roce_packet *p,
                   struct story_event *e);
