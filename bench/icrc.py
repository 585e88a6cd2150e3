#!/usr/bin/env python3
"""What the ICRC of RoCEv2 costs, in cache, beside CRC32C and memcpy of the same lengths.

icrc.check: the octets alone. icrc.copy: of their copy, once it is made. icrc.packet: with the
headers in front of them begun anew, as each packet needs it. Octets are those of the payload; each
figure is the median of short runs in turn.
"""

from results import alternating, column, compare, measured, pairs_wanted, seconds_wanted

BASELINES = {'check': 'crc32c', 'copy': 'memcpy', 'packet': 'crc32c'}
PROGRAM = {'check': 'icrc', 'copy': 'icrc_copy', 'packet': 'icrc_packet'}


def runs(length):
    kinds = {**{kind: kind for kind in BASELINES.values()}, **PROGRAM}
    return alternating(pairs_wanted(5), {
        name: lambda kind=kind: measured('bench-icrc', kind, length, seconds_wanted('0.1'))
        for name, kind in kinds.items()})


for length in (256, 1024, 4096):
    results = {name: column(each, 'octets_per_s') for name, each in runs(length).items()}
    for what, baseline in BASELINES.items():
        compare(f'icrc.{what}', f'{length} octets', 'GB/s', results[what], baseline,
                results[baseline], scale=1e9)
