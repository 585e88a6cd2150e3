#!/usr/bin/env python3
"""One request of many octets over weft, every octet verified: 192 MiB each way, 6 GiB in make soak.

The program is that of the benchmarks. It makes and compares octets while they move, through rings
of 64 MiB that stand in for the whole length.
"""

import subprocess
import sys

sys.path.insert(0, __file__.rpartition('/')[0] + '/../judges')

from judge import BUILD, Tap, count  # noqa: E402  (found by the line above)

PROGRAM = BUILD / 'bench/bench-manager'
LENGTH = count(192 << 20, 6 << 30)
LIMIT_S = count(100, 600)


def main():
    tap = Tap()
    for way in ('write', 'read'):
        done = subprocess.run([PROGRAM, 'verify', way, str(LENGTH)], text=True, timeout=LIMIT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        tap.report(f'one {way} of {LENGTH >> 20} MiB',
                   [f'status {done.returncode}', done.stdout] if done.returncode else [])
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
