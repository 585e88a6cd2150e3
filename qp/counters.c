#include "qp/counters.h"

#include <stdio.h>

typedef void (*each_fn)(void *ctx, const char *name, uint64_t value);

// "RDMA Read Request" becomes "rdma_read_request": one word, for keys.
static void emit(each_fn each, void *ctx, const char *prefix, const char *words, const char *suffix,
                 uint64_t value)
{
    char name[96];
    int len = snprintf(name, sizeof name, "%s%s%s", prefix, words, suffix);
    for (int i = 0; i < len && name[i] != '\0'; i++) {
        char c = name[i];
        name[i] = (char)(c == ' ' ? '_' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    each(ctx, name, value);
}

static void each_message(const struct qp_message_counter *counters, const char *direction,
                         each_fn each, void *ctx)
{
    for (uint8_t opcode = 0; opcode < RDMAP_OPCODE_COUNT; opcode++) {
        const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
        if (facts->is_known) {
            emit(each, ctx, direction, facts->name, ".messages", counters[opcode].messages);
            emit(each, ctx, direction, facts->name, ".octets", counters[opcode].octets);
        }
    }
}

static const char *const cause_names[TERM_CAUSE_COUNT] = {[TERM_NONE] = "unknown",
#define X(name, layer, etype, code, text) [TERM_##name] = #name,
                                                          TERMINATE_CAUSES(X)
#undef X
};

void qp_counters_each(const struct qp_counters *counters, each_fn each, void *ctx)
{
#define X(name, text) each(ctx, #name, counters->name);
    QP_COUNTERS(X)
#undef X
    each_message(counters->in, "in.", each, ctx);
    each_message(counters->out, "out.", each, ctx);
    for (unsigned i = RDMAP_ACCEPTED + 1; i < RDMAP_REFUSAL_COUNT; i++) {
        const char *name = rdmap_refusal_facts((enum rdmap_refusal)i)->name;
        emit(each, ctx, "refused.", name, "", counters->refusals[i]);
    }
    for (unsigned i = 0; i < TERM_CAUSE_COUNT; i++) {
        emit(each, ctx, "terminate_in.", cause_names[i], "", counters->terminates_in[i]);
        emit(each, ctx, "terminate_out.", cause_names[i], "", counters->terminates_out[i]);
    }
}
