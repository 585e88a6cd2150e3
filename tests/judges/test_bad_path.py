#!/usr/bin/env python3
"""Programs of the distribution over weft's own TCP on a path that loses, delays, changes packets.

Both ends make their path bad (WEFT_FAULT) and rping compares every octet that it gets.
"""

import judge
from judge import PERFTEST_RACE, Case, count, perftest_check

PATHS = {
    'loss': 'loss=2%',
    'losses in a row': 'loss=2%,burst=3',
    'reordering': 'reorder=10%',
    'delay and duplicates': 'delay=300us,jitter=300us,duplicate=5%',
    'changed octets': 'corrupt=1%',
    'all of it': 'loss=1%,reorder=5%,duplicate=2%,corrupt=0.5%,delay=200us',
}


def rping(what, faults):
    words = ['rping', '-a', '{addr}', '-p', '{port}', '-C', count(30, 1000), '-S', 30001, '-V']
    return Case(f'rping: {what}', [*words, '-c'], [*words, '-s'], env={'WEFT_FAULT': faults})


def perftest(program, what, faults):
    words = [program, '-R', '-F', '-p', '{port}', '-s', 65536, '-n', count(100, 5000)]
    return Case(f'{program}: {what}', [*words, '{addr}'], words, perftest_check([65536]),
                env={'WEFT_FAULT': faults}, race=PERFTEST_RACE)


def cases():
    for what, faults in PATHS.items():
        yield rping(what, faults + ',seed=5')
    for program in 'ib_write_bw', 'ib_read_bw', 'ib_send_bw':
        yield perftest(program, 'all of it', PATHS['all of it'] + ',seed=6')


if __name__ == '__main__':
    judge.run_cases(__doc__, cases)
