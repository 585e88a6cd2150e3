// What both checks that ISA-L computes have in common (wire/crc32c.h, wire/icrc.h).
#pragma once

#include <stddef.h>

// Behind each call into ISA-L over `len` octets. ISA-L 2.30 returns from its vector code with the
// upper halves of the vector registers in use; every SSE instruction after that is slow, here and
// in the whole program (measured: 110 ns more per FPDU of 1400 octets). It takes vectors from 256
// octets on.
enum { ISAL_VECTOR_LEN = 256 };

static inline void isal_leave_vectors(size_t len)
{
#if defined(__x86_64__)
    if (len >= ISAL_VECTOR_LEN && __builtin_cpu_supports("avx")) {
        __asm__ volatile("vzeroupper" ::: "memory");
    }
#else
    (void)len;
#endif
}
