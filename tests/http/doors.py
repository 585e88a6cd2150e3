"""What the scripts about the page share: a node and a watch with a door, and whom they watch."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder)
                for folder in ('node', 'cli')]

from cases import BUILD, SOURCE, WEFT, expect_error  # noqa: E402,F401
from judge import skip_all  # noqa: E402,F401
from nbd_client import READ, WRITE, Client  # noqa: E402,F401
from played import encoded, process  # noqa: E402,F401
from serving import Node, Skip, case, folder, main, until, weft  # noqa: E402,F401

# A process that this script plays, with a device, a queue pair and a name of anybody's choice.
ANSWER = {'pid': os.getpid(), 'program': 'a "quoted\\ name\x1b', 'weft0': {
    'qps': 1, 'latency': {'send': {'count': 2, 'sum_ns': 3000, 'max_ns': 2000,
                                   'buckets': [[1023, 1], [2000, 1]]}}},
          'connections': [], 'qps': [{'qp_num': 77, 'state': 'RTS', 'counters': {
              'send_completions': 9, 'out.send.octets': 1023}}]}


def address_of(stream):
    for line in stream:
        if line.startswith('page '):
            return line.split()[1]
    raise AssertionError('no page is announced')


@contextlib.contextmanager
def serving(*words):
    """A node that serves, and its page's address."""
    with Node('--http=127.0.0.1:0', *words) as node:
        yield node, address_of(node.process.stdout)


@contextlib.contextmanager
def watching(*words):
    """weft watch, and its page's address; ended by a signal, it ends well."""
    with subprocess.Popen([WEFT, 'watch', '--http=127.0.0.1:0', *map(str, words)], text=True,
                          stdout=subprocess.PIPE) as watch:
        try:
            yield watch, address_of(watch.stdout)
        finally:
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(20) == 0
