#!/usr/bin/env python3
"""libiscsi's test suite against the node's iSCSI targets: what does not pass stands in
iscsi_suite.expected, each with its reason, and nothing else may."""

import concurrent.futures
import queue
import re
import sys

from serving import Iscsi, case, main, need, pathlib, run, subprocess

EXPECTED = pathlib.Path(__file__).with_name('iscsi_suite.expected')
AT_ONCE = 4
PASSED, SKIPPED, FAILED = 'passed', 'skipped', 'failed'


def verdicts(said):
    """What became of each test: its name, the word, the reason of a skip."""
    found, suite, test = {}, None, None
    for line in said.splitlines():
        if match := re.match(r'Suite: (\S+)', line):
            suite, test = match[1], None
        if match := re.match(r'\s+Test: (\S+) \.\.\.(.*)', line):
            test, line = f'{suite}.{match[1]}', match[2]
            found[test] = [None, '']
        if test is None:
            continue
        end = re.search(r'(?<!\[)(passed|FAILED)(?!\])', line)
        skip = re.search(r'\[SKIPPED\] (.*)', line[:end.start()] if end else line)
        if skip and not found[test][1]:
            found[test] = [SKIPPED, skip[1].strip()]
        if end:
            if end[1] == 'FAILED':
                found[test][0] = FAILED
            found[test][0] = found[test][0] or PASSED
            test = None
    return found


def expected():
    """Test to (word, reason); a name with a star at its end stands for all that begin so."""
    rows = [line.split(None, 2) for line in EXPECTED.read_text().splitlines()
            if line and not line.startswith('#')]
    assert all(len(row) == 3 for row in rows), rows
    return {name: word for name, word, _ in rows}


def word_expected(rows, test):
    return next((word for name, word in rows.items()
                 if name == test or (name.endswith('*') and test.startswith(name[:-1]))), PASSED)


def suite_run(suite, volumes):
    """On a volume that nobody else has meanwhile, by two paths."""
    url = volumes.get()
    said = subprocess.run(['iscsi-test-cu', '-d', '-t', suite, url, url], capture_output=True,
                          text=True, errors='replace', timeout=120).stdout
    volumes.put(url)
    return verdicts(said)


@case
def nothing_fails_or_is_left_out_but_what_is_known():
    need('iscsi-test-cu')
    rows, found, volumes = expected(), {}, queue.SimpleQueue()
    suites = re.findall(r'^(ALL\.\w+)$', run('iscsi-test-cu', '-l'), re.M)
    with Iscsi(*(f'v{i}=ram:64M' for i in range(AT_ONCE))) as node, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for url in node.urls:
            volumes.put(url)
        # First those that wait for something, and the one that takes it that nobody has written
        suites.sort(key=lambda suite: suite not in ('ALL.Reserve6', 'ALL.iSCSIcmdsn',
                                                    'ALL.MultipathIO'))
        for part in pool.map(lambda suite: suite_run(suite, volumes), suites):
            found.update(part)
        assert len(found) > 200, found
        wrong = [f'{test}: {word}, not {word_expected(rows, test)} {reason}'
                 for test, (word, reason) in found.items() if word != word_expected(rows, test)]
        assert not wrong, '\n'.join(wrong)
        words = [word for word, _ in found.values()]
        print('#', *(f'{words.count(word)} {word}' for word in (PASSED, SKIPPED, FAILED)),
              file=sys.stderr)


@case
def a_volume_that_is_read_only_says_so_to_every_command_that_changes_it():
    need('iscsi-test-cu')
    with Iscsi('-r', 'disk=ram:1M') as node:
        said = subprocess.run(['iscsi-test-cu', '-d', '-t', 'ALL.ReadOnly', node.url],
                              capture_output=True, text=True, errors='replace', timeout=60).stdout
        (word, reason), = verdicts(said).values()
        assert word != FAILED and 'not write-protected' not in said, said


main()
