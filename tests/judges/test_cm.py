#!/usr/bin/env python3
"""Judges of connections and devices: rping, ucmatose, rdma_client, cmtime, rstream, ibv_devinfo."""

import re
import subprocess

import judge
from judge import Case, count, says


def rping(name, size, *options, addr=''):
    """Both ends check the data (-V); the client also shows it (-v), once for each ping."""
    pings = count(100, 1000)
    words = ['rping', '-a', '{addr}', '-p', '{port}', '-C', pings, '-S', size, '-V', *options]

    def check(outcome):
        seen = len(re.findall(r'^ping data: rdma-ping-', outcome.client, re.M))
        return None if seen == pings else f'{seen} of {pings} pings came back'
    return Case(f'rping: {name}', [*words, '-c', '-v'], [*words, '-s'], check, addr=addr)


def ucmatose(name, *options, addr=''):
    words = ['ucmatose', '-p', '{port}', *options]
    return Case(f'ucmatose: {name}', [*words, '-s', '{addr}'], [*words, '-b', '{addr}'],
                says(r'^data transfers complete', r'^test complete', r'^return status 0'),
                addr=addr)


CONNECTIONS = count(20, 200)


def cmtime_wants_tcp_too():
    """Newer ones (their usage has -S) also listen on a TCP socket of the same port number."""
    usage = subprocess.run(['cmtime', '-h'], capture_output=True, text=True)
    return ('this cmtime binds its port for TCP and for RDMA, which on iWARP are one'
            if '[-S]' in usage.stdout + usage.stderr else '')


CASES = [
    Case('ibv_devices lists the device', ['ibv_devices'], check=says(r'^\s+weft0\s+[0-9a-f]{16}$')),
    Case('ibv_devinfo -v describes an iWARP device with an active port', ['ibv_devinfo', '-v'],
         check=says(r'^hca_id:\s+weft0', r'transport:\s+iWARP \(1\)', r'state:\s+PORT_ACTIVE \(4\)',
                    r'max_qp:\s+[1-9]', r'GID\[\s*0\]')),
    rping('100 octets', 100),
    rping('4 KiB', 4096),
    rping('the longest, 65,535 octets', 65535),
    rping('IPv6', 4096, addr='::1'),
    rping('queue pairs of its own (-q)', 4096, '-q'),
    ucmatose('one connection'),
    ucmatose('many connections', '-c', CONNECTIONS),
    ucmatose('messages of 1,000 octets both ways', '-c', 4, '-C', count(100, 1000), '-S', 1000),
    ucmatose('ids migrated between event channels', '-c', 4, '-m'),
    ucmatose('a type of service', '-c', 2, '-t', 8),
    ucmatose('IPv6', '-c', 2, '-f', 'ipv6', addr='::1'),
    Case('rdma_client and rdma_server exchange a message',
         ['rdma_client', '-s', '{addr}', '-p', '{port}'],
         ['rdma_server', '-s', '{addr}', '-p', '{port}'], says(r'^rdma_client: end 0')),
    Case('cmtime sets up and tears down connections',
         ['cmtime', '-s', '{addr}', '-p', '{port}', '-c', CONNECTIONS],
         ['cmtime', '-b', '{addr}', '-p', '{port}', '-c', CONNECTIONS],
         says(r'^connect ', r'^disconnect '), server_stays=True, cannot_run=cmtime_wants_tcp_too),
    Case('rstream streams over rsockets',
         ['rstream', '-s', '{addr}', '-p', '{port}', '-S', 4096, '-C', 100, '-I', 10],
         ['rstream', '-b', '{addr}', '-p', '{port}', '-S', 4096, '-C', 100, '-I', 10],
         says(r'^custom +4k '), absent='rsocket failed: Operation not supported'),
]

if __name__ == '__main__':
    judge.run_cases(__doc__, lambda: CASES)
