#!/usr/bin/env python3
"""weft beside raw kernel TCP: bandwidth and round trip, CRC on and off, processor time.

Every figure is the median of alternating pairs (weft, TCP, weft, TCP, ...) of one run, since the
speed of a machine drifts; the spread stands on stderr. TCP reads with whichever buffer length is
fastest here. Source and sink are of the same size on both sides.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

BUILD = pathlib.Path(os.environ['WEFT_BUILD_DIR'])
PAIRS = int(os.environ.get('WEFT_BENCH_PAIRS', '7'))
SECONDS = os.environ.get('WEFT_BENCH_SECONDS', '0.25')
ROUND_TRIPS = '20000'
READ_LENGTHS = (16 << 10, 64 << 10, 128 << 10, 256 << 10)
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}


def run(program, *arguments, **settings):
    environment = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'lib'), **settings}
    output = subprocess.run([BUILD / 'bench' / program, *arguments], env=environment, text=True,
                            stdout=subprocess.PIPE, timeout=30, check=True).stdout
    return json.loads(output)


def tcp_bandwidth(size, read_length):
    return run('bench-tcp', 'bw', str(size), str(read_length), SECONDS)


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


def pairs(measure, baseline):
    ours, theirs = [], []
    for _ in range(PAIRS):
        ours.append(measure())
        theirs.append(baseline())
    return ours, theirs


def median_of(results, key):
    return statistics.median(result[key] for result in results)


def emit(bench, case, value, unit, baseline, baseline_value, ratio, spread):
    print(json.dumps({'bench': bench, 'case': case, 'value': value, 'unit': unit,
                      'baseline': baseline, 'baseline_value': baseline_value,
                      'ratio': ratio}), flush=True)
    print(f'{bench} {case}: {value:.3f} {unit}, {ratio:.2f} of {baseline}'
          f' (spread {spread[0]:.3f} to {spread[1]:.3f})', file=sys.stderr)


def bandwidth(operation, size_name, crc, read_length):
    size = SIZES[size_name]
    ours, theirs = pairs(
        lambda: run('bench-verbs', operation, str(size), SECONDS, WEFT_CRC=crc),
        lambda: tcp_bandwidth(size, read_length))
    key = 'octets_per_s'
    value, base = median_of(ours, key) / 1e9, median_of(theirs, key) / 1e9
    spread = [pick(result[key] for result in ours) / 1e9 for pick in (min, max)]
    case = f'{size_name} crc={crc}'
    emit(f'rnic.{operation}_bw', case, value, 'GB/s', 'kernel TCP', base, value / base, spread)
    key = 'cpu_ns_per_octet'
    value, base = median_of(ours, key), median_of(theirs, key)
    spread = [pick(result[key] for result in ours) for pick in (min, max)]
    emit(f'rnic.{operation}_bw', case + ' cpu', value, 'ns/octet', 'kernel TCP', base,
         base / value, spread)


def latency(operation, crc):
    ours, theirs = pairs(
        lambda: run('bench-verbs', 'latency', operation, ROUND_TRIPS, WEFT_CRC=crc),
        lambda: run('bench-tcp', 'latency', ROUND_TRIPS))
    for key in ('p50_us', 'p99_us'):
        value, base = median_of(ours, key), median_of(theirs, key)
        spread = [pick(result[key] for result in ours) for pick in (min, max)]
        emit('rnic.latency', f'{operation} 64 octets crc={crc} {key[:3]}', value, 'us',
             'kernel TCP, spinning', base, base / value, spread)


def main():
    read_length = fastest_read_length()
    print(f'TCP is fastest here with reads of {read_length >> 10} KiB; iperf3: '
          f'{iperf3() or "not installed"} Gbit/s', file=sys.stderr)
    for crc in ('on', 'off'):
        for size_name in SIZES:
            for operation in ('write', 'read', 'send'):
                bandwidth(operation, size_name, crc, read_length)
    for operation in ('send', 'write'):
        latency(operation, 'on')


if __name__ == '__main__':
    main()
