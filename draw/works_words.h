// The names of what records say, as people know them from the verbs.
#pragma once

#include <stdint.h>

enum { WORKS_RECEIVE = 128 }; // and greater: the opcode of a completion is that of a receive

// "Send", "Write" … of a work request's opcode (IBV_WR_*), of a completion's (IBV_WC_*).
const char *works_request_name(uint8_t opcode);
const char *works_completion_name(uint8_t opcode);
// "flushed", "remote access error" … (IBV_WC_*).
const char *works_status_name(uint8_t status);
