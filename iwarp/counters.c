#include "iwarp/counters.h"

#include "wire/rdmap.h"
#include "wire/terminate.h"

static void each_message(const struct qp_message_counter *counters, const char *direction,
                         counter_each each, void *ctx)
{
    for (uint8_t opcode = 0; opcode < RDMAP_OPCODE_COUNT; opcode++) {
        const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
        if (facts->is_known) {
            counter_tell(each, ctx, direction, facts->name, ".messages", counters[opcode].messages);
            counter_tell(each, ctx, direction, facts->name, ".octets", counters[opcode].octets);
        }
    }
}

static const char *const cause_names[TERM_CAUSE_COUNT] = {[TERM_NONE] = "unknown",
#define X(name, layer, etype, code, text) [TERM_##name] = #name,
                                                          TERMINATE_CAUSES(X)
#undef X
};

void qp_counters_add(struct qp_counters *total, const struct qp_counters *counters)
{
    wq_counters_add(&total->wq, &counters->wq);
#define X(name, text) total->name += counters->name;
    QP_COUNTERS(X)
#undef X
    for (unsigned i = 0; i < RDMAP_OPCODE_COUNT; i++) {
        total->in[i].messages += counters->in[i].messages;
        total->in[i].octets += counters->in[i].octets;
        total->out[i].messages += counters->out[i].messages;
        total->out[i].octets += counters->out[i].octets;
    }
    for (unsigned i = 0; i < RDMAP_REFUSAL_COUNT; i++) {
        total->refusals[i] += counters->refusals[i];
    }
    for (unsigned i = 0; i < TERM_CAUSE_COUNT; i++) {
        total->terminates_in[i] += counters->terminates_in[i];
        total->terminates_out[i] += counters->terminates_out[i];
    }
}

void qp_counters_each(const struct qp_counters *counters, counter_each each, void *ctx)
{
    wq_counters_each(&counters->wq, each, ctx);
#define X(name, text) each(ctx, #name, counters->name);
    QP_COUNTERS(X)
#undef X
    each_message(counters->in, "in.", each, ctx);
    each_message(counters->out, "out.", each, ctx);
    for (unsigned i = RDMAP_ACCEPTED + 1; i < RDMAP_REFUSAL_COUNT; i++) {
        const char *name = rdmap_refusal_facts((enum rdmap_refusal)i)->name;
        counter_tell(each, ctx, "refused.", name, "", counters->refusals[i]);
    }
    for (unsigned i = 0; i < TERM_CAUSE_COUNT; i++) {
        counter_tell(each, ctx, "terminate_in.", cause_names[i], "", counters->terminates_in[i]);
        counter_tell(each, ctx, "terminate_out.", cause_names[i], "", counters->terminates_out[i]);
    }
}
