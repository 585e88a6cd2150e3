#!/usr/bin/env python3
"""What holes in the stream cost our own TCP, and what placing octets beyond them changes.

holes.segment_cost: the time of a segment at 256 holes and at one. Both are the least over many
short runs, taken in turn: the processor time of the receiving engine, the acknowledgement included,
the network and the octets left out.

holes.loss, holes.reorder: Sends of 16 KiB between two devices over a simulated wire that loses
packets or makes them late, placed early and not (off: octets beyond a hole wait in TCP's buffer),
the same window, the same buffer, the same packets lost. Time is virtual, so figures are exact; each
is the median of three seeds. `copies`: how often an octet of the stream is copied by the receiver.
"""

import statistics

from results import alternating, emit, measured, note, seconds_wanted

SECONDS = seconds_wanted('0.25')
HOLES = 256
PAIRS = 3
PATTERNS = {'extend': 'each segment makes a range longer',
            'join': 'each second one opens a range, the others join two'}
LOSSES = ('0', '0.1', '1', '2', '5', '10')
REORDERS = ('1', '5', '20')
SEEDS = (1, 2, 3)
MESSAGE_LEN, MESSAGES = '16384', '2000'
WHOLE, LITTLE = 1 << 20, 64 << 10  # octets of the buffer: as the window, and less


def segment_ns(holes, pattern):
    return measured('bench-holes', 'segment_cost', holes, pattern, SECONDS)['ns_per_segment']


def segment_cost():
    for pattern, meaning in PATTERNS.items():
        results = alternating(PAIRS, {'many': lambda: segment_ns(HOLES, pattern),
                                      'one': lambda: segment_ns(1, pattern)})
        value, base = min(results['many']), min(results['one'])
        emit('holes.segment_cost', f'{HOLES} holes, {pattern}', 'ns/segment', value, 'one hole',
             base, less_is_better=True)
        note(f'holes.segment_cost {pattern} ({meaning}): {value:.0f} ns at {HOLES} holes,'
             f' {base:.0f} ns at one')


def path(placement, faults, buffer_len):
    """Each figure's median over the seeds."""
    runs = [measured('bench-paths', placement, f'{faults},seed={seed}', 'send', MESSAGE_LEN,
                     MESSAGES, buffer_len, 'udp') for seed in SEEDS]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def compare(bench, name, faults):
    early, off = path('early', faults, WHOLE), path('off', faults, WHOLE)
    little = path('early', faults, LITTLE), path('off', faults, LITTLE)
    for case, (a, b) in {'goodput': (early, off), 'goodput, buffer of 64 KiB': little}.items():
        emit(bench, f'{name}, {case}', 'GB/s', a['octets_per_s'] / 1e9, 'off',
             b['octets_per_s'] / 1e9)
    for key in ('p50_us', 'p99_us'):
        emit(bench, f'{name}, {key[:3]}', 'us', early[key], 'off', off[key], less_is_better=True)
    emit(bench, f'{name}, copies', 'per octet', 1 + early['buffered_share'], 'off',
         1 + off['buffered_share'], less_is_better=True)
    peak, base = early['buffered_peak'], off['buffered_peak']
    emit(bench, f'{name}, most buffered', 'octets', max(peak, 1), 'off', base, less_is_better=True)
    note(f'{bench} {name}: {early["octets_per_s"] / 1e9:.3f} GB/s, p99 {early["p99_us"]:.0f} us,'
         f' {early["early_share"]:.0%} beyond holes; buffered at most {peak:.0f} octets, off'
         f' {base:.0f}')


def main():
    segment_cost()
    for loss in LOSSES:
        compare('holes.loss', f'{loss} % lost', f'loss={loss}%')
    for reorder in REORDERS:
        compare('holes.reorder', f'{reorder} % late', f'reorder={reorder}%,reorder-delay=100us')


if __name__ == '__main__':
    main()
