// Any octets as what a target says of itself: Identify pages, the logs of discovery and of access.
// The first octet says what is asked for; the rest is what comes in answer to one admin command
// after the other, again from the start when it is used up.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "initiator/agent.h"

enum { LIST_LEN = 2000 };

static const uint8_t *answers;
static size_t answers_len, answers_at;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// In place of the queue to the target: identify.c alone is linked. An answer may be short.
int initiator_admin_demand(struct weft_nvme *nvme, const struct initiator_admin_command *command,
                           uint64_t *ret_result, struct why *ret_why)
{
    CHECK(command->data_len > 0 && command->data_len <= NVME_IDENTIFY_LEN && command->name != NULL);
    if (answers_len == 0) {
        return -EIO;
    }
    size_t len = answers_len - answers_at;
    len = len < command->data_len ? len : command->data_len;
    memcpy(nvme->admin_data, answers + answers_at, len);
    answers_at = (answers_at + len) % answers_len;
    return 0;
}

static bool is_text(const char *text, size_t capacity)
{
    const char *end = memchr(text, '\0', capacity);
    for (const char *c = text; end != NULL && c < end; c++) {
        if (*c < ' ' || *c > '~') {
            return false;
        }
    }
    return end != NULL;
}

static void discover(struct weft_nvme *nvme)
{
    struct weft_nvme_entry *entries = NULL;
    size_t count = 0;
    if (weft_nvme_discover(nvme, &entries, &count, NULL) != 0) {
        CHECK(entries == NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct weft_nvme_entry *e = &entries[i];
        CHECK(is_text(e->transport, sizeof e->transport) && is_text(e->kind, sizeof e->kind));
        CHECK(is_text(e->host, sizeof e->host) && is_text(e->port, sizeof e->port));
        CHECK(is_text(e->nqn, sizeof e->nqn));
    }
    free(entries);
}

static void identify(struct weft_nvme *nvme)
{
    struct weft_nvme_namespace ns;
    for (uint32_t nsid = 1; nsid <= 3; nsid++) {
        if (weft_nvme_identify(nvme, nsid, &ns, NULL) == 0) {
            CHECK(ns.block_len >= 512 && (ns.block_len & (ns.block_len - 1)) == 0);
            CHECK(ns.len > 0 && ns.len % ns.block_len == 0 && ns.nsid == nsid);
            const struct initiator_namespace_known *known = initiator_namespace_find(nvme, nsid);
            CHECK(known != NULL && known->len == ns.len);
        }
    }
}

static void list(struct weft_nvme *nvme)
{
    static uint32_t nsids[LIST_LEN];
    int count = weft_nvme_namespaces(nvme, nsids, LIST_LEN, NULL);
    CHECK(count <= LIST_LEN);
    for (int i = 1; i < count; i++) {
        CHECK(nsids[i] > nsids[i - 1]);
    }
}

static void controller(struct weft_nvme *nvme)
{
    struct why why;
    if (initiator_identify_controller(nvme, &why) == 0) {
        CHECK(is_text(nvme->info.nqn, sizeof nvme->info.nqn));
        CHECK(is_text(nvme->info.model, sizeof nvme->info.model));
        CHECK(nvme->info.transfer_max_len > 0);
        CHECK(nvme->access.room.iov_len <= ACCESS_LOG_MAX);
    }
    enum weft_nvme_access found = initiator_access_find(answers, answers_len, 1);
    CHECK((found >= WEFT_NVME_OPTIMIZED && found <= WEFT_NVME_UNREACHABLE) ||
          found == WEFT_NVME_CHANGING);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const asks[])(struct weft_nvme * nvme) = {discover, identify, list, controller};
    static uint8_t page[ADMIN_ROOM_LEN];
    static struct weft_nvme nvme;
    if (size == 0) {
        return 0;
    }
    memset(page, 0, sizeof page);
    memset(&nvme, 0, sizeof nvme);
    nvme.admin_data = page;
    nvme.attr.queue_count = data[0] >> 4;
    answers = data + 1;
    answers_len = size - 1;
    answers_at = 0;
    asks[data[0] % 4](&nvme);
    return 0;
}
