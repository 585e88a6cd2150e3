// One SGL descriptor: where a command's data are at the host.
#pragma once

#include <stdint.h>

#include "format/nvme_wire.h"

struct nvme_sgl {
    uint8_t id;       // enum nvme_sgl_id, or what else stood there
    uint64_t address; // keyed: at the host; in-capsule: octets behind the SQE
    uint32_t len;     // octets
    uint32_t key;     // keyed: as a host integer, the STag of the host's region
};

// Which descriptors a transport has.
enum nvme_sgl_kind {
    NVME_SGL_KIND_IN_CAPSULE = 1 << 0,
    NVME_SGL_KIND_KEYED = 1 << 1,
    NVME_SGL_KIND_TRANSPORT = 1 << 2,
};

// Takes the descriptor at `at` (NVME_SGL_LEN octets) apart, whatever it says.
struct nvme_sgl nvme_sgl_parse(const uint8_t *at);
void nvme_sgl_emit(uint8_t *at, const struct nvme_sgl *sgl);

// Can `data_len` octets of data be moved by it, on a transport with `kinds`, in a capsule with
// `in_capsule_len` octets of data? NVME_OK, or the status that refuses it. A descriptor may have
// more room than the data need, not less; without data none is needed.
enum nvme_status nvme_sgl_check(const struct nvme_sgl *sgl, unsigned kinds, uint32_t in_capsule_len,
                                uint32_t data_len);
