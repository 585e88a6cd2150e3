"""What the scripts about the node share: cases as functions, a captive or a running node."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / 'cli'), str(TESTS / 'judges')]

from cases import WEFT, Skip, case, expect, expect_error, main, weft, wire  # noqa: E402,F401
from judge import count, free_port  # noqa: E402,F401

LIMIT = 60


def need(*programs):
    """Skips the case where a program is missing."""
    for program in programs:
        if not shutil.which(program):
            raise Skip(f'no program {program}')


@contextlib.contextmanager
def folder():
    """A folder of its own, on a file system with holes where there is one, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix='weft-node.') as name:
        yield pathlib.Path(name)


def captive(command, *words, limit=LIMIT, status=0):
    """Runs a shell command against a node of its own; gives its standard output."""
    with folder() as place:
        result = weft('serve', '--quiet', f'--nbd=unix:{place}/socket', f'--run={command}', *words,
                      limit=limit)
    assert result.returncode == status, \
        f'status {result.returncode}\nstdout: {result.stdout}\nstderr: {result.stderr}'
    return result.stdout


def runtime_folder(env):
    """Where a node of this environment has its control socket: control/runtime.h."""
    if own := env.get('WEFT_RUNTIME_DIR'):
        return own
    if os.geteuid() == 0:
        return '/run/weft'
    return (env.get('XDG_RUNTIME_DIR') or f'/run/user/{os.geteuid()}') + '/weft'


class Node:
    """A node that runs; its volumes' URIs, and the processes of its RTAs."""

    def __init__(self, *words, **options):
        self.env = options.get('env') or os.environ
        self.place = tempfile.TemporaryDirectory(prefix='weft-node.')
        self.socket = pathlib.Path(self.place.name, 'socket')
        self.log = open(pathlib.Path(self.place.name, 'log'), 'w+')
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            [WEFT, 'serve', f'--nbd=unix:{self.socket}', *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True, **options)

    def __enter__(self):
        line = self.process.stdout.readline()
        assert line.startswith('volume '), f'{line!r}: {self.said()}'
        self.start_seconds = time.monotonic() - self.begin
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()
            self.log.close()
            self.place.cleanup()

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def uri(self, volume=''):
        return f'nbd+unix:///{volume}?socket={self.socket}'

    def status(self):
        """What `weft status --json` says of it, without a process for each look."""
        octets = b''
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(LIMIT)
            one.connect(f'{runtime_folder(self.env)}/node.{self.process.pid}')
            one.sendall(b'status\n')
            while part := one.recv(1 << 16):
                octets += part
        return json.loads(octets)

    def rtas(self):
        """The process ids of its RTAs."""
        children = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children')
        return [int(pid) for pid in children.read_text().split()]


class Nvme(Node):
    """A node that NVMe hosts reach over TCP."""

    def __init__(self, *words, **options):
        super().__init__('--nvme-tcp=127.0.0.1:0', *words)

    def __enter__(self):
        super().__enter__()
        self.nqns = []
        for volume in self.status()['volumes']:
            uri = next(uri for uri in volume['uris'] if uri.startswith('nvme+tcp:'))
            port, = re.match(r'nvme\+tcp://127\.0\.0\.1:(\d+)/', uri).groups()
            self.address = '127.0.0.1', int(port)
            self.nqns.append(volume['nqn'])
        return self

    @property
    def nqn(self):
        return self.nqns[0]


class Iscsi(Node):
    """A node that iSCSI initiators reach; the URL of its first volume, and of its portal."""

    def __init__(self, *words, **options):
        super().__init__('--iscsi=127.0.0.1:0', *words, **options)

    def __enter__(self):
        super().__enter__()
        self.urls = [next(uri for uri in volume['uris'] if uri.startswith('iscsi:'))
                     for volume in self.status()['volumes']]
        self.url = self.urls[0]
        self.portal, self.target = re.fullmatch(r'(iscsi://[^/]+)/([^/]+)/\d+', self.url).groups()
        host, _, port = self.portal.rpartition('/')[2].rpartition(':')
        self.address = host, int(port)
        return self


def run(*words, limit=LIMIT, status=0):
    result = subprocess.run([str(word) for word in words], text=True, capture_output=True,
                            stdin=subprocess.DEVNULL, timeout=limit)
    assert result.returncode == status, \
        f'{words}: status {result.returncode}\n{result.stdout}{result.stderr}'
    return result.stdout


def until(condition, limit=20):
    """Waits until the condition gives something true, and gives that back."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f'not within {limit} s: {condition}'
        time.sleep(0.02)


__all__ = ['LIMIT', 'Iscsi', 'Node', 'Nvme', 'Skip', 'captive', 'case', 'count', 'expect',
           'expect_error', 'folder', 'free_port', 'main', 'need', 'os', 'pathlib', 'run', 'signal',
           'subprocess', 'until', 'weft']
