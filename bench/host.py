#!/usr/bin/env python3
"""weft between two processes of one host, through memory of both, beside raw TCP over loopback at
its best, beside itself over TCP, and Reads beside one-sided copies of the same lengths and beside
themselves through the ring.

Source and sink are of the same size on both sides. TCP writes 256 KiB at a time, however long the
messages are, and reads with whichever buffer length is fastest here.
"""

import statistics

from results import alternating, column, compare, measured, note, pairs_wanted, seconds_wanted

PAIRS = pairs_wanted(7)
SECONDS = seconds_wanted('0.25')
ROUND_TRIPS = '20000'
TCP_WRITE_LENGTH = 256 << 10
READ_LENGTHS = (64 << 10, 128 << 10, 256 << 10)
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}


def tcp_bandwidth(read_length):
    return measured('bench-raw', 'tcp', 'bw', TCP_WRITE_LENGTH, read_length, SECONDS)


def fastest_read_length():
    """By the median of three runs each."""
    def speed(length):
        return statistics.median(tcp_bandwidth(length)['octets_per_s'] for _ in range(3))
    return max(READ_LENGTHS, key=speed)


def weft(*words, local, push='off', pull='on'):
    return measured('bench-verbs', *words, WEFT_WIRE='iwarp', WEFT_LOCAL=local, WEFT_PUSH=push,
                    WEFT_PULL=pull)


def bandwidth(operation, size_name, read_length):
    words = (operation, SIZES[size_name], SECONDS)
    results = alternating(PAIRS, {'memory': lambda: weft(*words, local='on'),
                                  'wire': lambda: weft(*words, local='off'),
                                  'TCP': lambda: tcp_bandwidth(read_length)})
    bench = f'host.{operation}_bw'
    for other, name in (('TCP', 'kernel TCP at its best'), ('wire', 'weft over TCP')):
        vs = 'tcp' if other == 'TCP' else 'wire'
        compare(bench, f'{size_name} vs {vs}', 'GB/s', column(results['memory'], 'octets_per_s'),
                name, column(results[other], 'octets_per_s'), scale=1e9)
        compare(bench, f'{size_name} cpu vs {vs}', 'ns/octet',
                column(results['memory'], 'cpu_ns_per_octet'), name,
                column(results[other], 'cpu_ns_per_octet'), less_is_better=True)


def reads_beside_copies(size_name):
    words = SIZES[size_name], SECONDS
    results = alternating(PAIRS, {
        'memory': lambda: weft('read', *words, local='on'),
        'ring': lambda: weft('read', *words, local='on', pull='off'),
        'copy': lambda: measured('bench-raw', 'copy', *words)})
    for vs, name in (('copy', 'process_vm_readv'), ('ring', 'weft through the ring')):
        compare('host.read_bw', f'{size_name} vs {vs}', 'GB/s',
                column(results['memory'], 'octets_per_s'), name,
                column(results[vs], 'octets_per_s'), scale=1e9)
        compare('host.read_bw', f'{size_name} cpu vs {vs}', 'ns/octet',
                column(results['memory'], 'cpu_ns_per_octet'), name,
                column(results[vs], 'cpu_ns_per_octet'), less_is_better=True)


def latency(operation, push='off'):
    results = alternating(PAIRS, {
        'memory': lambda: weft('latency', operation, ROUND_TRIPS, local='on', push=push),
        'TCP': lambda: measured('bench-raw', 'tcp', 'latency', ROUND_TRIPS)})
    for key in ('p50_us', 'p99_us'):
        name = f'{operation} pushed' if push == 'on' else operation
        compare('host.latency', f'{name} 64 octets {key[:3]}', 'us',
                column(results['memory'], key), 'kernel TCP, spinning',
                column(results['TCP'], key), less_is_better=True)


def main():
    read_length = fastest_read_length()
    note(f'TCP is fastest here with reads of {read_length >> 10} KiB')
    for size_name in SIZES:
        for operation in ('write', 'read', 'send'):
            bandwidth(operation, size_name, read_length)
        reads_beside_copies(size_name)
    for operation in ('send', 'write'):
        latency(operation)
    latency('write', push='on')


if __name__ == '__main__':
    main()
