#include "mem/verdict.h"

#include "base/check.h"

static const char *const verdict_names[MEM_VERDICT_COUNT] = {
    [MEM_OK] = "ok",
    [MEM_INVALID_STAG] = "invalid STag",
    [MEM_WRONG_PD] = "wrong protection domain",
    [MEM_WRONG_QP] = "wrong queue pair",
    [MEM_BOUNDS] = "base or bounds violation",
    [MEM_WRAP] = "tagged offset wraps",
    [MEM_ACCESS] = "access not granted",
    [MEM_CANNOT_INVALIDATE] = "STag cannot be invalidated",
    [MEM_WINDOW_STATE] = "window cannot be bound now",
    [MEM_UNMAPPED] = "memory not mapped",
    [MEM_LOCAL_ELEMENT] = "local scatter element refused",
};

const char *mem_verdict_name(enum mem_verdict verdict)
{
    CHECK(verdict < MEM_VERDICT_COUNT);
    return verdict_names[verdict];
}
