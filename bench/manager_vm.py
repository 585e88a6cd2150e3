#!/usr/bin/env python3
"""The RDMA manager beside a caller that posts its own work requests, where a call is one into the
kernel: on the Linux kernel's siw (iWARP) and rxe (RoCEv2) with the system's libibverbs, in the
virtual machine of tests/siw/vm.py, both ends in it.

manager.vm: as manager.coalesce, manager.join and, of 16 MiB, manager.large in manager.py; the
caller's own work requests in chains of 64, and one call for each. The machine's processor is
emulated, so what counts is the ratio.
"""

import json
import os
import pathlib
import sys
import tempfile

from results import BUILD, alternating, column, compare, note, pairs_wanted

sys.path.insert(0, str(pathlib.Path(os.environ['WEFT_SOURCE_DIR'], 'tests', 'siw')))

import vm  # noqa: E402  (found by the line above)

PROGRAM = BUILD / 'bench/bench-manager-system'
PAIRS = pairs_wanted(3)
ROUNDS = 5
LIMIT_S = 60
LARGE_LEN = 16 << 20
BASELINES = {'posts': 'own posts', 'singles': 'a call for each'}


def run(guest, *words):
    process = guest.start([PROGRAM, *words], {'WEFT_BENCH_ADDR': guest.addr},
                          LIMIT_S)
    status, output = process.wait(LIMIT_S + 5), process.output()
    if status != 0:
        raise RuntimeError(f'{" ".join(words)}: status {status}: {output}')
    return json.loads(output)


def coalesce(guest, device, what, way, places):
    found = alternating(PAIRS, {by: lambda by=by: run(guest, what, by, way, places, ROUNDS)
                                for by in ('manager', *BASELINES)})
    for key, unit in (('us', 'us'), ('descriptors', 'work requests'), ('calls', 'calls')):
        for by, baseline in BASELINES.items():
            case = f'{device}: {what}, {way} 4096 x 512 octets, {places}, {key}'
            compare('manager.vm', case, unit, column(found['manager'], key), baseline,
                    column(found[by], key), less_is_better=True)


def large(guest, device, way):
    found = alternating(PAIRS, {by: lambda by=by: run(guest, 'large', by, way, LARGE_LEN)
                                for by in ('manager', 'posts')})
    key = 'octets_per_s'
    compare('manager.vm', f'{device}: {way} 16 MiB in one request', 'GB/s',
            column(found['manager'], key), BASELINES['posts'], column(found['posts'], key),
            scale=1e9)


def measure():
    with tempfile.TemporaryDirectory(prefix='weft-bench.') as scratch:
        guest = vm.Guest(pathlib.Path(scratch), [*vm.GUEST_PROGRAMS, PROGRAM])
        try:
            for device in vm.DEVICES:
                guest.use_device(device)
                for way in ('write', 'read'):
                    for what in ('coalesce', 'join'):
                        for places in ('apart', 'together'):
                            coalesce(guest, device, what, way, places)
                    large(guest, device, way)
        finally:
            guest.end()


def main():
    try:
        vm.kernel_files()
        vm.enter_namespace()
    except vm.NotHere as why:
        note(f'manager.vm: not here: {why}')
        return
    measure()


if __name__ == '__main__':
    main()
