// The namespaces that the program has asked about.

#include "initiator/agent.h"

const struct initiator_namespace_known *initiator_namespace_find(const struct weft_nvme *nvme,
                                                                 uint32_t nsid)
{
    for (unsigned i = 0; i < nvme->namespace_count; i++) {
        if (nvme->namespaces[i].nsid == nsid) {
            return &nvme->namespaces[i];
        }
    }
    return NULL;
}

bool initiator_namespace_keep(struct weft_nvme *nvme, const struct initiator_namespace_known *known)
{
    unsigned i = 0;
    while (i < nvme->namespace_count && nvme->namespaces[i].nsid != known->nsid) {
        i++;
    }
    if (i == NAMESPACE_MAX) {
        return false;
    }
    nvme->namespace_count += i == nvme->namespace_count;
    nvme->namespaces[i] = *known;
    return true;
}
