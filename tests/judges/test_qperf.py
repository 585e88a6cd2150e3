#!/usr/bin/env python3
"""Judges of throughput and latency once more, by another hand: qperf over rdma_cm (-cm1)."""

import re

import judge
from judge import Case, count

SECONDS = count(1, 10)


def qperf(test, figure, unit):
    def check(outcome):
        match = re.search(rf'{figure}\s*=\s*([\d.,]+) {unit}', outcome.client)
        if not match:
            return f'no {figure} is reported'
        return None if float(match[1].replace(',', '')) > 0 else f'{figure} is zero'
    return Case(f'qperf: {test}',
                ['qperf', '{addr}', '-lp', '{port}', '-cm1', '-t', SECONDS, test],
                ['qperf', '-lp', '{port}'], check, server_stays=True)


CASES = [
    qperf('rc_bw', 'bw', '[KMG]?B/sec'),
    qperf('rc_lat', 'latency', '[mun]?s'),
    qperf('rc_rdma_read_bw', 'bw', '[KMG]?B/sec'),
    qperf('rc_rdma_read_lat', 'latency', '[mun]?s'),
    qperf('rc_rdma_write_bw', 'bw', '[KMG]?B/sec'),
    qperf('rc_rdma_write_lat', 'latency', '[mun]?s'),
    qperf('rc_rdma_write_poll_lat', 'latency', '[mun]?s'),
]

if __name__ == '__main__':
    judge.run_cases(__doc__, lambda: CASES)
