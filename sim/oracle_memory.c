#include "sim/oracle_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FENCE_LEN = 64,
    FENCE_OCTET = 0xa5,
    PLACE_TRIES = 8,
};

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint8_t *fenced_alloc(uint32_t len)
{
    uint8_t *memory = malloc((size_t)len + 2 * FENCE_LEN);
    if (memory == NULL) {
        return NULL;
    }
    memset(memory, FENCE_OCTET, FENCE_LEN);
    memset(memory + FENCE_LEN + len, FENCE_OCTET, FENCE_LEN);
    return memory + FENCE_LEN;
}

static void draw_octets(uint8_t *octets, size_t len, struct prng *rng)
{
    for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
        uint64_t drawn = prng_next(rng);
        memcpy(octets + i, &drawn, len - i < sizeof drawn ? len - i : sizeof drawn);
    }
}

bool sim_block_init(struct sim_block *block, uint32_t len, struct prng *rng)
{
    *block = (struct sim_block){.len = len};
    list_init(&block->claims);
    block->octets = fenced_alloc(len);
    block->shadow = malloc(len);
    if (block->octets == NULL || block->shadow == NULL) {
        sim_block_fini(block);
        return false;
    }
    draw_octets(block->octets, len, rng);
    memcpy(block->shadow, block->octets, len);
    return true;
}

void sim_block_fini(struct sim_block *block)
{
    if (block->octets != NULL) {
        free(block->octets - FENCE_LEN);
    }
    free(block->shadow);
    block->octets = NULL;
    block->shadow = NULL;
}

bool sim_block_move(struct sim_block *block)
{
    uint8_t *octets = fenced_alloc(block->len);
    if (octets == NULL) {
        return false;
    }
    memcpy(octets, block->octets, block->len);
    free(block->octets - FENCE_LEN);
    block->octets = octets;
    return true;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static bool is_free(const struct sim_block *block, uint32_t at, uint32_t len)
{
    for (const struct list_link *l = block->claims.next; l != &block->claims; l = l->next) {
        const struct sim_claim *c = LIST_ENTRY(l, const struct sim_claim, link);
        if (at < c->at + c->len && c->at < at + len) {
            return false;
        }
    }
    return true;
}

bool sim_claim_take(struct sim_claim *claim, struct sim_block *block, enum sim_claim_kind kind,
                    uint32_t len, uint32_t align, struct prng *rng)
{
    if (len > block->len) {
        return false;
    }
    for (unsigned i = 0; i < PLACE_TRIES; i++) {
        uint32_t at = prng_below(rng, block->len - len + 1) / align * align;
        if (is_free(block, at, len)) {
            *claim = (struct sim_claim){.block = block, .at = at, .len = len, .kind = kind};
            list_push_tail(&block->claims, &claim->link);
            return true;
        }
    }
    return false;
}

void sim_claim_release(struct sim_claim *claim)
{
    if (claim->block != NULL) {
        list_remove(&claim->link);
        claim->block = NULL;
    }
}

uint64_t sim_claim_addr(const struct sim_claim *claim)
{
    return claim->block->iova + claim->at;
}

static uint8_t *actual(const struct sim_claim *claim)
{
    return claim->block->octets + claim->at;
}

static uint8_t *shadow(const struct sim_claim *claim)
{
    return claim->block->shadow + claim->at;
}

void sim_claim_scribble(const struct sim_claim *claim, struct prng *rng)
{
    draw_octets(actual(claim), claim->len, rng);
    memcpy(shadow(claim), actual(claim), claim->len);
}

void sim_claims_write(const struct sim_claim *claims, unsigned count, const uint8_t *octets)
{
    for (unsigned i = 0; i < count; i++) {
        memcpy(actual(&claims[i]), octets, claims[i].len);
        memcpy(shadow(&claims[i]), octets, claims[i].len);
        octets += claims[i].len;
    }
}

void sim_claims_read(const struct sim_claim *claims, unsigned count, uint8_t *into)
{
    for (unsigned i = 0; i < count; i++) {
        memcpy(into, actual(&claims[i]), claims[i].len);
        into += claims[i].len;
    }
}

static size_t common_prefix(const uint8_t *a, const uint8_t *b, size_t len)
{
    size_t i = 0;
    while (i < len && a[i] == b[i]) {
        i++;
    }
    return i;
}

// Each octet is what was there before, or that of the content, of which there are `wanted`.
static bool is_either(const struct sim_claim *c, const uint8_t *content, size_t wanted)
{
    for (size_t i = 0; i < c->len; i++) {
        uint8_t octet = actual(c)[i];
        if (octet != shadow(c)[i] && (i >= wanted || octet != content[i])) {
            return false;
        }
    }
    return true;
}

bool sim_claims_placed(const struct sim_claim *claims, unsigned count, const uint8_t *content,
                       size_t len, bool has_holes, size_t *ret_placed)
{
    size_t placed = 0, at = 0;
    bool has_ended = false;
    for (unsigned i = 0; i < count; i++) {
        const struct sim_claim *c = &claims[i];
        if (c->block == NULL) {
            *ret_placed = len; // settled before: its block was deregistered
            return true;
        }
        size_t wanted = len - at < c->len ? len - at : c->len;
        size_t here = has_ended ? 0 : common_prefix(actual(c), content + at, wanted);
        placed += here;
        has_ended |= here < c->len;
        if (memcmp(actual(c) + here, shadow(c) + here, c->len - here) != 0 &&
            !(has_holes && is_either(c, content + at, wanted))) {
            return false;
        }
        at += wanted;
    }
    *ret_placed = placed;
    return true;
}

bool sim_claims_are_untouched(const struct sim_claim *claims, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct sim_claim *c = &claims[i];
        if (c->block != NULL && memcmp(actual(c), shadow(c), c->len) != 0) {
            return false;
        }
    }
    return true;
}

