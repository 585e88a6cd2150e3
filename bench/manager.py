#!/usr/bin/env python3
"""The RDMA manager beside a caller that posts its own work requests, on weft.

manager.coalesce: 4096 elements of 512 octets, their remote ranges side by side, against the
caller's own 4096 work requests, in chains of 64 of which the last is signalled. manager.join: the
same as 4096 requests that may be joined. manager.large: one request of 1.5 GiB, against the
caller's own posts of transfers of the same length; and one of 6 GiB each way, with every octet
verified.
"""

import statistics

from results import alternating, column, compare, emit, measured, pairs_wanted

PAIRS = pairs_wanted(7)
LARGE_PAIRS = min(PAIRS, 3)
ROUNDS = 60
LARGE_LEN, VERIFIED_LEN = 3 << 29, 6 << 30
BASELINE = 'own posts'


def run(*words):
    return measured('bench-manager', *words)


def pairs(count, what, *words):
    """The results by the manager, and by the caller."""
    results = alternating(count, {by: lambda by=by: run(what, by, *words)
                                  for by in ('manager', 'posts')})
    return results['manager'], results['posts']


def coalesce(what, way, places):
    ours, theirs = pairs(PAIRS, what, way, places, ROUNDS)
    for key, unit in (('us', 'us'), ('descriptors', 'work requests'), ('calls', 'calls')):
        compare(f'manager.{what}', f'{way} 4096 x 512 octets, {places}, {key}', unit,
                column(ours, key), BASELINE, column(theirs, key), less_is_better=True)


def large(way):
    ours, theirs = pairs(LARGE_PAIRS, 'large', way, LARGE_LEN)
    key = 'octets_per_s'
    compare('manager.large', f'{way} 1.5 GiB', 'GB/s', column(ours, key), BASELINE,
            column(theirs, key), scale=1e9)
    verified = run('verify', way, VERIFIED_LEN)[key]
    emit('manager.large', f'{way} 6 GiB, every octet verified', 'GB/s', verified / 1e9,
         'not verified', statistics.median(column(ours, key)) / 1e9)


def main():
    for way in ('write', 'read'):
        for places in ('apart', 'together'):
            for what in ('coalesce', 'join'):
                coalesce(what, way, places)
    for way in ('write', 'read'):
        large(way)


if __name__ == '__main__':
    main()
