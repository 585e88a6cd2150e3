// What a multicast group has of an id: its queue pair, from when the program is told that it has
// joined until one of them goes.

#include <string.h>

#include "cm/cm.h"

// A program that takes its own queue pair out of the id sees to that one itself.
static bool is_attached(const struct cm_id *c, const struct cm_group *group)
{
    return group->qp != NULL && group->qp == c->id.qp;
}

// The id may have joined it twice: its queue pair has it as long as one of them stays.
static bool is_joined_by_another(const struct cm_id *c, const struct cm_group *group)
{
    for (struct list_link *l = c->groups.next; l != &c->groups; l = l->next) {
        const struct cm_group *other = LIST_ENTRY(l, struct cm_group, link);
        if (other != group && is_attached(c, other) &&
            memcmp(&other->gid, &group->gid, sizeof group->gid) == 0) {
            return true;
        }
    }
    return false;
}

int cm_group_detach(struct cm_id *c, struct cm_group *group)
{
    const bool is_last = is_attached(c, group) && !is_joined_by_another(c, group);
    int error = is_last ? ibv_detach_mcast(group->qp, &group->gid, 0) : 0;
    group->qp = NULL;
    return error;
}

void cm_groups_detach(struct cm_id *c)
{
    for (struct list_link *l = c->groups.next; l != &c->groups; l = l->next) {
        cm_group_detach(c, LIST_ENTRY(l, struct cm_group, link));
    }
}

// The queue pair that the id has now receives what comes to the group; who only sends needs none.
void cm_group_tell(struct cm_id *c, struct cm_event *event)
{
    struct cm_group *group = event->group;
    if (group->receives && c->id.qp != NULL) {
        int error = ibv_attach_mcast(c->id.qp, &group->gid, 0);
        if (error == 0) {
            group->qp = c->id.qp;
        } else {
            event->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
            event->event.status = -error;
        }
    }
    cm_lock();
    group->is_being_told = false;
    cm_signal();
    cm_unlock();
}
