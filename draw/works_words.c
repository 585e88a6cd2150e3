#include "draw/works_words.h"

#include <stddef.h>

const char *works_request_name(uint8_t opcode)
{
    static const char *const names[] = {
        "Write", "Write with Immediate", "Send",          "Send with Immediate",
        "Read",  "Compare and Swap",     "Fetch and Add", "Local Invalidate",
        "Bind",  "Send with Invalidate",
    };
    return opcode < sizeof names / sizeof names[0] ? names[opcode] : "work request";
}

const char *works_completion_name(uint8_t opcode)
{
    static const char *const names[] = {
        "Send", "Write", "Read", "Compare and Swap", "Fetch and Add", "Bind", "Local Invalidate",
    };
    if (opcode >= WORKS_RECEIVE) {
        return opcode == WORKS_RECEIVE ? "receive" : "receive of Immediate Data";
    }
    return opcode < sizeof names / sizeof names[0] ? names[opcode] : "work request";
}

const char *works_status_name(uint8_t status)
{
    static const char *const names[] = {
        [0] = "success",
        [1] = "local length error",
        [2] = "local QP operation error",
        [4] = "local protection error",
        [5] = "flushed",
        [6] = "memory window bind error",
        [8] = "bad response",
        [9] = "remote invalid request",
        [10] = "remote access error",
        [11] = "remote operation error",
        [12] = "no answer",
        [13] = "receiver not ready",
        [21] = "general error",
    };
    const char *name = status < sizeof names / sizeof names[0] ? names[status] : NULL;
    return name != NULL ? name : "error";
}
