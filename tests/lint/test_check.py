#!/usr/bin/env python3
"""tools/check counts what happened: every way a test can end, as meson writes it down."""

import importlib.machinery
import importlib.util
import pathlib
import sys

sys.dont_write_bytecode = True

CHECK = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'check'

# A name, the entry of testlog.json, and the expected (passed, number of failures, skips).
CASES = [
    ('a program without cases is one', {'result': 'OK'}, (1, 0, [])),
    ('cases are counted', {'result': 'OK', 'stdout': '1..2\nok 1 - a\nok 2 - b\n'}, (2, 0, [])),
    ('two groups of cases add up',
     {'result': 'OK', 'stdout': '1..1\nok 1 - a\n1..2\nok 1 - b\nok 2 - c\n'}, (3, 0, [])),
    ('a failed case is one failure',
     {'result': 'FAIL', 'stdout': '1..2\nok 1 - a\nnot ok 2 - b\n'}, (1, 1, [])),
    ('a failed case counts though the program ends well',
     {'result': 'OK', 'stdout': '1..1\nnot ok 1 - a\n'}, (0, 1, [])),
    ('a crash after good cases is a failure',
     {'result': 'FAIL', 'returncode': -11, 'stdout': '1..2\nok 1 - a\n'}, (1, 1, [])),
    ('a program that ends well before its last case failed',
     {'result': 'OK', 'stdout': '1..2\nok 1 - a\n'}, (1, 1, [])),
    ('no end in time is a failure', {'result': 'TIMEOUT', 'duration': 60.0}, (0, 1, [])),
    ('a program that did not start is a failure',
     {'result': 'ERROR', 'returncode': 99}, (0, 1, [])),
    ('a skip has its reason', {'result': 'SKIP', 'stdout': 'SKIP: no kvm\n'}, (0, 0, ['no kvm'])),
    ('a skip without a reason is a failure', {'result': 'SKIP'}, (0, 1, [])),
    ('a case skipped in TAP has its reason',
     {'result': 'OK', 'stdout': 'ok 1 - a\nok 2 - b # SKIP no tshark\n1..2\n'},
     (1, 0, ['b: no tshark'])),
    ('a case skipped in cmocka has its reason',
     {'result': 'OK', 'stdout': '1..2\nok 1 - a\nSKIP: no IPv6\nnot ok 2 # SKIP b\n'},
     (1, 0, ['no IPv6'])),
    ('a case skipped in cmocka without a reason is a failure',
     {'result': 'OK', 'stdout': '1..1\nnot ok 1 # SKIP a\n'}, (0, 1, [])),
]

# What meson calls a test, and whether it may be run a second time.
NAMES = [
    ('weft:judges+nosan+foreign / judges/test_cm.py', True),
    ('weft:foreign / a', True),
    ('weft:node+nosan / node/test_foreign_rnic.py', False),
    ('weft:cq / cq/foreign', False),
]

# What a foreign program's two runs said, and the expected (passed, failures, cases named unsteady).
TWICE = [
    ('what failed at first and passed then has passed',
     'not ok 1 - a\nok 2 - b\n1..2\n', 'ok 1 - a\nok 2 - b\n1..2\n', (2, [], ['a'])),
    ('what passed at first and failed then has passed too',
     'not ok 1 - a\nok 2 - b\n1..2\n', 'ok 1 - a\nnot ok 2 - b\n1..2\n', (2, [], ['a', 'b'])),
    ('what failed twice has failed',
     'not ok 1 - a\nok 2 - b\n1..2\n', 'not ok 1 - a\nok 2 - b\n1..2\n', (1, ['a'], [])),
    ('what the first run did not come to is judged by the second',
     'not ok 1 - a\n1..2\n', 'ok 1 - a\nnot ok 2 - b\n1..2\n',
     (1, ['b'], ['a', '2 cases planned, only 1 run'])),
]

# A command line, and which of the stages that are not everybody's run behind the stage release.
STAGES = [
    ([], []),
    (['--judges'], ['judges', 'systems']),
    (['--soak'], ['fuzzer', 'lto', 'judges', 'systems']),
    (['release', 'tsan'], []),
    (['judges', 'release'], ['judges']),
    (['lto', 'release'], ['lto']),
]


RARE = ('fuzzer', 'lto', 'judges', 'systems')


def load_check():
    loader = importlib.machinery.SourceFileLoader('check', str(CHECK))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('check', loader))
    loader.exec_module(module)
    return module


def main():
    check = load_check()
    failed = 0
    for number, (name, test, expected) in enumerate(CASES, 1):
        passed, failures, skips = check.judge(test)
        is_right = (passed, len(failures), skips) == expected
        print(f'{"ok" if is_right else "not ok"} {number} - {name}')
        if not is_right:
            failed += 1
            print(f'# expected {expected}, got {(passed, failures, skips)}')
    for number, (name, expected) in enumerate(NAMES, len(CASES) + 1):
        is_right = check.may_run_twice({'name': name}) == expected
        failed += not is_right
        print(f'{"ok" if is_right else "not ok"} {number} - {name} '
              f'{"may" if expected else "may not"} be run twice')
    for number, (name, first, second, expected) in enumerate(TWICE, len(CASES) + len(NAMES) + 1):
        passed, failures, _, unsteady = check.judge_both({'result': 'OK', 'stdout': first},
                                                         {'result': 'OK', 'stdout': second})
        is_right = (passed, failures, unsteady) == expected
        failed += not is_right
        print(f'{"ok" if is_right else "not ok"} {number} - {name}')
        if not is_right:
            print(f'# expected {expected}, got {(passed, failures, unsteady)}')
    for number, (words, expected) in enumerate(STAGES, len(CASES) + len(NAMES) + len(TWICE) + 1):
        stages = list(check.parse_arguments(words).stages)
        rare = [stage for stage in stages if stage in RARE]
        is_right = sorted(rare) == sorted(expected) and 'release' in stages
        failed += not is_right
        print(f'{"ok" if is_right else "not ok"} {number} - `{" ".join(["tools/check", *words])}` '
              f'has of the rare stages: {", ".join(expected) or "none"}')
    print(f'1..{len(CASES) + len(NAMES) + len(TWICE) + len(STAGES)}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
