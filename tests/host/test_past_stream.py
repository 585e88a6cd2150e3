#!/usr/bin/env python3
"""Two processes that write to each other and spin on memory, or of which one reads: that goes past
the stream, and through the ring without WEFT_PUSH and WEFT_PULL."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ['WEFT_BUILD_DIR'])
ROUND_TRIPS = 50
# Beside other work the thread may be first at each Read of so short a time, and no program comes
# for it: what can go past the stream does so in one of a few runs.
ATTEMPTS = 5


WRITES = ('latency', 'write', str(ROUND_TRIPS)), 'local.pushes'
READS = ('read', '65536', '0.2'), 'local.pulls'


def counted(what, **settings):
    """What those of both processes that end in order counted, but for those that read nothing."""
    words, counter = what
    with tempfile.TemporaryDirectory() as scratch:
        environment = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'lib'), 'WEFT_WIRE': 'iwarp',
                       'WEFT_STATS_FILE': f'{scratch}/%p', **settings}
        subprocess.run([BUILD / 'bench' / 'bench-verbs', *words],
                       env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
        files = list(pathlib.Path(scratch).iterdir())
        devices = [json.loads(file.read_text().splitlines()[0])['weft0'] for file in files]
    for device in devices:  # what the link counts, queue pairs count too
        by_pairs = device['qps_total'].get('pushed_writes', 0)
        assert by_pairs == device['packets']['local.pushes'], device
    return [device['packets'][counter] for device in devices
            if what is WRITES or device['reads']['first_requests'] > 0]


def main():
    cases = (
        ('Writes go past the stream', WRITES, {}, True),
        ('and through the ring where that is wanted', WRITES, {'WEFT_PUSH': 'off'}, False),
        ('or where a CRC is insisted on', WRITES, {'WEFT_CRC': 'on'}, False),
        ('Reads go past the stream', READS, {}, True),
        ('and through the ring where that is wanted', READS, {'WEFT_PULL': 'off'}, False),
        ('or where a CRC is insisted on', READS, {'WEFT_CRC': 'on'}, False))
    failed = False
    print(f'1..{len(cases)}')
    for number, (name, what, settings, wanted) in enumerate(cases, 1):
        for _ in range(ATTEMPTS if wanted else 1):
            counts = counted(what, **settings)
            holds = len(counts) > 0 and all((count > 0) == wanted for count in counts)
            if holds:
                break
        failed |= not holds
        print(f"{'ok' if holds else 'not ok'} {number} {name}: {counts}")
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
