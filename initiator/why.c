// Reasons: a struct why inside, octets of the program's at the public door.

#include "initiator/agent.h"

int initiator_why(struct why *ret_why, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    why_say_args(ret_why, format, args);
    va_end(args);
    return error;
}

int initiator_tell(char *ret, const struct why *why, int result)
{
    if (ret != NULL && why_is_said(why)) {
        snprintf(ret, WEFT_NVME_WHY_MAX, "%.*s", WEFT_NVME_WHY_MAX - 1, why->text);
    }
    return result;
}
