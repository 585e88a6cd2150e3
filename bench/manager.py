#!/usr/bin/env python3
"""The RDMA manager beside a caller that posts its own work requests, on weft.

manager.coalesce: 4096 elements of 512 octets, their remote ranges side by side, against the
caller's own 4096 work requests, in chains of 64 of which the last is signalled. manager.large: one
request of 1.5 GiB, against the caller's own posts of transfers of the same length; and one of 6 GiB
each way, with every octet verified.

Every figure is the median of alternating pairs (manager, caller, ...) of one run, since the speed
of a machine drifts; the spread stands on stderr.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

PROGRAM = pathlib.Path(os.environ['WEFT_BUILD_DIR']) / 'bench/bench-manager'
PAIRS = int(os.environ.get('WEFT_BENCH_PAIRS', '7'))
LARGE_PAIRS = min(PAIRS, 3)
ROUNDS = 60
LARGE_LEN, VERIFIED_LEN = 3 << 29, 6 << 30
BASELINE = 'own posts'


def run(*words):
    output = subprocess.run([PROGRAM, *map(str, words)], text=True, stdout=subprocess.PIPE,
                            timeout=90, check=True).stdout
    return json.loads(output)


def emit(bench, case, value, unit, baseline, baseline_value, ratio, spread=None):
    print(json.dumps({'bench': bench, 'case': case, 'value': value, 'unit': unit,
                      'baseline': baseline, 'baseline_value': baseline_value,
                      'ratio': ratio}), flush=True)
    seen = f' (spread {min(spread):.3f} to {max(spread):.3f})' if spread else ''
    print(f'{bench} {case}: {value:.3f} {unit}, {ratio:.2f} of {baseline}{seen}', file=sys.stderr)


def pairs(count, what, *words):
    """The results by the manager, and by the caller."""
    ours, theirs = [], []
    for _ in range(count):
        ours.append(run(what, 'manager', *words))
        theirs.append(run(what, 'posts', *words))
    return ours, theirs


def median(results, key):
    return statistics.median(result[key] for result in results)


def coalesce(way, places):
    ours, theirs = pairs(PAIRS, 'coalesce', way, places, ROUNDS)
    for key, unit in (('us', 'us'), ('descriptors', 'work requests'), ('calls', 'calls')):
        value, base = median(ours, key), median(theirs, key)
        emit('manager.coalesce', f'{way} 4096 x 512 octets, {places}, {key}', value, unit, BASELINE,
             base, base / value, [result[key] for result in ours])


def large(way):
    ours, theirs = pairs(LARGE_PAIRS, 'large', way, LARGE_LEN)
    key = 'octets_per_s'
    value, base = median(ours, key) / 1e9, median(theirs, key) / 1e9
    emit('manager.large', f'{way} 1.5 GiB', value, 'GB/s', BASELINE, base, value / base,
         [result[key] / 1e9 for result in ours])
    verified = run('verify', way, VERIFIED_LEN)[key] / 1e9
    emit('manager.large', f'{way} 6 GiB, every octet verified', verified, 'GB/s', 'not verified',
         value, verified / value)


def main():
    for way in ('write', 'read'):
        for places in ('apart', 'together'):
            coalesce(way, places)
    for way in ('write', 'read'):
        large(way)


if __name__ == '__main__':
    main()
