#!/usr/bin/env python3
"""weft beside raw kernel TCP: bandwidth and round trip, CRC on and off, processor time.

Both go through the kernel's TCP (bench/host.py has the memory of both ends). TCP reads with
whichever buffer length is fastest here. Source and sink are of the same size on both
sides. `vs best` is TCP as fast as it gets here, whatever it writes at a time; without it, it
writes as much as a message has.

weft's programs spin on their completion queues, and so their processors are busy all the time,
where TCP's sleep in its calls: `sleep` is the processor time of programs that do so too, and wait
for completion events.
"""

import json
import statistics
import subprocess
import time

from results import alternating, column, compare, measured, note, pairs_wanted, seconds_wanted

PAIRS = pairs_wanted(7)
SECONDS = seconds_wanted('0.25')
ROUND_TRIPS = '20000'
WRITE_LENGTHS = (64 << 10, 128 << 10, 256 << 10, 512 << 10)
READ_LENGTHS = (16 << 10, 64 << 10, 128 << 10, 256 << 10)
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}


def tcp_bandwidth(size, read_length):
    return measured('bench-raw', 'tcp', 'bw', size, read_length, SECONDS)


def fastest(lengths, run):
    """Of these lengths, by the median of three runs each."""
    def speed(length):
        return statistics.median(run(length)['octets_per_s'] for _ in range(3))
    return max(lengths, key=speed)


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


def bandwidth(operation, size_name, crc, write_length, read_length):
    def weft(*words):
        return measured('bench-verbs', operation, size, SECONDS, *words, WEFT_CRC=crc,
                        WEFT_LOCAL='off')
    size = SIZES[size_name]
    results = alternating(PAIRS, {
        'weft': weft,
        'asleep': lambda: weft('sleep'),
        'TCP': lambda: tcp_bandwidth(size, read_length),
        'best': lambda: tcp_bandwidth(write_length, read_length)})
    bench, case = f'rnic.{operation}_bw', f'{size_name} crc={crc}'
    for other, suffix, name in (('TCP', '', 'kernel TCP'),
                                ('best', ' vs best', 'kernel TCP at its best')):
        key = 'octets_per_s'
        compare(bench, case + suffix, 'GB/s', column(results['weft'], key), name,
                column(results[other], key), scale=1e9)
        key = 'cpu_ns_per_octet'
        for ours, way in (('weft', ''), ('asleep', ' sleep')):
            compare(bench, f'{case} cpu{way}{suffix}', 'ns/octet', column(results[ours], key),
                    name, column(results[other], key), less_is_better=True)


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
    read_length = fastest(READ_LENGTHS, lambda length: tcp_bandwidth(64 << 10, length))
    write_length = fastest(WRITE_LENGTHS, lambda length: tcp_bandwidth(length, read_length))
    note(f'TCP is fastest here with writes of {write_length >> 10} KiB and reads of '
         f'{read_length >> 10} KiB; iperf3: {iperf3() or "not installed"} Gbit/s')
    for crc in ('on', 'off'):
        for size_name in SIZES:
            for operation in ('write', 'read', 'send'):
                bandwidth(operation, size_name, crc, write_length, read_length)
    for operation in ('send', 'write'):
        latency(operation, 'on')


if __name__ == '__main__':
    main()
