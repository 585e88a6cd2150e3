#!/usr/bin/env python3
"""RoCE on loopback beside raw UDP, beside weft's iWARP, and UCX over it beside UCX over tcp.

roce.write_bw, read_bw, send_bw: messages in one direction at path MTU 1024 and 4096, the ICRC of
what arrives checked and not. Raw UDP has datagrams as long and as much of them on the way at most:
sendto, sendmmsg, UDP_SEGMENT, and that with UDP_GRO; `raw` in a case is the fastest of them. iWARP
goes over `socket` and over `udp`, where `lo` is as it is by itself.
roce.latency: 64 octets there and back, both ends spinning.
roce.ucx: ucx_perftest.
roce.local_bw, local_latency, local_ucx: the same through memory of both processes (WEFT_LOCAL=on),
beside raw UDP and beside the packets that go through the kernel. All others are about the wire.
roce.loss: Writes of 64 KiB while packets are lost, both ways, beside iWARP over `udp` that loses as
many.
roce.carrier: packets with no transport above them, beside trains of datagrams, both flooding.

All of it runs in a network namespace of its own, whose `lo` has the MTU that the path MTU follows
from.
"""

import os
import shutil
import statistics
import subprocess
import sys

import ucx
from results import (BUILD, alternating, column, compare, measured, note, pairs_wanted,
                     seconds_wanted)

PAIRS = pairs_wanted(3)
SECONDS = seconds_wanted('0.2')
ROUND_TRIPS = 4000
HEADERS_LEN = 12 + 4  # BTH and ICRC
WINDOWS = {1024: 240, 4096: 120}  # packets that weft ends have out at most, by path MTU
SIZES = {'4KiB': 4 << 10, '64KiB': 64 << 10, '1MiB': 1 << 20}
INTERFACE_MTUS = {1024: 1500, 4096: 65536}
WAYS = ('sendto', 'sendmmsg', 'gso', 'gso+gro')
LOSSES = (0, 0.1, 0.5, 1, 2, 5)
UCX = {'put 4KiB': ('ucp_put_bw', 4 << 10, 20000), 'put 64KiB': ('ucp_put_bw', 64 << 10, 5000),
       'get 4KiB': ('ucp_get', 4 << 10, 4000), 'get 64KiB': ('ucp_get', 64 << 10, 2000),
       'tag 1MiB': ('tag_bw', 1 << 20, 300)}
UCX_PORT = 13337
WIRE = {'WEFT_WIRE': 'roce', 'WEFT_LOCAL': 'off'}
LOCAL = {'WEFT_WIRE': 'roce', 'WEFT_LOCAL': 'on'}


def set_mtu(path_mtu):
    subprocess.run(['ip', 'link', 'set', 'lo', 'up', 'mtu', str(INTERFACE_MTUS[path_mtu])],
                   check=True)


def verbs(*words, **settings):
    return lambda: measured('bench-verbs', *words, **settings)


def beside(bench, case, unit, key, ours, theirs, **how):
    """One line for each baseline {name: results}."""
    for baseline, results in theirs.items():
        compare(bench, f'{case} vs {baseline}', unit, column(ours, key), baseline,
                column(results, key), **how)


# --- bandwidth ----------------------------------------------------------------------------------

def raw(way, mtu):
    """Octets of payload: each datagram has as many more as a packet has headers."""
    datagram = mtu + HEADERS_LEN

    def run():
        figures = measured('bench-windowed', way, datagram, WINDOWS[mtu] * datagram, SECONDS)
        figures['octets_per_s'] *= mtu / datagram
        figures['cpu_ns_per_octet'] *= datagram / mtu
        return figures
    return run


def fastest_raw(results, case):
    """Of the ways of raw UDP, by the median; all are shown."""
    speeds = {way: statistics.median(column(results[way], 'octets_per_s')) for way in WAYS}
    fastest = max(WAYS, key=speeds.get)
    for way in WAYS:
        compare('roce.raw', f'{case} {way}', 'GB/s', column(results[way], 'octets_per_s'), fastest,
                column(results[fastest], 'octets_per_s'), scale=1e9)
    return results[fastest]


def bandwidth(mtu, size_name):
    size, operations = SIZES[size_name], ('write', 'read', 'send')
    links = ('socket', 'udp') if mtu == max(INTERFACE_MTUS) else ()
    measures = {way: raw(way, mtu) for way in WAYS}
    for operation in operations:
        words = (operation, size, SECONDS)
        measures[operation] = verbs(*words, **WIRE)
        measures[operation, 'unchecked'] = verbs(*words, WEFT_CRC='off', **WIRE)
        measures[operation, 'local'] = verbs(*words, **LOCAL)
        for link in links:
            measures[operation, link] = verbs(*words, WEFT_WIRE='iwarp', WEFT_LOCAL='off',
                                               WEFT_LINK=link)
    results = alternating(PAIRS, measures)
    case, key = f'{size_name} mtu={mtu}', 'octets_per_s'
    fastest = fastest_raw(results, case)
    for operation in operations:
        bench, ours = f'roce.{operation}_bw', results[operation]
        baselines = {'raw': fastest,
                     **{f'iWARP {link}': results[operation, link] for link in links}}
        beside(bench, case, 'GB/s', key, ours, baselines, scale=1e9)
        beside(bench, f'{case} unchecked', 'GB/s', key, results[operation, 'unchecked'],
               {'raw': fastest}, scale=1e9)
        beside(bench, f'{case} cpu', 'ns/octet', 'cpu_ns_per_octet', ours, baselines,
               less_is_better=True)
        local, wire = results[operation, 'local'], {'raw': fastest, 'wire': ours}
        beside('roce.local_bw', f'{operation} {case}', 'GB/s', key, local, wire, scale=1e9)
        beside('roce.local_bw', f'{operation} {case} cpu', 'ns/octet', 'cpu_ns_per_octet', local,
               wire, less_is_better=True)


