#!/usr/bin/env python3
"""weft between two processes of one host, through memory of both, beside raw TCP over loopback at
its best, beside one-sided copies of the same lengths (process_vm_readv for Reads, process_vm_writev
for Writes and Sends), beside itself over TCP, and beside itself with the ring alone; round trips
beside raw TCP that spins, and half of them beside UCX's shared memory.

Source and sink are of the same size on both sides, and stand in the name of a case: what of both
lies in the caches nearest to a core, or in none. TCP writes 256 KiB at a time, however long the
messages are, and reads with whichever buffer length is fastest here.
"""

import shutil
import statistics

import ucx
from results import alternating, column, compare, measured, note, pairs_wanted, seconds_wanted

PAIRS = pairs_wanted(7)
SECONDS = seconds_wanted('0.15')
ROUND_TRIPS = '20000'
TCP_WRITE_LENGTH = 256 << 10
READ_LENGTHS = (64 << 10, 128 << 10, 256 << 10)
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}
FOOTPRINTS = {'4MiB': 4 << 20, '64MiB': 64 << 20}
COPIES = {'read': 'readv', 'write': 'writev', 'send': 'writev'}
BASELINES = {'tcp': 'kernel TCP at its best', 'copy': 'process_vm_{}', 'wire': 'weft over TCP',
             'ring': 'weft through the ring'}
UCX_PORT = 13391
UCX = {'put': 'ucp_put_lat', 'tag': 'tag_lat'}


def weft(*words, footprint=FOOTPRINTS['4MiB'], **settings):
    return measured('bench-verbs', *words, WEFT_WIRE='iwarp',
                    WEFT_BENCH_FOOTPRINT=str(footprint), **{'WEFT_LOCAL': 'on', **settings})


def raw(*words, footprint=FOOTPRINTS['4MiB']):
    return measured('bench-raw', *words, WEFT_BENCH_FOOTPRINT=str(footprint))


def tcp_bandwidth(read_length, footprint):
    return raw('tcp', 'bw', TCP_WRITE_LENGTH, read_length, SECONDS, footprint=footprint)


def fastest_read_length(footprint):
    """By the median of three runs each."""
    def speed(length):
        runs = (tcp_bandwidth(length, footprint) for _ in range(3))
        return statistics.median(run['octets_per_s'] for run in runs)
    return max(READ_LENGTHS, key=speed)


def measures(operation, size, footprint, read_length):
    """What takes turns. Beside itself weft is measured where the caches hold it all."""
    words, at = (operation, size, SECONDS), {'footprint': footprint}
    ours = {'memory': lambda: weft(*words, **at),
            'tcp': lambda: tcp_bandwidth(read_length, footprint),
            'copy': lambda: raw(COPIES[operation], size, SECONDS, **at)}
    if footprint == FOOTPRINTS['4MiB']:
        ours['wire'] = lambda: weft(*words, **at, WEFT_LOCAL='off')
        if operation != 'send':
            ours['ring'] = lambda: weft(*words, **at, WEFT_PUSH='off', WEFT_PULL='off')
    return ours


def bandwidth(operation, size_name, footprint_name, read_length):
    results = alternating(PAIRS, measures(operation, SIZES[size_name], FOOTPRINTS[footprint_name],
                                          read_length))
    bench, case = f'host.{operation}_bw', f'{size_name} {footprint_name}'
    ours = results.pop('memory')
    for vs, theirs in results.items():
        name = BASELINES[vs].format(COPIES[operation])
        compare(bench, f'{case} vs {vs}', 'GB/s', column(ours, 'octets_per_s'),
                name, column(theirs, 'octets_per_s'), scale=1e9)
        compare('host.cpu', f'{operation} {case} vs {vs}', 'ns/octet',
                column(ours, 'cpu_ns_per_octet'), name, column(theirs, 'cpu_ns_per_octet'),
                less_is_better=True)


# --- round trips --------------------------------------------------------------------------------

def ucx_half_round_trip(test):
    """Of 64 octets, in microseconds; the median."""
    last = ucx.last_line(UCX_PORT, test, 64, ROUND_TRIPS, UCX_TLS='posix,self')
    return {'us': float(last[1])}


def latency(operation, ucx_test):
    ours = {'memory': lambda: weft('latency', operation, ROUND_TRIPS),
            'tcp': lambda: raw('tcp', 'latency', ROUND_TRIPS)}
    if shutil.which('ucx_perftest'):
        ours['ucx'] = lambda: ucx_half_round_trip(UCX[ucx_test])
    else:
        note('host.latency: there is no ucx_perftest (ucx-utils) to stand beside')
    results = alternating(PAIRS, ours)
    for key in ('p50_us', 'p99_us'):
        compare('host.latency', f'{operation} 64 octets {key[:3]}', 'us',
                column(results['memory'], key), 'kernel TCP, spinning',
                column(results['tcp'], key), less_is_better=True)
    if 'ucx' in results:
        compare('host.latency', f'{operation} 64 octets vs ucx', 'us',
                [us / 2 for us in column(results['memory'], 'p50_us')],
                f"UCX's {ucx_test} in shared memory", column(results['ucx'], 'us'),
                less_is_better=True)


def main():
    for footprint_name, footprint in FOOTPRINTS.items():
        read_length = fastest_read_length(footprint)
        note(f'TCP is fastest here with reads of {read_length >> 10} KiB, of {footprint_name}')
        for size_name in SIZES:
            for operation in ('write', 'read', 'send'):
                bandwidth(operation, size_name, footprint_name, read_length)
    latency('send', 'tag')
    latency('write', 'put')


if __name__ == '__main__':
    main()
