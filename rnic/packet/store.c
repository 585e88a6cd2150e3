// Room for packets that came too early, which all queue pairs of a device share.

#include <errno.h>

#include "rnic/packet/packet.h"
#include "roce/rc_store.h"

int packet_store_init(struct packet_side *p)
{
    p->store = rc_store_create(RC_STORE_BLOCKS);
    return p->store != NULL ? 0 : -ENOMEM;
}

void packet_store_fini(struct packet_side *p)
{
    rc_store_destroy(p->store);
}
