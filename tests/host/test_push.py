#!/usr/bin/env python3
"""Two processes that write to each other and spin on memory: with WEFT_PUSH their Writes go past
the stream, without it through the ring."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ['WEFT_BUILD_DIR'])
ROUND_TRIPS = 50


def pushes(**settings):
    """What those of both processes that end in order counted: so many round trips, or five seconds
    of them."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'lib'), 'WEFT_WIRE': 'iwarp',
                       'WEFT_STATS_FILE': f'{scratch}/%p', **settings}
        subprocess.run([BUILD / 'bench' / 'bench-verbs', 'latency', 'write', str(ROUND_TRIPS)],
                       env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
        files = list(pathlib.Path(scratch).iterdir())
        counted = [json.loads(file.read_text().splitlines()[0])['weft0'] for file in files]
    return [device['packets']['local.pushes'] for device in counted]


def main():
    cases = (('Writes go past the stream where that is asked for', {'WEFT_PUSH': 'on'}, True),
             ('and through the ring where it is not', {'WEFT_PUSH': 'off'}, False),
             ('or where a CRC is insisted on', {'WEFT_PUSH': 'on', 'WEFT_CRC': 'on'}, False))
    failed = False
    print(f'1..{len(cases)}')
    for number, (name, settings, wanted) in enumerate(cases, 1):
        counted = pushes(**settings)
        holds = len(counted) > 0 and all((count > 0) == wanted for count in counted)
        failed |= not holds
        print(f"{'ok' if holds else 'not ok'} {number} {name}: {counted}")
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
