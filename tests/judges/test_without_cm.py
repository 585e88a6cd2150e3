#!/usr/bin/env python3
"""Judges that use no connection manager: they tell each other GIDs and queue pair numbers over TCP.

ib_send_bw is not among them: on iWARP it keeps memory registered for its credits and frees that
with -R only, so that it ends with status 1 (perftest 4.5).
"""

import judge
from judge import Case, count, perftest_check, says


def pingpong(program, what, *options):
    words = [program, '-g', 0, '-p', '{port}', '-n', count(200, 10000), *options]
    return Case(f'{program}: {what}', [*words, '{addr}'], words,
                says(r'^\d+ iters in [\d.]+ seconds'))


def perftest(program, size, *options):
    words = [program, '-F', '-p', '{port}', '-n', count(100, 5000), *options]
    if 'atomic' not in program:
        words += ['-s', size]
    return Case(f'{program}: {size} octets', [*words, '{addr}'], words, perftest_check([size]))


CASES = [
    pingpong('ibv_rc_pingpong', 'polling'),
    pingpong('ibv_rc_pingpong', 'sleeping on completions', '-e'),
    pingpong('ibv_rc_pingpong', 'messages of 1 MB', '-s', 1000000, '-r', 20),
    pingpong('ibv_srq_pingpong', '16 queue pairs on a shared receive queue'),
    pingpong('ibv_srq_pingpong', '64 queue pairs', '-q', 64, '-r', 500),
    perftest('ib_write_bw', 65536),
    perftest('ib_write_bw', 4096, '-q', 8),
    perftest('ib_read_bw', 65536),
    perftest('ib_send_lat', 64),
    perftest('ib_write_lat', 64),
    perftest('ib_read_lat', 64),
    perftest('ib_atomic_bw', 8),
    perftest('ib_atomic_lat', 8),
]

if __name__ == '__main__':
    judge.run_cases(__doc__, lambda: CASES)
