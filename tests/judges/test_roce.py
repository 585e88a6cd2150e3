#!/usr/bin/env python3
"""The RoCE device: queue pairs of datagrams and of reliable connections that are told GIDs and
numbers over TCP, and programs that look at the device before they use it."""

import judge
from judge import Case, count, own_address, perftest_check, says

ROCE = {'WEFT_WIRE': 'roce'}


def alone(program, wanted, *words):
    return Case(f'{program}: {wanted}', [program, *words], check=says(wanted), env=ROCE)


def pingpong(program, what, *options, iters=count(200, 10000)):
    words = [program, '-g', 0, '-p', '{port}', '-n', iters, *options]
    return Case(f'{program}: {what}', [*words, '{addr}'], words,
                says(r'^\d+ iters in [\d.]+ seconds'), env=ROCE)


def perftest(program, size, *options, iters=count(100, 5000)):
    words = [program, '-F', '-p', '{port}', '-n', iters, *options]
    if 'atomic' not in program:
        words += ['-s', size]
    name = ' '.join([program, *map(str, options)])
    return Case(f'{name}: {size} octets', [*words, '{addr}'], words, perftest_check([size]),
                env=ROCE)


def ucx(test, transports):
    words = ['ucx_perftest', '-p', '{port}']
    client = [*words, '{addr}', '-t', test, '-s', 4096, '-n', count(100, 10000)]
    return Case(f'ucx_perftest: {test} over {transports}', client, words, says(r'^Final: +\d+'),
                env={**ROCE, 'UCX_TLS': f'{transports},self', 'UCX_NET_DEVICES': 'weft_roce0:1'})


def no_interface():
    return '' if own_address() else 'libfabric asks for no loopback address, and there is no other'


def fabric(provider, endpoint, last):
    """Every octet is compared (-c). Connected endpoints belong to addresses of interfaces."""
    is_connected = endpoint == 'msg' or 'rxm' in provider
    words = ['fi_pingpong', '-p', provider, '-e', endpoint, '-c', '-I', count(20, 1000),
             '-d', 'weft_roce0' if is_connected else 'weft_roce0-dgram']
    return Case(f'fi_pingpong: {endpoint} over {provider}', [*words, '-P', '{port}', '{addr}'],
                [*words, '-B', '{port}'], says(rf'^{last} '), env=ROCE,
                cannot_run=no_interface if is_connected else lambda: '')


CASES = [
    alone('ibv_devices', 'weft_roce0'),
    alone('ibv_devinfo', r'transport:\s+InfiniBand', '-v'),
    alone('ibv_devinfo', r'GID\[ *0\]:.*RoCE v2', '-v'),
    alone('ucx_info', r'Transport: rc_verbs\s(.*\n)*#.*Transport: ud_verbs\s', '-d'),
    pingpong('ibv_ud_pingpong', 'polling'),
    pingpong('ibv_ud_pingpong', 'sleeping on completions', '-e'),
    pingpong('ibv_rc_pingpong', 'polling'),
    pingpong('ibv_rc_pingpong', 'a thousand packets each way', '-c', '-s', 1000000,
             iters=count(50, 1000)),
    pingpong('ibv_uc_pingpong', 'polling'),
    pingpong('ibv_srq_pingpong', '16 queue pairs on a shared receive queue'),
    perftest('ib_send_bw', 1024, '-c', 'UD'),
    perftest('ib_send_lat', 64, '-c', 'UD'),
    perftest('ib_write_bw', 4096, '-c', 'UC'),
    perftest('ib_write_bw', 65536, '-c', 'UC', iters=1000),
    perftest('ib_send_bw', 65536, '-c', 'UC', iters=1000), # 62 MB, of which none may be lost
    perftest('ib_send_bw', 65536),
    perftest('ib_write_bw', 65536),
    perftest('ib_write_lat', 64),
    perftest('ib_read_bw', 65536),
    perftest('ib_read_lat', 64),
    perftest('ib_atomic_bw', 8),
    perftest('ib_atomic_lat', 8),
    ucx('tag_lat', 'ud_v'),
    ucx('tag_bw', 'rc_v,ud_v'),
    fabric('verbs', 'dgram', '1k'),
    fabric('verbs;ofi_rxd', 'rdm', '1m'),
    fabric('verbs', 'msg', '1m'),
    fabric('verbs;ofi_rxm', 'rdm', '1m'),
]

if __name__ == '__main__':
    judge.run_cases(__doc__, lambda: CASES)
