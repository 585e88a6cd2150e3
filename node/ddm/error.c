// error: lets some commands fail.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "node/ddm/drivers.h"
#include "node/ddm/filter.h"
#include "node/ddm/parameters.h"
#include "node/interface/request.h"
#include "node/interface/rta_ddm.h"

enum { ALL = 1000000 };

struct error {
    struct ddm ddm;
    struct prng prng;
    uint32_t share[NODE_DEVICE_OPERATION_COUNT]; // in millionths
    enum node_completion completion;
    char *file; // only while it exists; NULL: always
};

static const char *const keys[] = {"error",    "error.read", "error.write", "error.flush",
                                   "error.as", "error.file", "error.seed",  NULL};

static int shares(const struct ddm_target *target, struct error *e, struct why *ret_why)
{
    uint32_t all, read, write, flush;
    bool is_specific = parameter_find(target, "error.read") != NULL ||
                       parameter_find(target, "error.write") != NULL ||
                       parameter_find(target, "error.flush") != NULL;
    all = is_specific ? 0 : ALL;
    int error = parameter_share(target, "error", &all, ret_why);
    read = write = flush = all;
    if (error != 0 || (error = parameter_share(target, "error.read", &read, ret_why)) != 0 ||
        (error = parameter_share(target, "error.write", &write, ret_why)) != 0 ||
        (error = parameter_share(target, "error.flush", &flush, ret_why)) != 0) {
        return error;
    }
    for (unsigned i = 0; i < NODE_DEVICE_OPERATION_COUNT; i++) {
        e->share[i] = all;
    }
    e->share[NODE_READ] = read;
    e->share[NODE_WRITE] = write;
    e->share[NODE_FLUSH] = flush;
    return 0;
}

static int outcome(const struct ddm_target *target, struct error *e, struct why *ret_why)
{
    static const char *const words[] = {"media", "retry", "no-space", "unsupported", NULL};
    static const enum node_completion outcomes[] = {NODE_MEDIA, NODE_RETRY, NODE_NO_SPACE,
                                                    NODE_UNSUPPORTED};
    unsigned word = 0;
    uint64_t seed = 1;
    int error = parameter_word(target, "error.as", words, &word, ret_why);
    if (error == 0) {
        error = parameter_size(target, "error.seed", &seed, ret_why);
    }
    e->completion = outcomes[word];
    prng_init(&e->prng, seed);
    return error;
}

static void error_close(struct ddm *ddm)
{
    free(((struct error *)ddm)->file);
    filter_close(ddm);
}

static int error_open(const struct ddm_target *target, const struct ddm_host *host,
                      struct ddm *next, struct ddm **ret, struct why *ret_why)
{
    struct ddm *ddm = filter_create(sizeof(struct error), &ddm_error, host, next);
    struct error *e = (struct error *)ddm;
    if (e == NULL) {
        return -ENOMEM;
    }
    const char *file = parameter_find(target, "error.file");
    int error = shares(target, e, ret_why);
    if (error == 0) {
        error = outcome(target, e, ret_why);
    }
    if (error == 0 && file != NULL) {
        e->file = strdup(file);
        error = e->file == NULL ? -ENOMEM : 0;
    }
    if (error != 0) {
        free(e); // the next one stays the caller's
        return error;
    }
    *ret = ddm;
    return 0;
}

static int error_submit(struct ddm *ddm, struct ddm_command *command)
{
    struct error *e = (struct error *)ddm;
    bool is_on = e->file == NULL || access(e->file, F_OK) == 0;
    if (is_on && prng_below(&e->prng, ALL) < e->share[command->operation]) {
        ddm_command_finish(command, e->completion, EIO);
        return 0;
    }
    return filter_submit(ddm, command);
}

// Whether its file is there.
static const char *const calls[] = {"access", "faccessat", "faccessat2", NULL};

const struct ddm_driver ddm_error = {
    .version = DDM_VERSION,
    .self_size = sizeof(struct ddm_driver),
    .name = "error",
    .summary = "lets some commands fail",
    .fence = "that of the next",
    .parameters = keys,
    .is_filter = true,
    .calls = calls,
    .open = error_open,
    .probe = filter_probe,
    .submit = error_submit,
    .flush_queue = filter_flush_queue,
    .poll_fd = filter_poll_fd,
    .next_deadline = filter_next_deadline,
    .poll = filter_poll,
    .drain = filter_drain,
    .close = error_close,
};
