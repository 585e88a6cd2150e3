#!/usr/bin/env python3
"""Preemptible partial reads: what small readers, many readers and a reader alone see of them.

reads.small_p99: 4 KiB reads on one queue pair while 8 others read 256 MiB each, all on 4 read
contexts, divided; against the same undivided, against as many contexts as wanted with a responder
that takes turns (fair), and with one that sends each response to its end (unfair). reads.fairness:
64 endless readers of 1 MiB on 4 contexts, Jain's index of their shares. reads.alone: one reader,
divided and undivided.

Every figure is the median of alternating runs, since the speed of a machine drifts; the spread
stands on stderr. WEFT_READ_CONTEXTS and WEFT_READ_ALLOTMENT from outside hold for the divided runs.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

PROGRAM = pathlib.Path(os.environ['WEFT_BUILD_DIR']) / 'bench/bench-reads'
ROUNDS = int(os.environ.get('WEFT_BENCH_PAIRS', '5'))
BULKS, BULK_LEN = '8', str(256 << 20)
READERS, READER_LEN = '64', str(1 << 20)
SECONDS = os.environ.get('WEFT_BENCH_SECONDS', '1')
CONTEXTS = os.environ.get('WEFT_READ_CONTEXTS', '4')
DIVIDED = {'WEFT_READ_CONTEXTS': CONTEXTS}
UNDIVIDED = {'WEFT_READ_CONTEXTS': CONTEXTS, 'WEFT_READ_ALLOTMENT': '0'}
UNLIMITED = {'WEFT_READ_CONTEXTS': '4096', 'WEFT_READ_ALLOTMENT': '0'}
BASELINES = {'undivided': UNDIVIDED, 'fair': UNLIMITED,
             'unfair': {**UNLIMITED, 'WEFT_READ_TURN': '0'}}


def run(settings, *words):
    output = subprocess.run([PROGRAM, *words], text=True, stdout=subprocess.PIPE, timeout=60,
                            check=True, env={**os.environ, **settings}).stdout
    return json.loads(output)


def rounds(count, cases, *words):
    """{case: results}, a run of each case in turn."""
    results = {name: [] for name in cases}
    for _ in range(count):
        for name, settings in cases.items():
            results[name].append(run(settings, *words))
    return results


def emit(bench, case, unit, ours, baseline, theirs, scale=1.0, less_is_better=False):
    value, base = statistics.median(ours) / scale, statistics.median(theirs) / scale
    ratio = base / value if less_is_better else value / base
    print(json.dumps({'bench': bench, 'case': case, 'value': value, 'unit': unit,
                      'baseline': baseline, 'baseline_value': base, 'ratio': ratio}), flush=True)
    print(f'{bench} {case}: {value:.4g} {unit}, {ratio:.2f} of {baseline}'
          f' (spread {min(ours) / scale:.4g} to {max(ours) / scale:.4g})', file=sys.stderr)


def column(results, key):
    return [result[key] for result in results]


def small():
    results = rounds(min(ROUNDS, 3), {'divided': DIVIDED, **BASELINES}, 'small', BULKS, BULK_LEN)
    ours = results['divided']
    for baseline in BASELINES:
        theirs = results[baseline]
        for key in ('p50_us', 'p99_us'):
            emit('reads.small_p99', f'{baseline} {key[:3]}', 'us', column(ours, key), baseline,
                 column(theirs, key), less_is_better=True)
        emit('reads.small_p99', f'{baseline} bulk', 'GB/s', column(ours, 'octets_per_s'), baseline,
             column(theirs, 'octets_per_s'), scale=1e9)


def fairness():
    results = rounds(min(ROUNDS, 3), {'divided': DIVIDED, 'undivided': UNDIVIDED},
                     'fair', READERS, READER_LEN, SECONDS)
    for key, unit, scale in (('jain', 'Jain index', 1), ('octets_per_s', 'GB/s', 1e9)):
        emit('reads.fairness', f'64 readers of 1 MiB, {unit}', unit,
             column(results['divided'], key), 'undivided', column(results['undivided'], key), scale)


def alone():
    results = rounds(ROUNDS, {'divided': {}, 'undivided': {'WEFT_READ_ALLOTMENT': '0'}},
                     'alone', str(16 << 20), SECONDS)
    emit('reads.alone', 'one reader of 16 MiB', 'GB/s', column(results['divided'], 'octets_per_s'),
         'undivided', column(results['undivided'], 'octets_per_s'), scale=1e9)


def main():
    small()
    fairness()
    alone()


if __name__ == '__main__':
    main()
