#!/usr/bin/env python3
"""The RoCE device on a host with several addresses: each is a GID, in an order of its own, and each
carries what programs send from it."""

import ipaddress
import re
import subprocess
import sys
import threading

import judge
import tapnet
import test_roce_cm
from judge import BUILD, Case, count, perftest_check, says
from tapnet import ip

# Network interfaces with their MTUs and addresses, those that come first among them first.
HOST = {
    'first': (1500, ['10.9.0.1/24', '10.9.0.2/24', 'fd09::1/64', 'fe80::9/64']),
    'second': (9000, ['10.8.0.1/24']),
    'short': (900, ['10.7.0.1/24']),  # than packets of the first one
}
PATIENCE_S = 30
GIDS = '::ffff:10.9.0.1', '::ffff:10.9.0.2', '::ffff:10.8.0.1', 'fd09::1', 'fe80::9'
UCX = {'UCX_TLS': 'rc_v,ud_v,self', 'UCX_NET_DEVICES': 'weft_roce0:1'}


def table(outcome):
    found = re.findall(r'GID\[ *\d+\]:\s+(\S+), RoCE v2', outcome.client)
    addresses = [ipaddress.ip_address(text) for text in found]
    if addresses != [ipaddress.ip_address(text) for text in GIDS]:
        return f'the GIDs are {found}'
    return None


def pingpong(program, index):
    words = [program, '-g', index, '-p', '{port}', '-n', count(200, 5000)]
    return Case(f'{program}: GID {index}, {GIDS[index]}', [*words, '{addr}'], words,
                says(r'^\d+ iters in [\d.]+ seconds'))


def perftest(program, *options):
    words = [program, '-F', '-p', '{port}', '-n', count(100, 5000), '-s', 1024, *options]
    return Case(' '.join(map(str, [program, *options])), [*words, '{addr}'], words,
                perftest_check([1024]))


def ucx(name, **env):
    words = ['ucx_perftest', '-p', '{port}']
    return Case(f'ucx_perftest: {name}', [*words, '{addr}', '-t', 'tag_lat', '-n', 100], words,
                says(r'^Final: +\d+'), env={**UCX, **env})


def rdma_cm(tap):
    """To each kind of address, from the one that the way there has."""
    for addr in '10.9.0.2', '10.8.0.1', 'fd09::1':
        for case in test_roce_cm.rping(addr), test_roce_cm.udaddy(addr):
            said, *ends = test_roce_cm.run(case)
            good = test_roce_cm.is_good(case, said, *ends)
            tap.report(f'{case.client[0]}: to {addr}', [] if good else said.splitlines())


def watched(tap):
    """Who watches events hears of an address that comes, and of one that goes."""
    words = [BUILD / 'weft', 'run', '--wire=roce', '--', 'ibv_asyncwatch', '-d', 'weft_roce0']
    said = []
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watch:
        limit = threading.Timer(PATIENCE_S, watch.kill)
        limit.start()
        said.append(watch.stdout.readline())  # it has the device open
        for verb in 'add', 'del':
            ip('address', verb, '10.9.5.5/24', 'dev', 'first')
            said.append(watch.stdout.readline())
        limit.cancel()
        watch.kill()
    good = all('IBV_EVENT_GID_CHANGE' in line for line in said[1:])
    tap.report('ibv_asyncwatch: an address comes and goes', [] if good else said)


def cases():
    yield Case('ibv_devinfo: the table', ['ibv_devinfo', '-v'], check=table)
    for index in range(len(GIDS)):
        yield pingpong('ibv_rc_pingpong', index)
        yield pingpong('ibv_ud_pingpong', index)
    yield perftest('ib_write_bw')
    yield perftest('ib_send_bw', '-x', 3)
    yield perftest('ib_send_lat', '-c', 'UD', '-x', 2)
    yield ucx('a GID of its own choice')
    yield ucx('told the GID', UCX_IB_GID_INDEX='3')


def own_tests():
    yield Case('tests of the verbs on such a host', [BUILD / 'tests/test_verbs_roce'])
    yield Case('tests of rdma_cm on such a host', [BUILD / 'tests/test_cm_roce'])


def main():
    options = judge.argument_parser(__doc__).parse_args()
    try:
        tapnet.enter_namespace('ip', 'link', 'add', 'probe', 'type', 'bridge')
    except tapnet.NotHere as why:
        judge.skip_all(str(why))
    tap = judge.Tap()
    try:
        ip('link', 'set', 'lo', 'up')
        for name, (mtu, addresses) in HOST.items():
            ip('link', 'add', name, 'type', 'bridge')
            ip('link', 'set', name, 'addrgenmode', 'none')
            ip('link', 'set', name, 'mtu', str(mtu), 'up')
            for address in addresses:
                ip('address', 'add', address, 'dev', name, *(['nodad'] if ':' in address else []))
    except subprocess.CalledProcessError:
        judge.skip_all('no bridge, or no IPv6, here')
    with judge.weft_side(options=['--wire=roce'], unprivileged=False) as side:
        for case in judge.chosen(options, cases):
            judge.run_case(tap, case, side)
    if not options.only:
        rdma_cm(tap)
        watched(tap)
    with judge.Local('127.0.0.1', unprivileged=False) as side:
        for case in judge.chosen(options, own_tests):
            judge.run_case(tap, case, side)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
