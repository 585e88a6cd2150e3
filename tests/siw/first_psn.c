// Stands before libc where a program draws its first PSN with lrand48(): ibv_*_pingpong, perftest.

#include <stdlib.h>

enum { FIRST_PSN = 0xfffff0 };

long lrand48(void)
{
    return FIRST_PSN;
}