def carrier(mtu):
    results = alternating(PAIRS, {
        'checked': lambda: measured('bench-datagram', 'bw', mtu, SECONDS),
        'unchecked': lambda: measured('bench-datagram', 'bw', mtu, SECONDS, 'unchecked'),
        'raw': lambda: measured('bench-raw', 'udp', 'bw', mtu + HEADERS_LEN, SECONDS)})
    for ours in ('checked', 'unchecked'):
        beside('roce.carrier', f'mtu={mtu} {ours}', 'GB/s', 'octets_per_s', results[ours],
               {'raw': results['raw']}, scale=1e9)


# --- round trips --------------------------------------------------------------------------------

def latency():
    results = alternating(PAIRS, {
        'raw': lambda: measured('bench-raw', 'udp', 'latency', ROUND_TRIPS),
        'carrier': lambda: measured('bench-datagram', 'latency', ROUND_TRIPS),
        **{(operation, wire): verbs('latency', operation, ROUND_TRIPS, **settings)
           for operation in ('send', 'write')
           for wire, settings in (('roce', WIRE), ('local', LOCAL),
                                  ('iWARP socket', {'WEFT_WIRE': 'iwarp', 'WEFT_LOCAL': 'off'}),
                                  ('iWARP udp', {'WEFT_WIRE': 'iwarp', 'WEFT_LINK': 'udp'}))}})
    for key in ('p50_us', 'p99_us'):
        beside('roce.latency', f'carrier 64 octets {key[:3]}', 'us', key, results['carrier'],
               {'raw': results['raw']}, less_is_better=True)
        for operation in ('send', 'write'):
            links = {wire: results[operation, wire] for wire in ('iWARP socket', 'iWARP udp')}
            beside('roce.latency', f'{operation} 64 octets {key[:3]}', 'us', key,
                   results[operation, 'roce'], {'raw': results['raw'], **links},
                   less_is_better=True)
            beside('roce.local_latency', f'{operation} 64 octets {key[:3]}', 'us', key,
                   results[operation, 'local'],
                   {'raw': results['raw'], 'wire': results[operation, 'roce']},
                   less_is_better=True)


# --- losses -------------------------------------------------------------------------------------

def losses():
    words = ('write', 64 << 10, SECONDS)
    for loss in LOSSES:
        fault = {'WEFT_FAULT': f'loss={loss}%'} if loss else {}
        results = alternating(PAIRS, {
            'roce': verbs(*words, **WIRE, **fault),
            'iWARP udp': verbs(*words, WEFT_WIRE='iwarp', WEFT_LINK='udp', **fault)})
        beside('roce.loss', f'{loss} % lost', 'MB/s', 'octets_per_s', results['roce'],
               {'iWARP udp': results['iWARP udp']}, scale=1e6)


# --- UCX ----------------------------------------------------------------------------------------

def ucx_rate(test, size, count, words, settings):
    """MB/s over the whole run."""
    last = ucx.last_line(UCX_PORT, test, size, count, words, **settings)
    return {'mb_per_s': float(last[5])}


def ucx_beside_tcp():
    over_roce = ([str(BUILD / 'weft'), 'run', '--wire=roce', '--'],
                 {'UCX_TLS': 'rc_v,self', 'UCX_NET_DEVICES': 'weft_roce0:1', **WIRE})
    over_local = (over_roce[0], {**over_roce[1], **LOCAL})
    over_tcp = ([], {'UCX_TLS': 'tcp,self', 'UCX_NET_DEVICES': 'lo'})
    for case, words in UCX.items():
        results = alternating(PAIRS, {'roce': lambda: ucx_rate(*words, *over_roce),
                                      'local': lambda: ucx_rate(*words, *over_local),
                                      'UCX tcp': lambda: ucx_rate(*words, *over_tcp)})
        for bench, ours in (('roce.ucx', 'roce'), ('roce.local_ucx', 'local')):
            beside(bench, case, 'MB/s', 'mb_per_s', results[ours],
                   {'UCX tcp': results['UCX tcp']})


def main():
    if 'WEFT_BENCH_NETNS' not in os.environ:
        os.environ['WEFT_BENCH_NETNS'] = '1'
        os.execvp('unshare', ['unshare', '--map-root-user', '--net', sys.executable, *sys.argv])
    for mtu in INTERFACE_MTUS:
        set_mtu(mtu)
        carrier(mtu)
        for size_name in SIZES:
            bandwidth(mtu, size_name)
    latency()
    losses()
    if shutil.which('ucx_perftest'):
        ucx_beside_tcp()
    else:
        note('roce.ucx: there is no ucx_perftest')


if __name__ == '__main__':
    main()
