#!/usr/bin/env python3
"""Conformance over weft's own TCP: the peer is a socket of the kernel behind a tap device.

`udp` cannot be tried so: nobody but weft speaks TCP in UDP datagrams.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'judges'))

import judge  # noqa: E402
import tapnet  # noqa: E402

LIMIT_S = 120


def run(program, side):
    """What failed in one program; [] if nothing did."""
    env = os.environ | {
        'WEFT_TEST_ADDR': side.addr,
        'WEFT_TEST_PEER_ADDR': side.addr.rsplit('.', 1)[0] + '.1',
    }
    try:
        done = subprocess.run([*side.prefix, program], env=env, timeout=LIMIT_S, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return [f'not over after {LIMIT_S} s']
    lines = done.stdout.splitlines()
    return [] if done.returncode == 0 else [
        line for line in lines if line.startswith('not ok')] or lines[-5:]


def main():
    try:
        tapnet.enter_namespace()
    except tapnet.NotHere as why:
        judge.skip_all(str(why))
    tap = judge.Tap()
    with tapnet.TapSide(0) as side:
        for program in sorted((judge.BUILD / 'tests').glob('test_conformance_rfc*')):
            if program.is_file():
                tap.report(program.name, run(program, side))
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
