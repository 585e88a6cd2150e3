#!/usr/bin/env python3
"""What one idle connection more has of resident memory, by both ways that a connection within one
host can go: what 1,024 of them have beyond what 256 have, so that neither libraries nor tables
count."""

import json
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ['WEFT_BUILD_DIR'])
FEW, MANY = 256, 1024


def resident_kib(count, local):
    environment = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'lib'), 'WEFT_WIRE': 'iwarp',
                   'WEFT_LOCAL': local}
    environment.pop('MALLOC_PERTURB_', None)  # it writes into what nobody uses
    run = subprocess.run([BUILD / 'bench' / 'bench-scale', 'verbs', str(count), 'idle'],
                         env=environment, check=True, timeout=60, stdin=subprocess.DEVNULL,
                         capture_output=True)
    figures = json.loads(run.stdout)
    return count * (figures['client_kib'] + figures['server_kib']) / 2


def main():
    cases = ('in memory of both', 'on', 15), ('over TCP', 'off', 12)
    failed = False
    print(f'1..{len(cases)}')
    for number, (name, local, most_kib) in enumerate(cases, 1):
        each = (resident_kib(MANY, local) - resident_kib(FEW, local)) / (MANY - FEW)
        holds = 1 < each <= most_kib
        failed |= not holds
        print(f"{'ok' if holds else 'not ok'} {number} {name}: {each:.1f} of {most_kib} KiB")
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
