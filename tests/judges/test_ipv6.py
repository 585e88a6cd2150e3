#!/usr/bin/env python3
"""Judges that use no connection manager, on a host whose only addresses are of IPv6."""

import ipaddress
import re
import subprocess
import sys

import judge
import tapnet
from judge import Case, count, says
from tapnet import ip
from test_without_cm import pingpong

LOOPBACK, OUTWARD = '::1', 'fd99::1'


def gid_is(addr):
    return Case(f'ibv_devinfo: GID 0 is {addr}', ['ibv_devinfo', '-v'],
                check=says(re.escape(ipaddress.ip_address(addr).exploded)))


def cases(addr):
    yield gid_is(addr)
    yield pingpong('ibv_rc_pingpong', f'polling, {addr}')
    yield pingpong('ibv_rc_pingpong', f'sleeping on completions, {addr}', '-e')
    yield pingpong('ibv_srq_pingpong', f'16 queue pairs, {addr}', '-n', count(100, 5000))


def main():
    options = judge.argument_parser(__doc__).parse_args()
    try:
        tapnet.enter_namespace('ip', 'link', 'add', 'probe', 'type', 'bridge')
    except tapnet.NotHere as why:
        judge.skip_all(str(why))
    tap = judge.Tap()
    try:
        ip('link', 'set', 'lo', 'up')
        ip('address', 'flush', 'dev', 'lo')
        ip('address', 'add', LOOPBACK, 'dev', 'lo', 'nodad')
    except subprocess.CalledProcessError:
        judge.skip_all('no IPv6 here')
    with judge.weft_side(LOOPBACK, link=options.link, unprivileged=False) as side:
        for case in judge.chosen(options, lambda: cases(LOOPBACK)):
            judge.run_case(tap, case, side)
    ip('link', 'add', 'outward', 'type', 'bridge')
    ip('address', 'add', f'{OUTWARD}/64', 'dev', 'outward', 'nodad')
    ip('link', 'set', 'outward', 'up')
    with judge.weft_side(OUTWARD, link=options.link, unprivileged=False) as side:
        for case in judge.chosen(options, lambda: cases(OUTWARD)):
            judge.run_case(tap, case, side)
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
