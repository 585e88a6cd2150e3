// The units of a session: which there are, by number, and that they have changed.

#include "base/list.h"
#include "format/scsi.h"
#include "node/scsi/agent.h"
#include "node/scsi/device.h"

void it_nexus_begin(struct it_nexus *it)
{
    list_init(&it->nexuses);
    it->nowhere = (struct nexus){.it = it};
    list_init(&it->nowhere.tasks);
}

struct nexus *it_nexus_find(struct it_nexus *it, uint64_t lun)
{
    uint32_t number;
    if (!scsi_lun_parse(lun, &number)) {
        return &it->nowhere;
    }
    for (struct list_link *l = it->nexuses.next; l != &it->nexuses; l = l->next) {
        struct nexus *nexus = LIST_ENTRY(l, struct nexus, beside);
        if (nexus->lun == number) {
            return nexus;
        }
    }
    return &it->nowhere;
}

// Who has yet to hear of the power on looks for units then.
static void tell(struct it_nexus *it)
{
    for (struct list_link *l = it->nexuses.next; l != &it->nexuses; l = l->next) {
        struct nexus *nexus = LIST_ENTRY(l, struct nexus, beside);
        if ((nexus->attentions & (1U << SCSI_ATTENTION_POWER_ON)) == 0) {
            nexus->attentions |= 1U << SCSI_ATTENTION_UNITS;
        }
    }
}

void it_nexus_add(struct nexus *nexus)
{
    struct list_link *all = &nexus->it->nexuses, *before = all->next;
    while (before != all && LIST_ENTRY(before, struct nexus, beside)->lun < nexus->lun) {
        before = before->next;
    }
    list_push_tail(before, &nexus->beside); // which is: in front of it
    tell(nexus->it);
}

void nexus_leave(struct nexus *nexus)
{
    list_remove(&nexus->beside);
    tell(nexus->it);
}

void it_nexus_units_read(struct it_nexus *it)
{
    for (struct list_link *l = it->nexuses.next; l != &it->nexuses; l = l->next) {
        LIST_ENTRY(l, struct nexus, beside)->attentions &= ~(1U << SCSI_ATTENTION_UNITS);
    }
}
