#include "node/ddm/registry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/ddm/drivers.h"
#include "node/ddm/uri.h"
#include "node/module/module.h"

static const struct ddm_driver *const drivers[] = {
    &ddm_file,       &ddm_null, &ddm_ram,  &ddm_nvme,   &ddm_nvme_tcp, &ddm_iscsi,
    &ddm_iscsi_rdma, &ddm_sg,   &ddm_ata,  &ddm_module, &ddm_rbd,      &ddm_delay,
    &ddm_error,      &ddm_log,  &ddm_lose, NULL,
};

const struct ddm_driver *const *ddm_registry(void)
{
    return drivers;
}

static const struct ddm_driver *driver_find(const char *name)
{
    for (const struct ddm_driver *const *d = drivers; *d != NULL; d++) {
        bool is_known = (*d)->version == DDM_VERSION && (*d)->self_size == sizeof **d;
        if (is_known && strcmp((*d)->name, name) == 0) {
            return *d;
        }
    }
    return NULL;
}

// 0, and the drivers of the chain, the outermost first.
static int chain_find(const struct uri *uri, const struct ddm_driver **ret, struct why *ret_why)
{
    for (unsigned i = 0; i < uri->scheme_count; i++) {
        bool is_last = i + 1 == uri->scheme_count;
        ret[i] = driver_find(uri->schemes[i]);
        if (ret[i] == NULL || ret[i]->is_filter == is_last) {
            why_say(ret_why, "there is no %s %.64s", is_last ? "driver" : "filter",
                    uri->schemes[i]);
            return -ENODEV;
        }
    }
    for (unsigned p = 0; p < uri->parameter_count; p++) {
        bool is_known = false;
        for (unsigned i = 0; i < uri->scheme_count; i++) {
            is_known |=
                ret[i]->takes_all || ddm_keys_have(ret[i]->parameters, uri->parameters[p].key);
        }
        if (!is_known) {
            why_say(ret_why, "there is no parameter %.64s", uri->parameters[p].key);
            return -EINVAL;
        }
    }
    return 0;
}

bool ddm_registry_knows(const char *text, struct why *ret_why)
{
    struct uri uri;
    const struct ddm_driver *chain[URI_SCHEME_MAX];
    return uri_parse(text, &uri, ret_why) == 0 && chain_find(&uri, chain, ret_why) == 0;
}

bool ddm_registry_can_stand_by(const char *text, struct why *ret_why)
{
    struct uri uri;
    const struct ddm_driver *chain[URI_SCHEME_MAX];
    if (uri_parse(text, &uri, ret_why) != 0 || chain_find(&uri, chain, ret_why) != 0) {
        return false;
    }
    const struct ddm_driver *last = chain[uri.scheme_count - 1];
    if (!last->can_stand_by) {
        why_say(ret_why,
                "%s: it cannot stand by: nothing tells it that another node has the device",
                last->name);
    }
    return last->can_stand_by;
}

// Is the parameter for the driver at `index` of the chain?
static bool is_for(const struct ddm_driver *const *chain, unsigned count, unsigned index,
                   const char *key)
{
    bool is_others = false;
    for (unsigned i = 0; i < count; i++) {
        is_others |= i != index && ddm_keys_have(chain[i]->parameters, key);
    }
    return ddm_keys_have(chain[index]->parameters, key) || (chain[index]->takes_all && !is_others);
}

static int chain_open(const struct uri *uri, const struct ddm_driver *const *chain,
                      const struct ddm_host *host, struct ddm **ret, struct why *ret_why)
{
    struct ddm *next = NULL;
    for (unsigned i = uri->scheme_count; i > 0; i--) {
        struct ddm_parameter its[URI_PARAMETER_MAX];
        struct ddm_target target = {.object = uri->object, .parameters = its};
        for (unsigned p = 0; p < uri->parameter_count; p++) {
            if (is_for(chain, uri->scheme_count, i - 1, uri->parameters[p].key)) {
                its[target.parameter_count++] = uri->parameters[p];
            }
        }
        struct ddm *ddm = NULL;
        int error = chain[i - 1]->open(&target, host, next, &ddm, ret_why);
        if (error != 0) {
            if (next != NULL) {
                ddm_free(next);
            }
            return error;
        }
        next = ddm;
    }
    *ret = next;
    return 0;
}

// 0, and the drivers that are to be asked.
static int chain_choose(const char *text, bool is_in_host, struct uri *ret_uri,
                        const struct ddm_driver **ret, struct why *ret_why)
{
    int error = uri_parse(text, ret_uri, ret_why);
    if (error == 0) {
        error = chain_find(ret_uri, ret, ret_why);
    }
    if (error != 0) {
        return error;
    }
    const struct ddm_driver *last = ret[ret_uri->scheme_count - 1];
    if (is_in_host && last->needs_process) {
        why_say(ret_why,
                "%s: it is never loaded into the host's own process: serve it with "
                "--rta=each or --rta=one",
                last->name);
        return -EINVAL;
    }
    return 0;
}

static int registry_open(const char *text, bool is_in_host, const struct ddm_host *host,
                         struct ddm **ret, struct why *ret_why)
{
    struct uri uri;
    const struct ddm_driver *chain[URI_SCHEME_MAX];
    int error = chain_choose(text, is_in_host, &uri, chain, ret_why);
    if (error == 0) {
        return chain_open(&uri, chain, host, ret, ret_why);
    }
    if (host->keepsake >= 0) {
        close(host->keepsake); // no driver has it
    }
    return error;
}

int ddm_registry_open(const char *uri, const struct ddm_host *host, struct ddm **ret,
                      struct why *ret_why)
{
    return registry_open(uri, false, host, ret, ret_why);
}

int ddm_registry_open_in_host(const char *uri, const struct ddm_host *host, struct ddm **ret,
                              struct why *ret_why)
{
    return registry_open(uri, true, host, ret, ret_why);
}