void sim_claims_settle(struct sim_claim *claims, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct sim_claim *c = &claims[i];
        if (c->block != NULL) {
            memcpy(shadow(c), actual(c), c->len);
            sim_claim_release(c);
        }
    }
}

/* ---- the check ------------------------------------------------------------------------------- */

static bool fence_check(const uint8_t *fence, const char *where, char *ret_text)
{
    for (unsigned i = 0; i < FENCE_LEN; i++) {
        if (fence[i] != FENCE_OCTET) {
            snprintf(ret_text, SIM_BLOCK_FAULT_TEXT_LEN, "octet %u of the fence %s it is %02x", i,
                     where, fence[i]);
            return false;
        }
    }
    return true;
}

static const struct sim_claim *target_at(const struct sim_block *block, uint32_t at)
{
    for (const struct list_link *l = block->claims.next; l != &block->claims; l = l->next) {
        const struct sim_claim *c = LIST_ENTRY(l, const struct sim_claim, link);
        if (c->kind == SIM_CLAIM_TARGET && at >= c->at && at - c->at < c->len) {
            return c;
        }
    }
    return NULL;
}

bool sim_block_check(const struct sim_block *block, char ret_text[SIM_BLOCK_FAULT_TEXT_LEN])
{
    uint32_t at = 0;
    while (at < block->len) {
        if (memcmp(block->octets + at, block->shadow + at, block->len - at) == 0) {
            break;
        }
        at += (uint32_t)common_prefix(block->octets + at, block->shadow + at, block->len - at);
        const struct sim_claim *target = target_at(block, at);
        if (target == NULL) {
            snprintf(ret_text, SIM_BLOCK_FAULT_TEXT_LEN,
                     "octet %u of %u is %02x and ought to be %02x", at, block->len,
                     block->octets[at], block->shadow[at]);
            return false;
        }
        at = target->at + target->len;
    }
    return fence_check(block->octets - FENCE_LEN, "before", ret_text) &&
           fence_check(block->octets + block->len, "behind", ret_text);
}
