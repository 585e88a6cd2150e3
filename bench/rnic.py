#!/usr/bin/env python3
"""weft beside raw kernel TCP: bandwidth and round trip, CRC on and off, processor time.

Both go through the kernel's TCP (bench/host.py has the memory of both ends). TCP reads with
whichever buffer length is fastest here. Source and sink are of the same size on both
sides.
"""

import json
import statistics
import subprocess
import time

from results import alternating, column, compare, measured, note, pairs_wanted, seconds_wanted

PAIRS = pairs_wanted(7)
SECONDS = seconds_wanted('0.25')
ROUND_TRIPS = '20000'
READ_LENGTHS = (16 << 10, 64 << 10, 128 << 10, 256 << 10)
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}


def tcp_bandwidth(size, read_length):
    return measured('bench-raw', 'tcp', 'bw', size, read_length, SECONDS)


def fastest_read_length():
    """Of 16, 64, 128 and 256 KiB, by the median of three runs each."""
    def speed(length):
        return statistics.median(
            tcp_bandwidth(64 << 10, length)['octets_per_s'] for _ in range(3))
    return max(READ_LENGTHS, key=speed)


def iperf3():
    """Gbit/s of iperf3 over loopback, for comparison on stderr; None where it is missing."""
    try:
        server = subprocess.Popen(['iperf3', '-s', '-1', '-p', '18765'], stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        return None
    time.sleep(0.3)
    client = subprocess.run(['iperf3', '-c', '127.0.0.1', '-p', '18765', '-t', '1', '-J'],
                            stdout=subprocess.PIPE, timeout=20)
    server.terminate()
    server.wait()
    if client.returncode != 0:
        return None
    return json.loads(client.stdout)['end']['sum_received']['bits_per_second'] / 1e9


def bandwidth(operation, size_name, crc, read_length):
    size = SIZES[size_name]
    results = alternating(PAIRS, {
        'weft': lambda: measured('bench-verbs', operation, size, SECONDS, WEFT_CRC=crc,
                                 WEFT_LOCAL='off'),
        'TCP': lambda: tcp_bandwidth(size, read_length)})
    bench, case = f'rnic.{operation}_bw', f'{size_name} crc={crc}'
    key = 'octets_per_s'
    compare(bench, case, 'GB/s', column(results['weft'], key), 'kernel TCP',
            column(results['TCP'], key), scale=1e9)
    key = 'cpu_ns_per_octet'
    compare(bench, case + ' cpu', 'ns/octet', column(results['weft'], key), 'kernel TCP',
            column(results['TCP'], key), less_is_better=True)


def latency(operation, crc):
    results = alternating(PAIRS, {
        'weft': lambda: measured('bench-verbs', 'latency', operation, ROUND_TRIPS, WEFT_CRC=crc,
                                 WEFT_LOCAL='off'),
        'TCP': lambda: measured('bench-raw', 'tcp', 'latency', ROUND_TRIPS)})
    for key in ('p50_us', 'p99_us'):
        compare('rnic.latency', f'{operation} 64 octets crc={crc} {key[:3]}', 'us',
                column(results['weft'], key), 'kernel TCP, spinning',
                column(results['TCP'], key), less_is_better=True)


def main():
    read_length = fastest_read_length()
    note(f'TCP is fastest here with reads of {read_length >> 10} KiB; iperf3: '
         f'{iperf3() or "not installed"} Gbit/s')
    for crc in ('on', 'off'):
        for size_name in SIZES:
            for operation in ('write', 'read', 'send'):
                bandwidth(operation, size_name, crc, read_length)
    for operation in ('send', 'write'):
        latency(operation, 'on')


if __name__ == '__main__':
    main()
