#!/usr/bin/env python3
"""A judge of storage traffic: fio's rdma engine, one fio as client and one as target."""

import re

import judge
from judge import Case, count


def fio(verb, block, depth):
    size = f'{count(16, 1024)}m'
    words = ['fio', '--ioengine=rdma', '--name=judge', '--port={port}', f'--bs={block}',
             f'--size={size}', '--eta=never']

    def check(outcome):
        match = re.search(r'^ *(?:READ|WRITE): bw=(\d[\d.]*)', outcome.client, re.M)
        if not match:
            return 'no bandwidth is reported'
        return None if float(match[1]) > 0 else 'the bandwidth is zero'
    # The target says rw=read whatever the client does: it serves. Its depth is what it has posted
    # for Sends, of which there must never be too few: iWARP has no "receiver not ready".
    return Case(f'fio: {verb}, blocks of {block}, depth {depth}',
                [*words, '--hostname={addr}', f'--verb={verb}', '--rw=write', f'--iodepth={depth}',
                 f'--iodepth_batch_complete={depth}'],
                [*words, '--rw=read', f'--iodepth={4 * depth}'], check)


CASES = [
    fio('write', '64k', 1),
    fio('write', '1m', 8),
    fio('read', '64k', 1),
    fio('read', '1m', 8),
    fio('send', '64k', 1),
    fio('send', '1m', 8),
]

if __name__ == '__main__':
    judge.run_cases(__doc__, lambda: CASES)
