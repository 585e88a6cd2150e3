// Volumes as the operator wants them: at the start, and by each rescan.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/host/agent.h"
#include "node/host/config.h"

int host_volume_add(struct host *host, const struct volume_wish *wish)
{
    struct volume_wish placed = *wish;
    if (placed.unit[0] == '\0') {
        snprintf(placed.unit, sizeof placed.unit, "%s",
                 host->config->rta == HOST_RTA_EACH ? placed.name : "all");
    }
    return uma_volume_add(host->uma, &placed, loop_now(host->loop));
}

int host_volumes_add(struct host *host)
{
    for (size_t i = 0; i < host->config->volume_count; i++) {
        const struct volume_wish *wish = &host->config->volumes[i];
        int error = host_volume_add(host, wish);
        if (error == 0 && i < host->config->file_volume_count) {
            error = config_volume_add(&host->in_file, wish);
        }
        if (error != 0) {
            host_say_failure("cannot serve", wish->name, strerror(-error),
                             "give each volume a name of its own, and fewer of them");
            return error;
        }
    }
    return 0;
}

static const struct volume_wish *wish_find(const struct host_config *config, const char *name)
{
    for (size_t i = 0; i < config->volume_count; i++) {
        if (strcmp(config->volumes[i].name, name) == 0) {
            return &config->volumes[i];
        }
    }
    return NULL;
}

// What the file no longer has goes; what it has now comes.
int host_rescan(struct host *host, struct why *ret_why)
{
    instant_ns now = loop_now(host->loop);
    if (host->config->path != NULL) {
        struct host_config fresh = {0};
        int error = config_read(host->config->path, &fresh, ret_why);
        if (error != 0) {
            config_free(&fresh);
            return error;
        }
        for (size_t i = 0; i < host->in_file.volume_count; i++) {
            const char *name = host->in_file.volumes[i].name;
            if (wish_find(&fresh, name) == NULL) {
                uma_volume_remove(host->uma, name, now);
            }
        }
        for (size_t i = 0; i < fresh.volume_count; i++) {
            if (wish_find(&host->in_file, fresh.volumes[i].name) == NULL) {
                host_volume_add(host, &fresh.volumes[i]);
            }
        }
        config_free(&host->in_file);
        host->in_file = fresh;
    }
    uma_rescan(host->uma, now);
    return 0;
}
