// Why a read allotment changes. The values are the numbers that a notice of it carries
// (wire/extension.h), so they stay: what is new goes to the end.
#pragma once

#define ALLOTMENT_EVENTS(X)                                                \
    X(AGREED, "agreed", "the connection was made; in a notice: unsaid")    \
    X(OPERATOR, "operator", "a command, or a call of the program")         \
    X(WAITING, "waiting", "the number of readers that wait for a context") \
    X(MEMORY, "memory", "memory became short, or enough")                  \
    X(PIPE, "pipe", "the measured rate and round trip")                    \
    X(PEER, "peer", "the peer's notice")                                   \
    X(ALONE, "alone", "one reader has the device to itself, or no longer")

enum allotment_event {
#define X(name, key, text) ALLOTMENT_##name,
    ALLOTMENT_EVENTS(X)
#undef X
        ALLOTMENT_EVENT_COUNT,
};
