#!/usr/bin/env python3
"""The RoCE device: queue pairs of datagrams and of reliable connections that are told GIDs and
numbers over TCP, and programs that look at the device before they use it."""

import os
import pathlib
import re

import judge
from judge import PERFTEST_RACE, Case, count, own_address, perftest_check, says

HERE = pathlib.Path(__file__).resolve().parent
ROCE = {'WEFT_WIRE': 'roce'}
PERFTEST = {  # operation: the services that have it, and octets of a message
    'send': {'RC': 65536, 'UC': 65536, 'UD': 1024},
    'write': {'RC': 65536, 'UC': 65536},
    'read': {'RC': 65536},
    'atomic': {'RC': None},
}


def alone(program, wanted, *words):
    return Case(f'{program}: {wanted}', [program, *words], check=says(wanted), env=ROCE)


def pingpong(program, what, *options, iters=count(200, 10000)):
    words = [program, '-g', 0, '-p', '{port}', '-n', iters, *options]

    def check(outcome):
        if 'invalid data' in outcome.server:  # of -c, which ends with 0 all the same
            return 'the server has got other octets than were sent'
        return says(r'^\d+ iters in [\d.]+ seconds')(outcome)
    return Case(f'{program}: {what}', [*words, '{addr}'], words, check, env=ROCE)


def perftest(program, size, *options, iters=count(50, 5000)):
    words = [program, '-F', '-p', '{port}', '-n', iters, *options]
    if size:
        words += ['-s', size]
    name = ' '.join([program, *map(str, options)])
    return Case(f'{name}: {size or 8} octets', [*words, '{addr}'], words,
                perftest_check([size or 8]), env=ROCE, race=PERFTEST_RACE,
                unheard='Unable to init the socket connection' if '-R' in options else '')


def perftest_services():
    """Each operation over each service that has it, brought up by hand and by rdma_cm (-R)."""
    for verb, services in PERFTEST.items():
        for service, size in services.items():
            yield perftest(f'ib_{verb}_bw', size, '-c', service)
            yield perftest(f'ib_{verb}_lat', size and 64, '-c', service)
            if service != 'UC':  # "UC is not supported in librdmacm"
                yield perftest(f'ib_{verb}_bw', size, '-c', service, '-R')
                yield perftest(f'ib_{verb}_lat', size and 64, '-c', service, '-R')


def ucx(tests, name, env=None):
    """All tests of a file in one pair of processes: a line of figures for each of them."""
    words = ['ucx_perftest', '-p', '{port}', '-d', 'weft_roce0:1', '-b', HERE / tests]

    def check(outcome):
        wanted = [line.split()[0] for line in (HERE / tests).read_text().splitlines()
                  if not line.startswith('#')]
        rates = re.findall(r'^(\w+),.*,([\d.]+)$', outcome.client, re.M)
        if [test for test, _ in rates] != wanted:
            return f'{len(rates)} of {len(wanted)} tests have figures'
        return None if all(float(rate) > 0 for _, rate in rates) else 'a message rate is zero'
    return Case(f'ucx_perftest: {name}', [*words, '-f', '-v', '{addr}'], words, check,
                env={**ROCE, 'UCX_NET_DEVICES': 'weft_roce0:1', **(env or {})},
                cannot_run=lambda: '' if os.access(HERE / tests, os.R_OK) else 'no file of tests')


def ucp(transports):
    return ucx('ucx-ucp.txt', f'UCP over {transports}', {'UCX_TLS': f'{transports},self'})


def qperf(test, figure):
    """qperf asks by rdma_cm for RC alone; UC and UD it connects by LIDs, which RoCE has not."""
    return Case(f'qperf: {test}', ['qperf', '{addr}', '-lp', '{port}', '-cm1', '-t', 1, test],
                ['qperf', '-lp', '{port}'], says(rf'^ +{figure} += +[\d.]*[1-9]'),
                server_stays=True, env=ROCE)


def no_interface():
    return '' if own_address() else 'libfabric asks for no loopback address, and there is no other'


# libfabric's rxm looks for completions, then for the end of the connection, and destroys the queue
# pair when it finds that: what completed in between is lost with it, as on cards (mlx5).
RXM_RACE = 'cq_readerr: Work Request Flushed Error'


def fabric(provider, endpoint, last):
    """Every octet is compared (-c). Connected endpoints belong to addresses of interfaces."""
    is_connected = endpoint == 'msg' or 'rxm' in provider
    words = ['fi_pingpong', '-p', provider, '-e', endpoint, '-c', '-I', count(20, 1000),
             '-d', 'weft_roce0' if is_connected else 'weft_roce0-dgram']
    return Case(f'fi_pingpong: {endpoint} over {provider}', [*words, '-P', '{port}', '{addr}'],
                [*words, '-B', '{port}'], says(rf'^{last} '), env=ROCE,
                race=RXM_RACE if 'rxm' in provider else '',
                cannot_run=no_interface if is_connected else lambda: '')


CASES = [
    alone('ibv_devices', 'weft_roce0'),
    alone('ibv_devinfo', r'transport:\s+InfiniBand', '-v'),
    alone('ibv_devinfo', r'GID\[ *0\]:.*RoCE v2', '-v'),
    alone('ucx_info', r'Transport: rc_verbs\s(.*\n)*#.*Transport: ud_verbs\s', '-d'),
    pingpong('ibv_ud_pingpong', 'every octet compared', '-c'),
    pingpong('ibv_ud_pingpong', 'sleeping on completions', '-e'),
    pingpong('ibv_rc_pingpong', 'every octet compared', '-c'),
    pingpong('ibv_rc_pingpong', 'a thousand packets each way', '-c', '-s', 1000000,
             iters=count(50, 1000)),
    pingpong('ibv_uc_pingpong', 'every octet compared', '-c'),
    pingpong('ibv_srq_pingpong', '16 queue pairs on a shared receive queue'),
    *perftest_services(),
    perftest('ib_write_bw', 65536, '-c', 'UC', iters=1000),
    perftest('ib_send_bw', 65536, '-c', 'UC', iters=1000),  # 62 MB, of which none may be lost
    perftest('ib_send_bw', 1024, '-c', 'UD', '-b'),
    perftest('ib_send_bw', 4096, '-q', 4, '--use-srq'),
    perftest('ib_send_bw', 4096, '-r', 1),
    perftest('ib_send_bw', 4096, '-e'),
    perftest('ib_write_bw', 65536, '-b', '-q', 4),
    perftest('ib_read_bw', 65536, '-b', '-q', 4),
    perftest('ib_atomic_bw', None, '-A', 'CMP_AND_SWAP'),
    perftest('ib_write_bw', 4096, '--reversed'),
    perftest('ib_read_bw', 4096, '-m', 256),
    ucp('ud_v'),
    ucp('rc_v'),
    ucp('rc_v,ud_v'),
    ucx('ucx-uct.txt', 'UCT'),
    qperf('rc_bi_bw', 'bw'),
    qperf('rc_rdma_write_poll_lat', 'latency'),
    qperf('ver_rc_compare_swap', 'msg_rate'),
    qperf('ver_rc_fetch_add', 'msg_rate'),
    fabric('verbs', 'dgram', '1k'),
    fabric('verbs;ofi_rxd', 'rdm', '1m'),
    fabric('verbs', 'msg', '1m'),
    fabric('verbs;ofi_rxm', 'rdm', '1m'),
]

if __name__ == '__main__':
    judge.run_cases(__doc__, lambda: CASES)
