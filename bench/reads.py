#!/usr/bin/env python3
"""Preemptible partial reads: what small readers, many readers and a reader alone see of them, on
either wire; on RoCEv2 (cases that begin with `roce`) in a network namespace, whose `lo` has an MTU
of 65536.

reads.small_p99: 4 KiB reads on one queue pair while 8 others read 256 MiB each, all on 4 read
contexts, divided; against the same undivided, against as many contexts as wanted with a responder
that takes turns (fair), and with one that sends each response to its end (unfair). reads.fairness:
64 endless readers of 1 MiB on 4 contexts, Jain's index of their shares. reads.alone: one reader,
divided and undivided.

WEFT_READ_CONTEXTS and WEFT_READ_ALLOTMENT from outside hold for the divided runs.
"""

import os
import subprocess
import sys

from results import alternating, column, compare, measured, pairs_wanted, seconds_wanted

ROUNDS = pairs_wanted(5)
BULKS, BULK_LEN = '8', str(256 << 20)
READERS, READER_LEN = '64', str(1 << 20)
SECONDS = seconds_wanted('1')
CONTEXTS = os.environ.get('WEFT_READ_CONTEXTS', '4')
DIVIDED = {'WEFT_READ_CONTEXTS': CONTEXTS}
UNDIVIDED = {'WEFT_READ_CONTEXTS': CONTEXTS, 'WEFT_READ_ALLOTMENT': '0'}
UNLIMITED = {'WEFT_READ_CONTEXTS': '4096', 'WEFT_READ_ALLOTMENT': '0'}
BASELINES = {'undivided': UNDIVIDED, 'fair': UNLIMITED,
             'unfair': {**UNLIMITED, 'WEFT_READ_TURN': '0'}}
ROCE = 'roce'  # the word by which the namespace is entered
IS_ROCE = sys.argv[1:] == [ROCE]
WIRE, NAME = {'WEFT_WIRE': 'iwarp'}, ''
if IS_ROCE:  # turns of its responder are no setting, and the window cuts whatever the allotment
    WIRE, NAME = {'WEFT_WIRE': 'roce', 'WEFT_LOCAL': 'off'}, 'roce, '
    BASELINES = {'undivided': UNDIVIDED}


def rounds(count, cases, *words):
    """{case: results}, a run of each of the cases {case: settings} in turn."""
    return alternating(count, {
        name: lambda settings=settings: measured('bench-reads', *words, **settings, **WIRE)
        for name, settings in cases.items()})


def small():
    results = rounds(min(ROUNDS, 3), {'divided': DIVIDED, **BASELINES}, 'small', BULKS, BULK_LEN)
    ours = results['divided']
    for baseline in BASELINES:
        theirs = results[baseline]
        for key in ('p50_us', 'p99_us'):
            compare('reads.small_p99', f'{NAME}{baseline} {key[:3]}', 'us', column(ours, key),
                    baseline, column(theirs, key), less_is_better=True)
        compare('reads.small_p99', f'{NAME}{baseline} bulk', 'GB/s', column(ours, 'octets_per_s'),
                baseline, column(theirs, 'octets_per_s'), scale=1e9)


def fairness():
    results = rounds(min(ROUNDS, 3), {'divided': DIVIDED, 'undivided': UNDIVIDED},
                     'fair', READERS, READER_LEN, SECONDS)
    for key, unit, scale in (('jain', 'Jain index', 1), ('octets_per_s', 'GB/s', 1e9)):
        compare('reads.fairness', f'{NAME}64 readers of 1 MiB, {unit}', unit,
                column(results['divided'], key), 'undivided', column(results['undivided'], key),
                scale)


def alone():
    results = rounds(ROUNDS, {'divided': {}, 'undivided': {'WEFT_READ_ALLOTMENT': '0'}},
                     'alone', str(16 << 20), SECONDS)
    key = 'octets_per_s'
    compare('reads.alone', f'{NAME}one reader of 16 MiB', 'GB/s', column(results['divided'], key),
            'undivided', column(results['undivided'], key), scale=1e9)


def main():
    if IS_ROCE:
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
    small()
    fairness()
    alone()
    if not IS_ROCE:
        subprocess.run(['unshare', '--map-root-user', '--net', sys.executable, __file__, ROCE],
                       check=True)


if __name__ == '__main__':
    main()
