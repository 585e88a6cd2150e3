#!/usr/bin/env python3
"""Judges over weft's own TCP as real IP packets: two processes, a tap device for each, alone and
beside the kernel's TCP for other peers."""

import sys

import judge
import tapnet
from judge import PERFTEST_RACE, Case, count, perftest_check

BAD_PATH = 'loss=1%,reorder=2%,duplicate=1%,reorder-delay=500us,seed=3'


def rping(what, faults=''):
    words = ['rping', '-a', '{addr}', '-p', '{port}', '-C', count(30, 1000), '-S', 30001, '-V']
    return Case(f'rping: {what}', [*words, '-c'], [*words, '-s'], env={'WEFT_FAULT': faults})


def perftest(program, size=65536, faults=''):
    words = [program, '-R', '-F', '-p', '{port}', '-s', size, '-n', count(100, 5000)]
    what = 'on a bad path' if faults else f'{size} octets'
    return Case(f'{program}: {what}', [*words, '{addr}'], words, perftest_check([size]),
                env={'WEFT_FAULT': faults}, race=PERFTEST_RACE)


def cases():
    yield rping('a good path')
    yield rping('a bad path', BAD_PATH)
    yield Case('ucmatose', ['ucmatose', '-s', '{addr}', '-p', '{port}', '-c', 10, '-C', 20],
               ['ucmatose', '-p', '{port}', '-c', 10, '-C', 20])
    for program in 'ib_write_bw', 'ib_read_bw', 'ib_send_bw':
        yield perftest(program)
        yield perftest(program, faults=BAD_PATH)
    yield perftest('ib_send_lat', 64)
    yield perftest('ib_write_lat', 64)


def cases_by_peer():
    yield rping('beside sockets, a good path')
    yield rping('beside sockets, a bad path', BAD_PATH)
    yield perftest('ib_write_bw', 4096)


def main():
    options = judge.argument_parser(__doc__).parse_args()
    try:
        tapnet.enter_namespace()
    except tapnet.NotHere as why:
        judge.skip_all(str(why))
    tap = judge.Tap()
    with tapnet.TapSide(0) as server, tapnet.TapSide(1) as client:
        tapnet.route_between_all()
        for case in judge.chosen(options, cases):
            judge.run_case(tap, case, server, client)
    with tapnet.TapSide(2, by_peer=True) as server, tapnet.TapSide(3, by_peer=True) as client:
        for case in judge.chosen(options, cases_by_peer):
            judge.run_case(tap, case, server, client)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
