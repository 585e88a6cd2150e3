// An NBD service on its stage: a client that was greeted, and what both files of its tests say.
#pragma once

#include "node/tts/nbd.h"
#include "node/tts/nbd_wire.h"
#include "tests/node/octet_stage.h"

#define OPTION      "49484156454f5054 "
#define REPLY       "0003e889045565a9 "
#define DISK        "00000004 6469736b "
#define OTHER       "00000005 6f74686572 "
#define ACK(option) REPLY option "00000001 00000000 "
// The context base:allocation of the volume is chosen, as the only one.
#define CHOOSE_CONTEXT "0000000a 0000001f " DISK "00000001 0000000f 626173653a616c6c6f636174696f6e "
#define CHOSEN         REPLY "0000000a 00000004 00000013 00000001 626173653a616c6c6f636174696f6e "

static struct octet_stage *stage;
static struct nbd *nbd;

static inline int nbd_begin(void **state)
{
    stage = stage_create(true);
    nbd = nbd_tts_create(&(struct nbd_parts){.loop = stage->loop,
                                             .listen = stage->listen,
                                             .uma = &stage_uma,
                                             .uma_ctx = stage,
                                             .cta = &stage_cta,
                                             .cta_ctx = stage,
                                             .patience_ns = STAGE_PATIENCE_S * NS_PER_S,
                                             .say = stage_say});
    stage_start(stage, &nbd_for_uma, nbd);
    hear(stage, "4e42444d41474943 49484156454f5054 0003"); // fixed newstyle, no zeroes
    return 0;
}

static inline int nbd_end(void **state)
{
    stage_end(stage);
    nbd_tts_destroy(nbd);
    stage_destroy(stage);
    return 0;
}

static inline struct nbd_counters counters(void)
{
    stage_settle(stage);
    return nbd_counters(nbd);
}

/* ---- options --------------------------------------------------------------------------------- */

static inline void greet(void)
{
    say(stage, "00000003");
}

// An option and the whole of its answer.
static inline void option(const char *said, const char *heard)
{
    say(stage, OPTION);
    say(stage, said);
    hear(stage, heard);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, nbd_begin, nbd_end)
