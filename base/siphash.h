// SipHash-2-4 (Aumasson, Bernstein 2012): a keyed hash of short inputs. Who does not have the key
// can neither guess a value nor make two inputs meet in one.
#pragma once

#include <stdint.h>

#include "base/span.h"

enum { SIPHASH_KEY_LEN = 16 };

uint64_t siphash(const uint8_t key[SIPHASH_KEY_LEN], struct span octets);
