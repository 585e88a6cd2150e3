#include "node/interface/request.h"

static const struct node_operation_facts facts[NODE_OPERATION_COUNT] = {
    [NODE_READ] = {.name = "read", .has_range = true, .moves_to_client = true},
    [NODE_WRITE] = {.name = "write",
                    .has_range = true,
                    .moves_to_device = true,
                    .changes = true,
                    .flags = NODE_FUA},
    [NODE_FLUSH] = {.name = "flush", .flags = NODE_FOR_READ},
    [NODE_TRIM] = {.name = "trim", .has_range = true, .changes = true, .flags = NODE_FUA},
    [NODE_WRITE_ZEROES] = {.name = "write zeroes",
                           .has_range = true,
                           .changes = true,
                           .flags = NODE_FUA | NODE_NO_HOLE | NODE_FAST_ONLY},
    [NODE_EXTENTS] = {.name = "extents", .has_range = true, .moves_to_client = true},
    [NODE_PROFILE] = {.name = "profile", .moves_to_client = true},
    [NODE_COMPARE] = {.name = "compare",
                      .has_range = true,
                      .moves_to_device = true,
                      .reads_first = true},
    [NODE_COMPARE_AND_WRITE] = {.name = "compare and write",
                                .has_range = true,
                                .moves_to_device = true,
                                .changes = true,
                                .reads_first = true,
                                .flags = NODE_FUA},
    [NODE_OR_WRITE] = {.name = "or write",
                       .has_range = true,
                       .moves_to_device = true,
                       .changes = true,
                       .reads_first = true,
                       .flags = NODE_FUA},
};

static const char *const completion_names[NODE_COMPLETION_COUNT] = {
    [NODE_OK] = "ok",
    [NODE_RETRY] = "retry",
    [NODE_MALFORMED] = "malformed",
    [NODE_RANGE] = "range",
    [NODE_UNSUPPORTED] = "unsupported",
    [NODE_READ_ONLY] = "read only",
    [NODE_NO_SPACE] = "no space",
    [NODE_MEDIA] = "media",
    [NODE_TRANSFER] = "transfer",
    [NODE_TIMED_OUT] = "timed out",
    [NODE_NO_VOLUME] = "no volume",
    [NODE_INTERNAL] = "internal",
    [NODE_RESERVED] = "reserved",
    [NODE_MISCOMPARE] = "miscompare",
    [NODE_STANDBY] = "standby",
};

const struct node_operation_facts *node_operation_facts(unsigned operation)
{
    return operation < NODE_OPERATION_COUNT ? &facts[operation] : NULL;
}

const char *node_completion_name(unsigned completion)
{
    return completion < NODE_COMPLETION_COUNT ? completion_names[completion] : "unknown";
}
