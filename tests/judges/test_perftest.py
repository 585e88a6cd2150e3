#!/usr/bin/env python3
"""Judges of throughput and latency: perftest's ib_* programs over rdma_cm (-R)."""

import judge
from judge import PERFTEST_RACE, SOAK, Case, count, perftest_check

ALL_SIZES = [1 << power for power in range(1, 24)]
ITERATIONS = count(100, 5000)


def perftest(program, what, *options, size=65536, sizes=None, iterations=ITERATIONS):
    words = [program, '-R', '-F', '-p', '{port}', '-n', iterations, *options]
    if sizes is None:
        sizes = [size]
        words += ['-s', size]
    return Case(f'{program}: {what}', [*words, '{addr}'], words, perftest_check(sizes),
                race=PERFTEST_RACE)


def atomic(program, operation):
    words = [program, '-R', '-F', '-p', '{port}', '-n', ITERATIONS, '-A', operation]
    return Case(f'{program}: {operation}', [*words, '{addr}'], words, perftest_check([8]),
                race=PERFTEST_RACE)


def cases():
    for verb in ('send', 'write', 'read'):
        bandwidth, latency = f'ib_{verb}_bw', f'ib_{verb}_lat'
        yield perftest(bandwidth, '64 KiB')
        yield perftest(bandwidth, 'every size', '-a', sizes=ALL_SIZES,
                       iterations=count(10, 1000))
        yield perftest(bandwidth, 'both ways', '-b')
        yield perftest(bandwidth, 'four queue pairs', '-q', 4)
        yield perftest(bandwidth, 'memory on demand', '--odp')
        yield perftest(latency, '64 octets', size=64)
        yield perftest(latency, '1 MiB', size=1 << 20, iterations=count(20, 1000))
        # Not for ib_write_*, which sleeps for nothing, nor for ib_send_bw: over iWARP it takes its
        # credits by RDMA Write, and may fall asleep while only such a credit is to come.
        if verb != 'write':
            yield perftest(latency, 'sleeping on completions', '-e', size=64)
        if verb == 'read':
            yield perftest(bandwidth, 'sleeping on completions', '-e')
        if SOAK:
            yield perftest(latency, 'every size', '-a', sizes=ALL_SIZES, iterations=100)
            yield perftest(bandwidth, 'both ways, every size', '-a', '-b', sizes=ALL_SIZES,
                           iterations=100)
            yield perftest(bandwidth, 'lists of eight requests', '-l', 8, size=4096)
            yield perftest(bandwidth, '2 octets', size=2)
    for operation in ('FETCH_AND_ADD', 'CMP_AND_SWAP'):
        yield atomic('ib_atomic_bw', operation)
        yield atomic('ib_atomic_lat', operation)


if __name__ == '__main__':
    judge.run_cases(__doc__, cases)
