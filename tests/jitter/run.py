#!/usr/bin/env python3
"""Runs a test program with sleeps put into it (jitter.c), once for each seed.

    tests/jitter/run.py LIBRARY PROGRAM [--seeds N] [--from SEED]

Each program has a network of its own, where there may be one. A failure says by what it is seen
again, as often as the order in which threads ask for sleeps is the same.
"""

import argparse
import os
import pathlib
import subprocess
import sys

NETWORK = ['unshare', '--user', '--map-root-user', '--net', 'sh', '-c',
           'ip link set lo up && exec "$0" "$@"']


def network():
    """Words before a command that give it a network of its own; none where that cannot be had."""
    try:
        can = subprocess.run([*NETWORK, 'true'], capture_output=True).returncode == 0
    except FileNotFoundError:
        can = False
    return NETWORK if can else []


def run(words, library, seed):
    environment = {**os.environ, 'JITTER': str(seed)}
    return subprocess.run([*words[:-1], 'env', f'LD_PRELOAD={library}', words[-1]], text=True,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('library', type=pathlib.Path)
    parser.add_argument('program', type=pathlib.Path)
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--from', type=int, default=1, dest='first')
    options = parser.parse_args()
    library, program = options.library.resolve(), options.program.resolve()
    words = [*network(), str(program)]
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        result = run(words, library, seed)
        if result.returncode == 77:
            print(next(line for line in result.stdout.splitlines() if 'SKIP:' in line))
            return 77
        is_right = result.returncode == 0
        failed += not is_right
        print(f'{"ok" if is_right else "not ok"} {seed - options.first + 1} - seed {seed}')
        if not is_right:
            print(f'# exit status {result.returncode}; again: JITTER={seed} LD_PRELOAD={library} '
                  f'{program}')
            for line in result.stdout.splitlines()[-40:]:
                print(f'# {line}')
        sys.stdout.flush()
    print(f'1..{options.seeds}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
