// CRC32C (Castagnoli), the check of FPDUs (RFC 5044 section 4.4) and of iSCSI digests (RFC 3720
// section 12.1), computed by ISA-L.
//
// A running state starts at crc32c_init(), goes through crc32c_update() for each run of octets in
// order, and becomes the check value in crc32c_final(). States and values are host integers; on
// the wire the value stands least significant octet first (crc32c_put), as the annotated frame of
// RFC 5044 figure 5 shows.
#pragma once

#include <isa-l/crc.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/isal.h"

enum { CRC32C_LEN = 4 };

static inline uint32_t crc32c_init(void)
{
    return 0xffffffffU;
}

// Carries `state` on over `len` octets (at most 2^31 - 1, far above any FPDU). No alignment needed.
static inline uint32_t crc32c_update(uint32_t state, const void *octets, size_t len)
{
    state = crc32_iscsi((unsigned char *)octets, (int)len, state);
    isal_leave_vectors(len);
    return state;
}

static inline uint32_t crc32c_final(uint32_t state)
{
    return ~state;
}

// The check value of one run of octets.
static inline uint32_t crc32c(const void *octets, size_t len)
{
    return crc32c_final(crc32c_update(crc32c_init(), octets, len));
}

static inline void crc32c_put(uint8_t *p, uint32_t value)
{
    put_le32(p, value);
}

static inline uint32_t crc32c_get(const uint8_t *p)
{
    return get_le32(p);
}
