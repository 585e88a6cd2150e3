// What proves that the oracles can fail: one wrong thing, done behind their backs.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cqe;
struct sim;
struct sim_block;

enum sim_tamper_kind {
    SIM_TAMPER_NONE,
    SIM_TAMPER_OCTET,     // an octet of registered memory changes
    SIM_TAMPER_FENCE,     // an octet beside registered memory changes
    SIM_TAMPER_LOSE,      // a completion is lost
    SIM_TAMPER_REPEAT,    // a completion comes twice
    SIM_TAMPER_STATUS,    // a completion says success where there was none, or the reverse
    SIM_TAMPER_LENGTH,    // a received length is wrong
    SIM_TAMPER_REFERENCE, // the reference of a one-shot message, the first from there on, is wrong
    SIM_TAMPER_LEAK,      // an object is not given back
    SIM_TAMPER_FLOW,      // a completion of a flow comes twice
    SIM_TAMPER_STOP,      // nothing arrives any more
    SIM_TAMPER_COUNT,
};

struct sim_tamper {
    enum sim_tamper_kind kind;
    uint64_t at; // the completion of that number, counted from 0
};

enum sim_tampered { SIM_CQE_AS_IS, SIM_CQE_LOST, SIM_CQE_TWICE };

// A completion was taken from a queue; `cqe` may change.
enum sim_tampered sim_tamper_cqe(struct sim *sim, struct cqe *cqe);
// One was taken of a flow: does it come twice?
bool sim_tamper_flow(const struct sim *sim, const struct cqe *cqe);
bool sim_tamper_is(const struct sim *sim, enum sim_tamper_kind kind);
