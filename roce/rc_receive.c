// Messages of the peer (roce/inbound.h): what cannot be done, in the words of RC.
#include "mem/table.h"
#include "mem/verdict.h"
#include "roce/inbound.h"
#include "roce/rc_internal.h"
#include "wq/status.h"

enum rc_refusal rc_receive_check(struct rc *rc, const struct roce_packet *p)
{
    return rc_refusal_of_memory(inbound_check_memory(&rc->resp.in, &rc->wq, rc_asker(rc), p));
}

// What does not fit ends the receive, and then the connection.
enum rc_refusal rc_receive_place(struct rc *rc, const struct roce_packet *p)
{
    struct inbound *in = &rc->resp.in;
    enum mem_verdict memory = MEM_OK;
    const struct inbound_placer placer = rc_ahead_placer(rc);
    rc_oneshot_note(rc, p);
    switch (inbound_place(in, &rc->wq, rc_asker(rc), p, placer.place != NULL ? &placer : NULL,
                          &memory)) {
    case INBOUND_OK:
    case INBOUND_MEMORY:
        break;
    case INBOUND_TOO_LONG:
        inbound_fail(in, &rc->wq, WC_LOC_LEN_ERR);
        return RC_REFUSED_TOO_LONG;
    case INBOUND_LOCAL:
        inbound_fail(in, &rc->wq, WC_LOC_PROT_ERR);
        return RC_REFUSED_LOCAL;
    }
    return rc_refusal_of_memory(memory);
}

enum rc_refusal rc_receive_end(struct rc *rc, const struct roce_packet *p)
{
    bool takes_back = (p->facts->headers & ROCE_HAS_IETH) != 0;
    enum rc_refusal refusal = takes_back ? rc_take_back(rc, p->ieth.rkey) : RC_ACCEPTED;
    if (refusal == RC_ACCEPTED) {
        inbound_end(&rc->resp.in, &rc->wq, p);
    }
    return refusal;
}
