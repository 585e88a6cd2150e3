#include "wq/read_task.h"

#include "base/check.h"

struct read_part read_task_next(const struct read_task *task, uint32_t allotment_len)
{
    uint64_t left_len = read_task_remaining_len(task) - task->outstanding_len;
    bool is_divided = task->kind == READ_KIND_READ && allotment_len > 0 && left_len > allotment_len;
    return (struct read_part){
        .offset = task->completed_len + task->outstanding_len,
        .length = is_divided ? allotment_len : (uint32_t)left_len,
    };
}

void read_task_request(struct read_task *task, uint32_t length)
{
    task->outstanding_len += length;
    task->outstanding_count++;
    task->request_count++;
    CHECK(read_task_check(task));
}

void read_task_answer(struct read_task *task, uint32_t length, uint32_t answered_len)
{
    CHECK(answered_len <= length);
    CHECK(task->outstanding_count > 0);
    task->outstanding_len -= answered_len;
    task->completed_len += answered_len;
    if (answered_len == length) {
        task->outstanding_count--;
    }
    CHECK(read_task_check(task));
}

bool read_task_check(const struct read_task *task)
{
    return task->completed_len <= task->initial_len &&
           task->outstanding_len <= read_task_remaining_len(task) &&
           (task->outstanding_len == 0 || task->outstanding_count > 0);
}
