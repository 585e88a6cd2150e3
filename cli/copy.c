#include "cli/copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/volume.h"

enum { PIECE_LEN = 512 << 10, MEMORY_ALIGNMENT = 4096 };

struct copy;
struct step;
typedef void step_next(struct step *step);

// A piece with its buffers, going from one step to the next.
struct step {
    struct copy *copy;
    struct piece piece;
    uint8_t *data;                  // of the source
    uint8_t *other;                 // comparisons: of the destination
    const struct copy_place *place; // under way there
    step_next *next;                // what follows
    bool is_out;
    bool is_waiting; // read, and others are to be written before it
};

struct copy {
    struct copy_place *from, *to;
    struct copy_wish wish;
    struct progress *progress;
    struct copy_report *report;
    uint64_t at, len; // given out so far; in all, in whole blocks
    uint64_t exact_len;
    uint64_t written_at; // a stream has been written so far
    uint32_t piece_len;
    unsigned out_count;
    bool is_bad;
    struct step *steps;
    uint8_t *memory;
};

static uint32_t block_len_of(const struct copy *copy)
{
    return copy->from->block_len > copy->to->block_len ? copy->from->block_len
                                                       : copy->to->block_len;
}

// In whole blocks of both, so far as the source has octets.
static uint64_t len_of(const struct copy *copy)
{
    if (copy->exact_len == PLACE_LEN_UNKNOWN) {
        return PLACE_LEN_UNKNOWN;
    }
    uint64_t block = block_len_of(copy);
    uint64_t rest = copy->exact_len % block;
    return rest == 0 ? copy->exact_len : copy->exact_len - rest + block;
}

/* ---- the end of a piece ---------------------------------------------------------------------- */

static void fail(struct step *step, const struct copy_place *place, int error, const char *answer,
                 uint64_t at)
{
    struct copy_report *report = step->copy->report;
    if (!step->copy->is_bad) {
        step->copy->is_bad = true;
        report->error = error;
        snprintf(report->answer, sizeof report->answer, "%s", answer);
        report->error_at = at;
        report->error_place = place;
    }
}

static void step_end(struct step *step)
{
    struct copy *copy = step->copy;
    step->is_out = false;
    copy->out_count--;
    if (!copy->is_bad) {
        uint64_t left = copy->exact_len - step->piece.offset;
        copy->report->len += step->piece.len < left ? step->piece.len : left;
        if (copy->progress != NULL) {
            progress_show(copy->progress, copy->report->len, copy->exact_len);
        }
    }
}

