// The simulator over packets of RoCEv2.
#include "tests/sim/seeds.h"

int main(int argc, char **argv)
{
    return seeds_main(argc, argv, SIM_WIRE_ROCE);
}
