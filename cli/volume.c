#include "cli/volume.h"

#include <string.h>

#include "base/list.h"
#include "cli/say.h"

static const struct volume_protocol *const protocols[] = {&volume_nvme, &volume_nbd,
                                                          &volume_driver};

enum { PROTOCOL_COUNT = sizeof protocols / sizeof protocols[0] };

static const struct volume_protocol *protocol_find(const char *text)
{
    for (unsigned i = 0; i < PROTOCOL_COUNT; i++) {
        for (const char *const *scheme = protocols[i]->schemes; *scheme != NULL; scheme++) {
            if (strncmp(text, *scheme, strlen(*scheme)) == 0) {
                return protocols[i];
            }
        }
    }
    return NULL;
}

// NVMe has a word for what is of none; a volume of its with parameters, as several paths are, is
// the driver's.
static const struct volume_protocol *protocol_of(const char *uri)
{
    const struct volume_protocol *protocol = protocol_find(uri);
    if (protocol == &volume_nvme && strchr(uri, '?') != NULL) {
        return &volume_driver;
    }
    return protocol != NULL ? protocol : &volume_nvme;
}

bool volume_is_uri(const char *text)
{
    return protocol_find(text) != NULL;
}

int volume_check(const char *command, const char *uri, bool is_one)
{
    struct why why;
    return protocol_of(uri)->check(uri, is_one, &why) == 0
               ? 0
               : say_usage(command, "%s: %s", uri, why.text);
}

int volume_open(const char *uri, unsigned depth, struct volume *ret)
{
    struct why why;
    *ret = (struct volume){.protocol = protocol_of(uri)};
    list_init(&ret->ended);
    int error = ret->protocol->open(ret, uri, depth, &why);
    if (error != 0) {
        const struct volume_protocol *protocol = ret->protocol;
        volume_close(ret);
        return volume_say_failed("cannot use the volume", uri, protocol->remedy(error), why.text);
    }
    return 0;
}

void volume_close(struct volume *volume)
{
    if (volume->protocol != NULL) {
        volume->protocol->close(volume);
        volume->protocol = NULL;
    }
}

int volume_list(const char *uri, volume_seen *seen, void *context)
{
    struct volume volume;
    if (protocol_of(uri)->list != NULL) {
        return protocol_of(uri)->list(uri, seen, context);
    }
    int result = volume_open(uri, 0, &volume);
    if (result == 0) {
        seen(context, &volume.facts);
        volume_close(&volume);
    }
    return result;
}

int volume_submit(struct volume *volume, struct volume_io *io)
{
    return volume->protocol->submit(volume, io);
}

int volume_wait(struct volume *volume, int timeout_ms)
{
    return volume->protocol->wait(volume, timeout_ms);
}

struct volume_io *volume_ended(struct volume *volume)
{
    struct list_link *link = list_pop_head(&volume->ended);
    return link != NULL ? LIST_ENTRY(link, struct volume_io, link) : NULL;
}

bool volume_is_zero(struct volume *volume, uint64_t offset, uint32_t len)
{
    return volume->protocol->is_zero != NULL && volume->protocol->is_zero(volume, offset, len);
}

void volume_lend(struct volume *volume, void *data, size_t len)
{
    if (volume->protocol->lend != NULL) {
        volume->protocol->lend(volume, data, len);
    }
}

void volume_take_back(struct volume *volume, void *data)
{
    if (volume->protocol->take_back != NULL) {
        volume->protocol->take_back(volume, data);
    }
}
