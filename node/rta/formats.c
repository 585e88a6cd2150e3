#include "node/rta/formats.h"

#include <errno.h>

#include "node/interface/request.h"

enum node_completion io_format_unanswered(int error)
{
    switch (-error) {
    case EAGAIN:
    case EBUSY:
    case ECONNRESET:
    case EINTR:
    case ENOMEM:
    case ENOTCONN:
    case ETIMEDOUT:
        return NODE_RETRY;
    case EBADE:
        return NODE_RESERVED;
    case ENODEV:
    case ENXIO:
        return NODE_NO_VOLUME;
    case EACCES:
    case EPERM:
    case EROFS:
        return NODE_READ_ONLY;
    case EOPNOTSUPP:
        return NODE_UNSUPPORTED;
    default:
        return NODE_MEDIA;
    }
}
