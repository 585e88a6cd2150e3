#!/usr/bin/env python3
"""weft over its own TCP in UDP datagrams, on loopback, beside the kernel's TCP as a link (socket)
and beside raw UDP with nothing on top.

udp.bw: messages of one direction. Raw UDP sends trains of datagrams (UDP_SEGMENT, UDP_GRO), each as
long as Ethernet takes; what got lost on the way is not counted. udp.latency: 64 octets there and
back, both ends spinning.
"""

from results import alternating, column, compare, measured, pairs_wanted, seconds_wanted

PAIRS = pairs_wanted(5)
SECONDS = seconds_wanted('0.25')
ROUND_TRIPS = 4000
DATAGRAM_LEN = 1472
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}


def weft(link, *words):
    return lambda: measured('bench-verbs', *words, WEFT_LINK=link, WEFT_LOCAL='off')


def beside(bench, case, unit, key, results, **how):
    """One line for each baseline."""
    for baseline in results:
        if baseline != 'udp':
            compare(bench, f'{case} vs {baseline}', unit, column(results['udp'], key), baseline,
                    column(results[baseline], key), **how)


def bandwidth(operation, size_name):
    words = (operation, SIZES[size_name], SECONDS)
    results = alternating(PAIRS, {
        'udp': weft('udp', *words),
        'socket': weft('socket', *words),
        'raw UDP with GSO': lambda: measured('bench-raw', 'udp', 'bw', DATAGRAM_LEN, SECONDS)})
    beside('udp.bw', f'{operation} {size_name}', 'GB/s', 'octets_per_s', results, scale=1e9)
    beside('udp.bw', f'{operation} {size_name} cpu', 'ns/octet', 'cpu_ns_per_octet', results,
           less_is_better=True)


def latency(operation):
    words = ('latency', operation, ROUND_TRIPS)
    results = alternating(PAIRS, {
        'udp': weft('udp', *words),
        'socket': weft('socket', *words),
        'raw UDP': lambda: measured('bench-raw', 'udp', 'latency', ROUND_TRIPS)})
    for key in ('p50_us', 'p99_us'):
        beside('udp.latency', f'{operation} 64 octets {key[:3]}', 'us', key, results,
               less_is_better=True)


def main():
    for size_name in SIZES:
        for operation in ('write', 'read', 'send'):
            bandwidth(operation, size_name)
    for operation in ('send', 'write'):
        latency(operation)


if __name__ == '__main__':
    main()
