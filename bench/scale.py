#!/usr/bin/env python3
"""Does cost stay flat as connections grow? One to ten thousand of them between two processes: how
fast they are made, what a request of 64 octets takes by another one each time, how many requests
there are in a second, what an idle one has of resident memory, and what `weft stat` takes for each;
over memory of both processes (`here`) and over TCP (`wire`), beside raw TCP with one epoll.
"""

import contextlib
import json
import resource
import statistics
import subprocess
import time

from results import BUILD, alternating, column, compare, emit, environment, note, pairs_wanted

PAIRS = pairs_wanted(3)
COUNTS = (1, 16, 256, 4096, 10000)
FEW = 16
DESCRIPTORS_BESIDE = 100  # of a process, next to one for each connection
MEMORY_AIM_KIB = 16       # of one end
KINDS = {'here': {'WEFT_LOCAL': 'on'}, 'wire': {'WEFT_LOCAL': 'off'}}


@contextlib.contextmanager
def connected(carrier, count, settings):
    """The figures of a run whose connections are there until the end."""
    with subprocess.Popen([BUILD / 'bench/bench-scale', carrier, str(count)], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment(WEFT_WIRE='iwarp', **settings)) as running:
        line = running.stdout.readline()
        if not line:
            raise SystemExit(f'bench-scale {carrier} {count} ended without a figure')
        yield json.loads(line)
        running.stdin.close()


def of_tcp(count):
    with connected('tcp', count, {}) as figures:
        return figures


def of_weft(count, settings):
    with connected('verbs', count, settings) as figures:
        began = time.monotonic()
        subprocess.run([BUILD / 'weft', 'stat', '--json', str(figures['pid'])], check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        figures['stat_us_each'] = 1e6 * (time.monotonic() - began) / count
        figures['kib'] = (figures['client_kib'] + figures['server_kib']) / 2
        return figures


def compare_with_tcp(kind, count, ours, tcp):
    compare('scale.connect', f'{kind} {count} vs tcp', '1/s', column(ours, 'connects_per_s'),
            'kernel TCP', column(tcp, 'connects_per_s'))
    compare('scale.latency', f'{kind} {count} vs tcp', 'us', column(ours, 'p50_us'),
            'kernel TCP', column(tcp, 'p50_us'), less_is_better=True)
    compare('scale.requests', f'{kind} {count} vs tcp', '1/s', column(ours, 'requests_per_s'),
            'kernel TCP', column(tcp, 'requests_per_s'))


def compare_with_few(kind, count, ours, few):
    compare('scale.latency', f'{kind} {count} vs {FEW}', 'us', column(ours, 'p50_us'),
            f'{FEW} connections', column(few, 'p50_us'), less_is_better=True)
    compare('scale.stat', f'{kind} {count} vs {FEW}', 'us each', column(ours, 'stat_us_each'),
            f'{FEW} connections', column(few, 'stat_us_each'), less_is_better=True)
    emit('scale.memory', f'{kind} {count} idle', 'KiB', statistics.median(column(ours, 'kib')),
         'the aim', MEMORY_AIM_KIB, less_is_better=True)


def counts_allowed():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = [count for count in COUNTS if count + DESCRIPTORS_BESIDE <= hard]
    if len(allowed) < len(COUNTS):
        note(f'no more than {allowed[-1]} connections: this process may have {hard} descriptors')
    return allowed


def main():
    few = None
    for count in counts_allowed():
        measures = {kind: lambda settings=settings: of_weft(count, settings)
                    for kind, settings in KINDS.items()}
        results = alternating(PAIRS, {'tcp': lambda: of_tcp(count), **measures})
        few = results if count == FEW else few
        for kind in KINDS:
            compare_with_tcp(kind, count, results[kind], results['tcp'])
            if count > FEW:
                compare_with_few(kind, count, results[kind], few[kind])


if __name__ == '__main__':
    main()
