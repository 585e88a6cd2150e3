#include "examples/initiator.h"

#include <string.h>

static uint32_t block_count(const struct initiator *i)
{
    return i->options.command_len / ISCSI_BLOCK_LEN;
}

static uint8_t *memory_of(const struct initiator *i, const struct initiator_command *c)
{
    return i->memory + (size_t)c->slot * i->options.command_len;
}

// The octet at `at` of a slot's blocks in one version.
static uint8_t octet_of(const struct initiator_command *c, uint32_t at)
{
    return (uint8_t)(at * 7 + (at >> 9) * 13 + c->slot * 31 + c->version * 101);
}

static void content_make(struct initiator *i, struct initiator_command *c)
{
    uint8_t *memory = memory_of(i, c);
    for (uint32_t at = 0; at < i->options.command_len; at++) {
        memory[at] = octet_of(c, at);
    }
}

static bool content_is_right(const struct initiator *i, const struct initiator_command *c)
{
    const uint8_t *memory = memory_of(i, c);
    for (uint32_t at = 0; at < i->options.command_len; at++) {
        if (memory[at] != octet_of(c, at)) {
            return false;
        }
    }
    return true;
}

// The slot's memory as a scatter list of about equal pieces.
static void memory_cut(const struct initiator *i, struct initiator_command *c)
{
    uint32_t left = i->options.command_len;
    uint8_t *at = memory_of(i, c);
    c->memory_count = i->options.pieces;
    for (unsigned k = 0; k < c->memory_count; k++) {
        uint32_t len = left / (c->memory_count - k);
        c->memory[k] = (struct iovec){at, len};
        at += len;
        left -= len;
    }
}

void initiator_init(struct initiator *i, const struct initiator_options *options, uint8_t *memory)
{
    memset(i, 0, sizeof *i);
    i->options = *options;
    i->memory = memory;
    i->next_cmd_sn = 1;
    for (unsigned slot = options->depth; slot-- > 0;) { // the first is taken first
        i->idle[i->idle_count++] = slot;
        i->commands[slot].slot = slot;
        i->commands[slot].is_answered = true; // none is under way
        memory_cut(i, &i->commands[slot]);
    }
}

// Each slot writes its blocks, reads them back, writes the next version, and so on.
static void command_start(struct initiator *i, struct initiator_command *c)
{
    c->cmd_sn = i->next_cmd_sn++;
    c->is_write = !c->is_write;
    c->is_answered = false;
    c->version += c->is_write;
    if (i->options.verify && c->is_write) {
        content_make(i, c);
    } else if (i->options.verify) {
        memset(memory_of(i, c), 0, i->options.command_len);
    }
    const struct iscsi_command command = {
        .is_write = c->is_write,
        .task_tag = c->cmd_sn,
        .cmd_sn = c->cmd_sn,
        .exp_stat_sn = i->exp_stat_sn,
        .lba = (uint64_t)c->slot * block_count(i),
        .block_count = block_count(i),
    };
    iscsi_command_emit(&command, c->pdu);
    i->started++;
}

struct initiator_command *initiator_next(struct initiator *i)
{
    if (i->failure != NULL || i->idle_count == 0 || i->started == i->options.count) {
        return NULL;
    }
    struct initiator_command *c = &i->commands[i->idle[--i->idle_count]];
    command_start(i, c);
    return c;
}

static struct initiator_command *find(struct initiator *i, uint32_t cmd_sn)
{
    for (unsigned slot = 0; slot < i->options.depth; slot++) {
        if (i->commands[slot].cmd_sn == cmd_sn && !i->commands[slot].is_answered) {
            return &i->commands[slot];
        }
    }
    return NULL;
}

struct initiator_command *initiator_on_answer(struct initiator *i, const uint8_t *pdu, size_t len)
{
    struct iscsi_response response;
    if (!iscsi_response_parse(pdu, len, &response)) {
        i->failure = "a message that is no SCSI Response";
        return NULL;
    }
    struct initiator_command *c = find(i, response.task_tag);
    if (c == NULL) {
        i->failure = "a SCSI Response to no command";
        return NULL;
    }
    c->is_answered = true;
    c->status = response.status;
    i->exp_stat_sn = response.stat_sn + 1;
    return c;
}

void initiator_on_released(struct initiator *i, struct initiator_command *c)
{
    i->done++;
    i->idle[i->idle_count++] = c->slot;
    if (c->status != ISCSI_GOOD) {
        i->failure = "a command whose status is not GOOD";
    } else if (i->options.verify && !c->is_write && !content_is_right(i, c)) {
        i->failure = "blocks that are not what was written";
    }
}
