#include "node/interface/uma_tts.h"

static const char *const names[CONNECT_STATUS_COUNT] = {
    [CONNECT_OK] = "ok",
    [CONNECT_NO_VOLUME] = "no volume",
    [CONNECT_NOT_ALLOWED] = "not allowed",
    [CONNECT_NOT_READY] = "not ready",
    [CONNECT_TOO_MANY] = "too many connections",
    [CONNECT_REFUSED] = "refused",
};

const char *connect_status_name(enum connect_status status)
{
    return names[status];
}
