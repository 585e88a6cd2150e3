#!/usr/bin/env python3
"""A node on an RNIC that is not weft's: `weft serve` in a virtual machine, with the distribution's
libibverbs and librdmacm on the kernel's siw. Its client is weft, outside.

        --keep FOLDER    leave the console, the capture and what the node said there
"""

import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / 'siw'), str(TESTS / 'judges'), str(TESTS / 'cli')]

import vm  # noqa: E402
from judge import Tap, WEFT, count, skip_all  # noqa: E402

LIMIT = 120
LOG = '/tmp/serve.log'


class Node:
    """weft serve in the guest."""

    def __init__(self, guest, libraries):
        self.guest = guest
        self.environment = f'LD_LIBRARY_PATH={libraries}'
        self.process = guest.start(
            ['sh', '-c', f'{self.environment} exec {WEFT} serve --nvme-rdma={guest.addr} ram:64M '
                         f'>{LOG} 2>&1'], {}, 3 * LIMIT)
        deadline = time.monotonic() + LIMIT
        while not self.uris():
            assert time.monotonic() < deadline and self.process.poll() is None, self.said()
            time.sleep(0.2)
        self.uri = self.uris()[0]

    def said(self):
        return self.guest.run(['cat', LOG])

    def uris(self):
        return [word for word in self.said().split() if word.startswith('nvme+rdma://')]

    def counters(self):
        return json.loads(self.guest.run(
            ['sh', '-c', f'{self.environment} {WEFT} status --json']))[0]['nvme_rdma']


def weft(*words):
    done = subprocess.run([WEFT, *map(str, words)], text=True, capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, f'{words}: {done.stdout}{done.stderr}'
    return done.stdout


# --- the cases ---------------------------------------------------------------------------------


def a_node_that_lacks_one_shot_takes_registered_memory(node, scratch):
    assert 'keyed SGLs' in weft('info', node.uri)


def what_is_copied_there_comes_back(node, scratch):
    written, read = scratch / 'written', scratch / 'read'
    written.write_bytes(os.urandom(count(4, 64) << 20))
    weft('cp', written, node.uri)
    weft('cp', node.uri, read)
    size = written.stat().st_size
    assert read.read_bytes()[:size] == written.read_bytes()
    counters = node.counters()
    assert counters['fetched'] >= size and counters['delivered'] >= size, counters
    assert (counters['oneshots'], counters['bad_transfers']) == (0, 0), counters


def nothing_is_left_of_clients_that_have_gone(node, scratch):
    deadline = time.monotonic() + LIMIT
    while node.counters()['connections']:
        assert time.monotonic() < deadline, node.counters()
        time.sleep(0.2)


CASES = [a_node_that_lacks_one_shot_takes_registered_memory, what_is_copied_there_comes_back,
         nothing_is_left_of_clients_that_have_gone]


# --- the run -----------------------------------------------------------------------------------


def system_libraries():
    """The folder with the distribution's libibverbs."""
    found = glob.glob('/usr/lib/*/libibverbs.so.1')
    if not found or not glob.glob('/usr/lib/*/librdmacm.so.1'):
        skip_all('no libibverbs.so.1 and librdmacm.so.1 (packages libibverbs1, librdmacm1)')
    return os.path.dirname(found[0])


def guest_with(libraries, scratch):
    """A guest with the weft command and the libraries that it loads there."""
    os.environ['LD_LIBRARY_PATH'] = libraries
    try:
        return vm.Guest(scratch, ['rdma', str(WEFT)])
    finally:
        del os.environ['LD_LIBRARY_PATH']


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--keep', type=pathlib.Path)
    options = parser.parse_args()
    libraries = system_libraries()
    vm.enter()
    tap = Tap()
    with vm.scratch_folder(options.keep) as scratch:
        guest = guest_with(libraries, scratch)
        try:
            node = Node(guest, libraries)
            for case in CASES:
                name = case.__name__.replace('_', ' ')
                try:
                    case(node, scratch)
                    tap.report(name, [])
                except (AssertionError, OSError, subprocess.SubprocessError) as why:
                    tap.report(name, [*str(why).splitlines(), *node.said().splitlines()])
        finally:
            guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
