#!/usr/bin/env python3
"""Writes of ib_write_bw over RoCE on a path that loses: perftest registers memory with relaxed
ordering unless it is told not to, and only then are they placed beyond holes. The target counts."""

import contextlib
import json
import os
import sys

import judge
from judge import PERFTEST_RACE, WEFT, Case, Local, count, perftest_check, run_case

FAULTS = {'WEFT_FAULT': 'loss=1%,seed=5'}


def ib_write_bw(what, *options):
    words = ['ib_write_bw', '-F', '-p', '{port}', '-s', 65536, '-n', count(300, 5000), *options]
    return Case(f'ib_write_bw: {what}', [*words, '{addr}'], words, perftest_check([65536]),
                env=FAULTS, race=PERFTEST_RACE)


def cases():
    yield ib_write_bw('relaxed')
    yield ib_write_bw('in order', '--disable_pcie_relaxed')


def end_prefix(side, role):
    return ['env', f'WEFT_STATS_FILE={side.scratch}/{role}.stats', WEFT, 'run', '--wire=roce']


def counted(path):
    """Packets that were placed beyond a hole, and that were kept."""
    lines = (json.loads(line) for line in path.read_text().splitlines())
    counters, = (line['weft_roce0']['rc_total'] for line in lines if 'weft_roce0' in line)
    return counters.get('early_writes', 0), counters.get('held', 0)


def judge_case(tap, case):
    with contextlib.ExitStack() as stack:
        side = stack.enter_context(Local('127.0.0.1'))
        client_end, server_end = (
            stack.enter_context(Local('127.0.0.1', end_prefix(side, role)))
            for role in ('client', 'server'))
        if run_case(tap, case, server_end, client_end):
            early, held = counted(side.scratch / 'server.stats')
            is_right = early > held if 'relaxed' in case.name else early == 0 and held > 0
            tap.report(f'{case.name}: where its packets went',
                       [] if is_right else [f'{early} placed beyond holes, {held} kept'])


def main():
    os.environ['WEFT_LOCAL'] = 'off'  # memory of both ends loses nothing
    options = judge.argument_parser(__doc__).parse_args()
    with judge.weft_side():
        pass
    tap = judge.Tap()
    for case in judge.chosen(options, cases):
        judge_case(tap, case)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
