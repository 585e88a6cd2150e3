#include "examples/target.h"

#include <string.h>

void target_init(struct target *t, uint8_t *disk, uint64_t disk_len)
{
    memset(t, 0, sizeof *t);
    t->disk = disk;
    t->disk_len = disk_len;
    t->stat_sn = 1;
}

static struct target_task *task_take(struct target *t)
{
    for (unsigned i = 0; i < TARGET_TASK_MAX; i++) {
        if (!t->tasks[i].is_busy) {
            return &t->tasks[i];
        }
    }
    return NULL;
}

static bool is_on_disk(const struct target *t, const struct iscsi_command *c)
{
    uint64_t blocks = t->disk_len / ISCSI_BLOCK_LEN;
    return c->lba <= blocks && c->block_count <= blocks - c->lba && c->block_count > 0;
}

static void answer_make(struct target *t, struct target_task *task, enum iscsi_status status)
{
    const struct iscsi_response response = {
        .status = (uint8_t)status,
        .task_tag = task->command.task_tag,
        .stat_sn = t->stat_sn++,
        .exp_cmd_sn = task->command.cmd_sn + 1,
        .max_cmd_sn = task->command.cmd_sn + TARGET_TASK_MAX,
    };
    iscsi_response_emit(&response, task->answer);
}

struct target_task *target_on_command(struct target *t, const uint8_t *pdu, size_t len,
                                      struct target_memory memory)
{
    struct target_task *task = task_take(t);
    if (task == NULL || !iscsi_command_parse(pdu, len, &task->command)) {
        t->failure = task == NULL ? "more commands than MaxCmdSN allows"
                                  : "a message that is no SCSI Command";
        return NULL;
    }
    task->is_busy = true;
    task->memory = memory;
    if (!is_on_disk(t, &task->command)) {
        task->step = TARGET_ANSWER;
        answer_make(t, task, ISCSI_CHECK_CONDITION);
        return task;
    }
    task->blocks = t->disk + task->command.lba * ISCSI_BLOCK_LEN;
    task->len = task->command.block_count * ISCSI_BLOCK_LEN;
    task->step = task->command.is_write ? TARGET_PULL : TARGET_PUSH;
    if (task->step == TARGET_PUSH) {
        answer_make(t, task, ISCSI_GOOD);
    }
    return task;
}

void target_on_pulled(struct target *t, struct target_task *task)
{
    task->step = TARGET_ANSWER;
    answer_make(t, task, ISCSI_GOOD);
}

void target_on_answered(struct target *t, struct target_task *task)
{
    task->is_busy = false;
    t->done++;
}
