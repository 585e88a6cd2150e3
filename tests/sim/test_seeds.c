// The simulator over streams: the kernel's TCP as it may behave, and our own over packets.
#include "tests/sim/seeds.h"

int main(int argc, char **argv)
{
    return seeds_main(argc, argv, SIM_WIRE_IWARP);
}
