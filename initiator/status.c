// Statuses: their names in the specification, and what errno says the same.

#include <errno.h>
#include <stdio.h>

#include "initiator/agent.h"

struct status_facts {
    uint16_t status;
    int error;
    const char *name;
};

static const struct status_facts statuses[] = {
    {NVME_OK, 0, "Successful Completion"},
    {NVME_INVALID_OPCODE, EOPNOTSUPP, "Invalid Command Opcode"},
    {NVME_INVALID_FIELD, EINVAL, "Invalid Field in Command"},
    {NVME_CID_CONFLICT, EPROTO, "Command ID Conflict"},
    {NVME_DATA_TRANSFER_ERROR, EIO, "Data Transfer Error"},
    {NVME_INTERNAL_ERROR, EIO, "Internal Error"},
    {NVME_ABORT_REQUESTED, ECANCELED, "Command Abort Requested"},
    {NVME_ABORTED_SQ_DELETED, ECANCELED, "Aborted: SQ Deletion"},
    {NVME_INVALID_NAMESPACE, ENOENT, "Invalid Namespace"},
    {NVME_COMMAND_SEQUENCE_ERROR, EPROTO, "Command Sequence Error"},
    {NVME_INVALID_SGL_COUNT, EPROTO, "Invalid Number of SGLs"},
    {NVME_INVALID_SGL_LENGTH, EPROTO, "Data SGL Length Invalid"},
    {NVME_INVALID_SGL_TYPE, EPROTO, "SGL Type Invalid"},
    {NVME_INVALID_SGL_OFFSET, EPROTO, "SGL Offset Invalid"},
    {NVME_KEEP_ALIVE_EXPIRED, ETIMEDOUT, "Keep Alive Expired"},
    {NVME_KEEP_ALIVE_INVALID, EINVAL, "Keep Alive Invalid"},
    {NVME_NAMESPACE_READ_ONLY, EROFS, "Namespace Protected"},
    {NVME_TRANSIENT_TRANSPORT_ERROR, EIO, "Transport Error"},
    {NVME_LBA_OUT_OF_RANGE, ERANGE, "LBA Out of Range"},
    {NVME_CAPACITY_EXCEEDED, ENOSPC, "Capacity Exceeded"},
    {NVME_NAMESPACE_NOT_READY, EBUSY, "Namespace Not Ready"},
    {NVME_RESERVATION_CONFLICT, EBADE, "Reservation Conflict"},
    {NVME_INVALID_QUEUE_ID, EINVAL, "Invalid Queue Identifier"},
    {NVME_AER_LIMIT, EBUSY, "Async Event Limit"},
    {NVME_INVALID_LOG_PAGE, ENOENT, "Invalid Log Page"},
    {NVME_CONNECT_INCOMPATIBLE, EPROTO, "Incompatible Format"},
    {NVME_CONNECT_BUSY, EBUSY, "Controller Busy"},
    {NVME_CONNECT_INVALID, EINVAL, "Connect Invalid Parameters"},
    {NVME_CONNECT_INVALID_HOST, EACCES, "Connect Invalid Host"},
    {NVME_WRITE_FAULT, EIO, "Write Fault"},
    {NVME_UNRECOVERED_READ, EIO, "Unrecovered Read Error"},
    {NVME_PATH_INTERNAL_ERROR, EIO, "Internal Path Error"},
    {NVME_ANA_PERSISTENT_LOSS, ESHUTDOWN, "Asymmetric Access Persistent Loss"},
    {NVME_ANA_INACCESSIBLE, ESHUTDOWN, "Asymmetric Access Inaccessible"},
    {NVME_ANA_TRANSITION, ESHUTDOWN, "Asymmetric Access Transition"},
    {NVME_CONTROLLER_PATHING_ERROR, EIO, "Controller Pathing Error"},
    {NVME_HOST_PATHING_ERROR, EIO, "Host Pathing Error"},
    {NVME_ABORTED_BY_HOST, EIO, "Command Aborted By Host"},
};

static const struct status_facts *facts_of(uint16_t status)
{
    for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].status == status) {
            return &statuses[i];
        }
    }
    return NULL;
}

int initiator_status_errno(uint16_t status)
{
    const struct status_facts *facts = facts_of(status);
    return facts != NULL ? -facts->error : -EIO;
}

bool weft_nvme_is_path_status(uint16_t status)
{
    return (status & NVME_STATUS_TYPE_MASK) == NVME_STATUS_TYPE_PATH;
}

const char *weft_nvme_status_str(uint16_t status, char ret[32])
{
    const struct status_facts *facts = facts_of(status);
    if (facts != NULL) {
        return facts->name;
    }
    snprintf(ret, 32, "status 0x%03x", status);
    return ret;
}