static void on_ended(const struct piece *piece)
{
    struct step *step = piece->context;
    if (piece->error != 0) {
        fail(step, step->place, piece->error, piece->answer, piece->offset);
    }
    if (step->copy->is_bad) {
        step_end(step);
    } else {
        step->next(step);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *data, uint32_t len)
{
    return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

static void compare(struct step *step)
{
    for (uint32_t i = 0; i < step->piece.len; i++) {
        if (step->data[i] != step->other[i]) {
            fail(step, NULL, -EILSEQ, "", step->piece.offset + i);
            break;
        }
    }
    step_end(step);
}

static void read_other(struct step *step)
{
    step->piece.data = step->other;
    step->place = step->copy->to;
    step->next = compare;
    place_read(step->copy->to, &step->piece);
}

// The end of a stream shows when it is read; then the piece that it lies in ends there, and those
// behind it are nothing.
static void end_learn(struct step *step)
{
    struct copy *copy = step->copy;
    struct piece *piece = &step->piece;
    copy->exact_len = copy->from->len;
    copy->len = len_of(copy);
    uint64_t left = copy->len > piece->offset ? copy->len - piece->offset : 0;
    piece->len = piece->len < left ? piece->len : (uint32_t)left;
}

static bool is_too_much(const struct step *step)
{
    const struct copy_place *to = step->copy->to;
    return to->is_volume && step->piece.len > to->len - step->piece.offset;
}

static void write_out(struct step *step)
{
    struct copy *copy = step->copy;
    if (copy->from->is_stream) {
        end_learn(step);
    }
    if (step->piece.len == 0) {
        step_end(step);
        return;
    }
    if (is_too_much(step)) {
        fail(step, copy->to, -ENOSPC, "", copy->to->len);
        step_end(step);
        return;
    }
    bool is_hole = copy->wish.is_sparse && is_zero(step->data, step->piece.len);
    step->place = copy->to;
    step->next = step_end;
    if (is_hole) {
        copy->report->zero_len += step->piece.len;
        place_zero(copy->to, &step->piece);
    } else {
        place_write(copy->to, &step->piece);
    }
}

static struct step *step_in_turn(struct copy *copy)
{
    for (unsigned i = 0; i < copy->wish.depth; i++) {
        struct step *step = &copy->steps[i];
        if (step->is_waiting && step->piece.offset == copy->written_at) {
            return step;
        }
    }
    return NULL;
}

// A stream is written in order: a piece that is read early waits for those before it, and is not
// counted as under way.
static void write_in_turn(struct step *step)
{
    struct copy *copy = step->copy;
    step->is_waiting = true;
    copy->out_count--;
    while (!copy->is_bad && (step = step_in_turn(copy)) != NULL) {
        step->is_waiting = false;
        copy->out_count++;
        copy->written_at += step->piece.len;
        write_out(step);
    }
}

static step_next *next_after_read(const struct copy *copy)
{
    if (copy->wish.is_comparison) {
        return read_other;
    }
    return copy->to->is_stream ? write_in_turn : write_out;
}

static void step_begin(struct step *step)
{
    struct copy *copy = step->copy;
    uint64_t left = copy->len - copy->at;
    step->piece = (struct piece){.data = step->data,
                                 .offset = copy->at,
                                 .len = left < copy->piece_len ? (uint32_t)left : copy->piece_len,
                                 .context = step};
    step->place = copy->from;
    step->next = next_after_read(copy);
    step->is_out = true;
    copy->at += step->piece.len;
    copy->out_count++;
    if (!copy->wish.is_comparison &&
        place_is_zero(copy->from, step->piece.offset, step->piece.len)) {
        place_read_zeroes(copy->from, &step->piece);
    } else {
        place_read(copy->from, &step->piece);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

// In whole blocks of both.
static uint32_t piece_len_of(const struct copy *copy)
{
    uint32_t len = PIECE_LEN, block = block_len_of(copy);
    const struct copy_place *places[] = {copy->from, copy->to};
    for (unsigned i = 0; i < 2; i++) {
        len = places[i]->piece_max < len ? places[i]->piece_max : len;
    }
    return len > block ? len - len % block : block;
}

static int copy_init(struct copy *copy)
{
    unsigned depth = copy->wish.depth;
    unsigned buffers = copy->wish.is_comparison ? 2 : 1;
    copy->exact_len = copy->from->len;
    copy->len = len_of(copy);
    copy->piece_len = piece_len_of(copy);
    copy->steps = calloc(depth, sizeof *copy->steps);
    copy->memory = aligned_alloc(MEMORY_ALIGNMENT, (size_t)depth * buffers * copy->piece_len);
    if (copy->steps == NULL || copy->memory == NULL) {
        copy->report->error = -ENOMEM;
        copy->report->error_place = copy->from;
        return -1;
    }
    for (unsigned i = 0; i < depth; i++) {
        struct step *step = &copy->steps[i];
        step->copy = copy;
        step->data = copy->memory + (size_t)i * buffers * copy->piece_len;
        step->other = step->data + (buffers - 1) * copy->piece_len;
    }
    return 0;
}

// Memory that the usual way reaches is registered once; for one-shot this does nothing.
static void memory_lend(struct copy *copy)
{
    unsigned buffers = copy->wish.is_comparison ? 2 : 1;
    struct copy_place *places[] = {copy->from, copy->to};
    for (unsigned i = 0; i < 2; i++) {
        if (places[i]->is_volume) {
            volume_lend(&places[i]->volume, copy->memory,
                        (size_t)copy->wish.depth * buffers * copy->piece_len);
        }
    }
}

static void memory_take_back(struct copy *copy)
{
    struct copy_place *places[] = {copy->from, copy->to};
    for (unsigned i = 0; i < 2; i++) {
        if (places[i]->is_volume) {
            volume_take_back(&places[i]->volume, copy->memory);
        }
    }
}

static void pieces_start(struct copy *copy)
{
    for (unsigned i = 0; i < copy->wish.depth && !copy->is_bad && copy->at < copy->len; i++) {
        if (!copy->steps[i].is_out) {
            step_begin(&copy->steps[i]);
        }
    }
}

static bool pieces_go_on(struct copy_place *place)
{
    struct piece *piece = place_ended(place);
    bool has_ended = piece != NULL;
    for (; piece != NULL; piece = place_ended(place)) {
        on_ended(piece);
    }
    return has_ended;
}

// With two volumes, whichever has something to say is heard in turn.
static void pieces_await(struct copy *copy)
{
    if (copy->from->is_volume && copy->to->is_volume) {
        place_wait_for(copy->from, 1);
        place_wait_for(copy->to, 0);
    } else if (copy->from->is_volume || copy->to->is_volume) {
        place_wait(copy->from->is_volume ? copy->from : copy->to);
    }
}

int copy_run(struct copy_place *from, struct copy_place *to, const struct copy_wish *wish,
             struct progress *progress, struct copy_report *ret)
{
    struct copy copy = {.from = from, .to = to, .wish = *wish, .progress = progress, .report = ret};
    *ret = (struct copy_report){0};
    int result = copy_init(&copy);
    if (result == 0) {
        memory_lend(&copy);
        while (copy.out_count > 0 || (copy.at < copy.len && !copy.is_bad)) {
            pieces_start(&copy);
            bool has_read = pieces_go_on(from), has_written = pieces_go_on(to);
            if (!has_read && !has_written && copy.out_count > 0) {
                pieces_await(&copy);
            }
        }
        memory_take_back(&copy);
    }
    free(copy.steps);
    free(copy.memory);
    return copy.is_bad ? -1 : result;
}
