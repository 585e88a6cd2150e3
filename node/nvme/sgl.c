#include "node/nvme/sgl.h"

#include <stdbool.h>

#include "base/bytes.h"

static bool is_keyed(uint8_t id)
{
    return id == NVME_SGL_KEYED || id == NVME_SGL_KEYED_INVALIDATE;
}

struct nvme_sgl nvme_sgl_parse(const uint8_t *at)
{
    struct nvme_sgl sgl = {.id = at[NVME_SGL_OFF_ID],
                           .address = get_le64(at + NVME_SGL_OFF_ADDRESS),
                           .len = get_le32(at + NVME_SGL_OFF_LENGTH)};
    if (is_keyed(sgl.id)) {
        sgl.len &= NVME_SGL_KEYED_LENGTH_MAX;
        sgl.key = get_le32(at + NVME_SGL_OFF_KEY);
    }
    return sgl;
}

void nvme_sgl_emit(uint8_t *at, const struct nvme_sgl *sgl)
{
    memset(at, 0, NVME_SGL_LEN);
    put_le64(at + NVME_SGL_OFF_ADDRESS, sgl->address);
    put_le32(at + NVME_SGL_OFF_LENGTH, sgl->len);
    if (is_keyed(sgl->id)) {
        put_le32(at + NVME_SGL_OFF_KEY, sgl->key);
    }
    at[NVME_SGL_OFF_ID] = sgl->id;
}

static unsigned kind_of(uint8_t id)
{
    switch (id) {
    case NVME_SGL_IN_CAPSULE:
        return NVME_SGL_KIND_IN_CAPSULE;
    case NVME_SGL_KEYED:
    case NVME_SGL_KEYED_INVALIDATE:
        return NVME_SGL_KIND_KEYED;
    case NVME_SGL_TRANSPORT:
        return NVME_SGL_KIND_TRANSPORT;
    default:
        return 0;
    }
}

enum nvme_status nvme_sgl_check(const struct nvme_sgl *sgl, unsigned kinds, uint32_t in_capsule_len,
                                uint32_t data_len)
{
    if (data_len == 0) {
        return NVME_OK;
    }
    if ((kind_of(sgl->id) & kinds) == 0) {
        return NVME_INVALID_SGL_TYPE;
    }
    if (sgl->len < data_len) {
        return NVME_INVALID_SGL_LENGTH;
    }
    if (sgl->id == NVME_SGL_IN_CAPSULE) {
        if (sgl->address > in_capsule_len) {
            return NVME_INVALID_SGL_OFFSET;
        }
        return sgl->len <= in_capsule_len - sgl->address ? NVME_OK : NVME_INVALID_SGL_OFFSET;
    }
    // A range that wraps is no place.
    return sgl->address <= UINT64_MAX - data_len ? NVME_OK : NVME_INVALID_FIELD;
}
