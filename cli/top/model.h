// What `weft top` knows: of each process, connection, volume and RTA its last answer, what it did
// per second since the one before, and what it did in the last minute. Fed by answers, in rounds;
// shown by draw.h and print.h, which change nothing here.
//
//     top_model_init
//     each round: top_round_begin; top_answer or top_no_answer per process; top_round_end
//     top_model_fini
//
// Nothing here asks a process or knows a terminal: the command does, top.c. Answers are taken
// apart in read.c. Memory is bounded by TOP_SUBJECT_MAX.
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/histogram.h"
#include "base/time.h"

enum {
    TOP_SUBJECT_MAX = 4096, // of all kinds together; what is beyond is counted, not shown
    TOP_HISTORY_LEN = 60,   // seconds
    TOP_TEXT_LEN = 64,
    TOP_GONE_SECONDS = 5, // so long a process that is gone is still shown
};

// What a row of a table stands for.
enum top_kind {
    TOP_PROCESS,    // a program with a device, or a storage node
    TOP_CONNECTION, // a queue pair and its connection
    TOP_VOLUME,
    TOP_RTA,
    TOP_CLIENT, // a connection to a volume
    TOP_KIND_COUNT
};

enum top_status {
    TOP_ANSWERS,
    TOP_SILENT,   // not within its deadline: stopped, or overloaded
    TOP_REFUSES,  // it does not speak to this user
    TOP_NONSENSE, // what it said is no answer of weft's, or too long
    TOP_GONE,
};

// What is counted; it only grows while the subject is the same.
struct top_totals {
    uint64_t work; // work requests completed; of a volume or node, requests answered
    uint64_t octets_in, octets_out;
    uint64_t errors; // work requests or requests that failed
};

struct top_rates {
    uint64_t work, octets_in, octets_out, errors; // per second
};

struct top_subject {
    enum top_kind kind;
    pid_t pid; // the process that told of it
    bool is_node;
    char id[TOP_TEXT_LEN]; // what is its own in that process: a number or a name

    enum top_status status;
    char name[TOP_TEXT_LEN];     // program; the peer's or client's address; name
    char identity[TOP_TEXT_LEN]; // that a client has given itself
    char state[TOP_TEXT_LEN];    // of a connection, a volume, an RTA
    char what[TOP_TEXT_LEN];     // devices; device; driver; a client's volume
    uint64_t connections;        // of a node or volume: its clients
    uint64_t size;               // of a volume, in octets
    uint64_t rta_pid, restarts, in_flight;

    bool has_rates; // it has been told of twice
    instant_ns told_at_ns, since_ns, gone_at_ns;
    struct top_totals totals;
    struct top_rates rates;
    uint64_t history[TOP_HISTORY_LEN]; // octets in and out per second, the latest last
    struct histogram *latency;         // since it began; NULL: it tells of none
    struct histogram *latest;          // since the round before
    struct json_object *answer;        // what it said, for details; NULL: nothing so far
    bool is_seen;                      // in this round
};

struct top_model {
    struct top_subject **subjects;
    size_t count;
    size_t left_out; // that there was no room for, in this round
    instant_ns now;
    bool is_short; // no memory for some: they are left out
};

void top_model_init(struct top_model *model);
void top_model_fini(struct top_model *model);

void top_round_begin(struct top_model *model, instant_ns now);
// What a process said: `answers` is an array of objects as `weft stat` gets them, or with `is_node`
// of one object as `weft status` gets it. Any shape is taken; what is not as expected is left out.
void top_answer(struct top_model *model, pid_t pid, bool is_node, struct json_object *answers);
// `error` is that of control/ask.h; -ECONNREFUSED: it is gone.
void top_no_answer(struct top_model *model, pid_t pid, bool is_node, int error);
void top_round_end(struct top_model *model);

const char *top_status_name(enum top_status status);

// NULL: there is none.
struct top_subject *top_find(const struct top_model *model, enum top_kind kind, pid_t pid,
                             bool is_node, const char *id);

// The p50 and others of the last round; of all since it began if nothing came in it. NULL: none.
const struct histogram *top_latency(const struct top_subject *subject);

// The latencies of a process by operation, of all its devices or volumes together. More than these,
// and names of other than small letters, spaces and underscores, are left out: they are not ours.
enum { TOP_OPERATION_COUNT_MAX = 16 };
struct top_operations {
    size_t count;
    struct top_operation {
        char name[TOP_TEXT_LEN];
        struct histogram latency;
    } of[TOP_OPERATION_COUNT_MAX];
};
void top_operations(const struct top_subject *process, struct top_operations *ret);

/* ---- for read.c, which takes answers apart --------------------------------------------------- */

// The subject, a new one perhaps, marked as seen; NULL: there is no room.
struct top_subject *top_touch(struct top_model *model, enum top_kind kind, pid_t pid, bool is_node,
                              const char *id);
// What it has counted by now, and what its latencies are; `latency` NULL: none.
void top_note(const struct top_model *model, struct top_subject *subject,
              const struct top_totals *totals, const struct histogram *latency);
