#!/usr/bin/env python3
"""A judge of the verbs themselves: rdma-core's pyverbs tests, as Debian ships them.

Every test's outcome is compared with pyverbs-expected.txt, or pyverbs-expected-roce.txt, and what
differs in either direction is a failure: a test that should pass and does not, one that passes
though its line says it cannot, and one that is to pass, by its full name, and is not there. On the
RoCE device those have to pass, too, that the kernel's rxe passes (pyverbs-rxe.txt). Of versions of
rdma-core that the files do not know, it is only asked that no test crashes.

    test_pyverbs.py [WORD ...]     only the tests with one of these words in their names
    test_pyverbs.py --print ...    print the outcomes in the form of the expectations; judge nothing
    test_pyverbs.py --link LINK    over this link of weft
    test_pyverbs.py --wire roce    on the RoCE device
"""

import argparse
import dataclasses
import fnmatch
import gzip
import os
import pathlib
import shutil
import subprocess
import sys

import judge

PACKAGED = pathlib.Path('/usr/share/doc/rdma-core/tests')
PYTHON = '/usr/bin/python3'
RUNNER = pathlib.Path(__file__).with_name('pyverbs_runner.py')
LIMIT_S = 600


@dataclasses.dataclass
class Device:
    """What the tests run on, and what is expected of it."""

    name: str
    addr: str  # as pyverbs_runner.py takes it
    expected: str
    reference: str  # what another device passes, '' for none
    expected_of: tuple  # the versions of rdma-core whose tests the expectations are about
    env: dict


DEVICES = {
    # Two tests look at the other end's memory as soon as their own Write has completed, which iWARP
    # does not promise.
    'iwarp': Device('weft0', '127.0.0.1', 'pyverbs-expected.txt', '', ('44', '50', '56'),
                    {'WEFT_WRITE_FLUSH': 'on'}),
    'roce': Device('weft_roce0', 'gid', 'pyverbs-expected-roce.txt', 'pyverbs-rxe.txt', ('44',),
                   {'WEFT_WIRE': 'roce'}),
}


def unpack(folder):
    """Copies the packaged test files, of which most are compressed."""
    tests = folder / 'tests'
    tests.mkdir()
    for packaged in PACKAGED.iterdir():
        if packaged.suffix == '.gz':
            (tests / packaged.stem).write_bytes(gzip.decompress(packaged.read_bytes()))
        elif packaged.is_file():
            shutil.copy(packaged, tests)
    for path in (tests, *tests.iterdir()):
        path.chmod(0o755)


def run_once(side, device, names):
    """({test: (outcome, reason)}, the tests not reached) of one process."""
    process = side.start([PYTHON, RUNNER, side.scratch, device.name, device.addr, *names],
                         device.env, LIMIT_S)
    status = process.wait(LIMIT_S)
    process.stop()
    outcomes, running = {}, None
    for line in process.output().splitlines():
        if line.startswith('run '):
            running = line.split()[1]
        elif line.startswith('end '):
            _, test, outcome, *reason = line.split(' ', 3)
            outcomes.setdefault(test, (outcome, ''.join(reason)))
            running = None
    if running:
        outcomes[running] = ('crash', f'the process ended with {status}')
    return outcomes, [name for name in names if name not in outcomes]


def run_all(side, device, words):
    """The outcome of every test; a test that ends the process costs no other one."""
    listing = side.start([PYTHON, RUNNER, side.scratch, device.name, device.addr, '--list'],
                         device.env, 60)
    listing.wait(60)
    names = [line for line in listing.output().splitlines() if line.startswith('tests.')]
    if not names:
        return {}, listing.output()
    left = [name for name in names if not words or any(word in name for word in words)]
    outcomes = {}
    while left:
        more, left = run_once(side, device, left)
        outcomes.update(more)
        if not more:
            break
    return outcomes, ''


def read_expectations(device):
    """[(pattern, outcomes)], the first match counts; what matches none must pass."""
    if packaged_version() not in device.expected_of:
        return [('*', 'pass/skip/fail/error')]
    text = pathlib.Path(__file__).with_name(device.expected).read_text()
    lines = (line.partition('#')[0].split() for line in text.splitlines())
    return [tuple(line) for line in lines if line]


def expectation_for(test, expectations):
    return next((outcomes for pattern, outcomes in expectations
                 if fnmatch.fnmatchcase(test, pattern)), 'pass')


def not_there(outcomes, expectations):
    """The tests that are said to pass, by their full names, and that were not run."""
    return [pattern for pattern, expected in expectations
            if expected == 'pass' and '*' not in pattern and pattern not in outcomes]


def less_than(reference, outcomes):
    """The tests that the other device passes and this one does not, but for those that need not."""
    lines = pathlib.Path(__file__).with_name(reference).read_text().splitlines()
    return [test for test in lines if test and '#' not in test
            and outcomes.get(test, ('',))[0] != 'pass']


def packaged_version():
    """Of rdma-core; what these tests contain differs from version to version."""
    return subprocess.run(['dpkg-query', '-W', '-f', '${Version}', 'python3-pyverbs'],
                          capture_output=True, text=True).stdout.split('.')[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('words', nargs='*', metavar='WORD')
    parser.add_argument('--print', action='store_true')
    parser.add_argument('--link', default='socket')
    parser.add_argument('--wire', choices=DEVICES, default='iwarp')
    options = parser.parse_args()
    device = DEVICES[options.wire]
    if not PACKAGED.is_dir():
        judge.skip_all(f'no {PACKAGED} (package rdma-core)')
    if not any(pathlib.Path('/usr/lib/python3').glob('dist-packages/pyverbs/__init__.py')):
        judge.skip_all('no pyverbs (package python3-pyverbs)')
    tap = judge.Tap()
    with judge.weft_side(link=options.link) as side:
        unpack(side.scratch)
        if not os.access(RUNNER, os.R_OK):
            judge.skip_all(f'{RUNNER} cannot be read')
        outcomes, trouble = run_all(side, device, options.words)
    if options.print:
        for test, (outcome, reason) in outcomes.items():
            print(f'{test} {outcome} # {reason}')
        return
    if trouble or not outcomes:
        tap.report('the tests can be loaded', [trouble or 'there are none'])
    expectations = read_expectations(device)
    for test, (outcome, reason) in outcomes.items():
        expected = expectation_for(test, expectations)
        fault = f'{outcome} ({reason}), expected: {expected}'
        tap.report(f'{test}: {expected}', [] if outcome in expected.split('/') else [fault])
    if not options.words:
        tap.report('all that should pass are there', not_there(outcomes, expectations))
        if device.reference and packaged_version() in device.expected_of:
            tap.report(f'all that {device.reference} has pass',
                       less_than(device.reference, outcomes))
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
