#!/usr/bin/env python3
"""One-shot RDMA beside three conventional ways to lend memory for a storage command.

A target and an initiator of examples/, each in a process of its own, both spinning, write blocks
and read them back; content is neither made nor compared. The ways: a region per command (mr); a
region and a type 1 window per command, each step waited for (mw1: the source's figure 3); a type 2
window bound in front of the command and invalidated by its answer (mw2). Every round runs each way
once, so that all of them meet the same state of the machine; figures are medians of the rounds, the
spread stands on stderr. In all ways what can leave together does; calls are counted without that.
"""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from results import BUILD, column, emit, environment, note, spread_of

ROUNDS = int(os.environ.get('WEFT_BENCH_ROUNDS', '15'))
BUDGET_S = 130  # rounds end here at the latest: a busy machine takes its time
CONVENTIONAL = ('mr', 'mw1', 'mw2')
WAYS = CONVENTIONAL + ('oneshot',)
COUNTS = {('4KiB', 1): 4000, ('4KiB', 32): 50000, ('64KiB', 1): 1000, ('64KiB', 32): 4000}
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10}


def run(way, size, depth, *words, count=None, **settings):
    """What one run of the initiator says, `rate` (commands/s) added."""
    count = count or COUNTS[size, depth]
    with subprocess.Popen([BUILD / 'examples/block-target', '127.0.0.1', '0', '--once'],
                          env=environment(), stdout=subprocess.PIPE, text=True) as target:
        port = target.stdout.readline().split()[-1]
        output = subprocess.run(
            [BUILD / 'examples/block-initiator', '127.0.0.1', port, f'--way={way}',
             f'--size={SIZES[size]}', f'--depth={depth}', f'--count={count}', '--no-verify',
             *words], env=environment(**settings), text=True, stdout=subprocess.PIPE, timeout=60,
            check=True).stdout
        target.wait(20)
    said = json.loads(output)
    return {**said, 'rate': said['commands'] / said['seconds']}


def measure():
    """{(size, depth): {way: [what a run says, ...]}}"""
    results = {case: {way: [] for way in WAYS} for case in COUNTS}
    end = time.monotonic() + BUDGET_S
    for number in range(ROUNDS):
        for size, depth in COUNTS:
            for way in WAYS:
                results[size, depth][way].append(run(way, size, depth))
        if time.monotonic() > end:
            note(f'{number + 1} of {ROUNDS} rounds in {BUDGET_S} s')
            break
    return results


def median(results, way, key):
    return statistics.median(column(results[way], key))


def spreads(results, baseline, key):
    return {'spread': spread_of(column(results['oneshot'], key)),
            'baseline_spread': spread_of(column(results[baseline], key))}


def report(results):
    for (size, depth), of_case in results.items():
        for baseline in CONVENTIONAL:
            case = f'{size} depth={depth} vs {baseline}'
            emit('oneshot.rate', case, 'commands/s', median(of_case, 'oneshot', 'rate'), baseline,
                 median(of_case, baseline, 'rate'), **spreads(of_case, baseline, 'rate'))
            for key in ('p50_us', 'p99_us'):
                emit('oneshot.latency', f'{case} {key[:3]}', 'us', median(of_case, 'oneshot', key),
                     baseline, median(of_case, baseline, key), less_is_better=True,
                     **spreads(of_case, baseline, key))
        for way in WAYS:
            rates = column(of_case[way], 'rate')
            note(f'{size} depth={depth} {way}: {statistics.median(rates):.0f} commands/s '
                 f'(spread {min(rates):.0f} to {max(rates):.0f})')


def calls_and_messages(way):
    """Calls, completions and FPDUs of both directions per command. Each message of a 4 KiB command
    is one FPDU; the extension message is one more."""
    count = 1000
    with tempfile.TemporaryDirectory(prefix='weft-bench.') as folder:
        stats = pathlib.Path(folder, 'stats')
        said = run(way, '4KiB', 1, '--unchained', count=count, WEFT_STATS_FILE=str(stats))
        device = json.loads(stats.read_text())['weft0']
    fpdus = device['mpa_in_total']['fpdus'] + device['mpa_out_total']['fpdus'] - 1
    return said['calls_per_command'], said['completions_per_command'], fpdus / count


def report_calls():
    units = ('calls', 'completions', 'messages')
    ours = calls_and_messages('oneshot')
    for baseline in CONVENTIONAL:
        for unit, value, base in zip(units, ours, calls_and_messages(baseline)):
            emit('oneshot.calls', f'{unit} per command vs {baseline}', unit, value, baseline, base,
                 less_is_better=True)


if __name__ == '__main__':
    report_calls()
    report(measure())
