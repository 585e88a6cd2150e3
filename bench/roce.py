#!/usr/bin/env python3
"""Packets of RoCE over UDP sockets on loopback, beside raw UDP with nothing on top.

roce.carrier: packets of one path MTU in one direction, with no transport above them: staging,
ICRC, bursts, parting and checking, and a copy to where they belong. Raw UDP sends trains of
datagrams as long (UDP_SEGMENT, UDP_GRO). What got lost on the way is not counted, since both flood.
roce.latency: 64 octets there and back, both ends spinning.
"""

from results import alternating, column, compare, measured, pairs_wanted, seconds_wanted

PAIRS = pairs_wanted(5)
SECONDS = seconds_wanted('0.25')
ROUND_TRIPS = 4000
HEADERS_LEN = 12 + 4  # BTH and ICRC


def carrier(mtu):
    results = alternating(PAIRS, {
        'checked': lambda: measured('bench-datagram', 'bw', mtu, SECONDS),
        'unchecked': lambda: measured('bench-datagram', 'bw', mtu, SECONDS, 'unchecked'),
        'raw': lambda: measured('bench-raw', 'udp', 'bw', mtu + HEADERS_LEN, SECONDS)})
    for ours in ('checked', 'unchecked'):
        compare('roce.carrier', f'mtu={mtu} {ours} vs raw', 'GB/s',
                column(results[ours], 'octets_per_s'), 'raw UDP with GSO',
                column(results['raw'], 'octets_per_s'), scale=1e9)
        compare('roce.carrier', f'mtu={mtu} {ours} cpu vs raw', 'ns/octet',
                column(results[ours], 'cpu_ns_per_octet'), 'raw UDP with GSO',
                column(results['raw'], 'cpu_ns_per_octet'), less_is_better=True)


def latency():
    results = alternating(PAIRS, {
        'ours': lambda: measured('bench-datagram', 'latency', ROUND_TRIPS),
        'raw': lambda: measured('bench-raw', 'udp', 'latency', ROUND_TRIPS)})
    for key in ('p50_us', 'p99_us'):
        compare('roce.latency', f'carrier 64 octets {key[:3]} vs raw', 'us',
                column(results['ours'], key), 'raw UDP', column(results['raw'], key),
                less_is_better=True)


def main():
    for mtu in (1024, 4096):
        carrier(mtu)
    latency()


if __name__ == '__main__':
    main()
