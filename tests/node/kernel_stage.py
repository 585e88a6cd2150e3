"""What the scripts share in which the Linux kernel, in a virtual machine (tests/siw/vm.py), is the
client of a node outside it: that node, the guest's shell, a load, the run of cases."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / 'siw'), str(TESTS / 'judges'), str(TESTS / 'cli')]

import vm  # noqa: E402,F401
from judge import Tap, WEFT, count, skip_all  # noqa: E402

HOST = '10.77.0.1'
LIMIT = 120


def until(condition, limit=60):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f'not within {limit} s'
        time.sleep(0.05)


def need(programs):
    """Skips all where one of `programs` is missing, which name their packages."""
    path = os.environ['PATH'] + ':/sbin:/usr/sbin'
    missing = [f'{name} (package {package})' for name, package in programs.items()
               if shutil.which(name, path=path) is None]
    if missing:
        skip_all('no ' + ', no '.join(missing))


class Node:
    """weft serve, on the machine beneath the guest; it may be ended and started again."""

    def __init__(self, scratch, door, volumes, more=()):
        """`door`: the option by which the guest reaches it; `volumes`: sections of its file."""
        self.scratch = scratch
        config = scratch / 'node.ini'
        config.write_text(volumes)
        self.words = [str(WEFT), 'serve', *more, f'--config={config}',
                      f'--nbd=unix:{scratch}/nbd', door]
        self.start()

    def start(self):
        self.log = open(self.scratch / 'node.log', 'a')
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        assert line.startswith('volume '), line

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(30)
        self.process.stdout.close()
        self.log.close()

    def status(self):
        found = subprocess.run([WEFT, 'status', '--json', str(self.process.pid)], text=True,
                               capture_output=True, timeout=LIMIT).stdout
        return json.loads(found)[0]

    def uri(self, volume, scheme):
        """That of a volume, by its name."""
        found = next(row for row in self.status()['volumes'] if row['name'] == volume)
        return next(uri for uri in found['uris'] if uri.startswith(scheme))

    def rescan(self, word):
        subprocess.run([WEFT, 'rescan', word, str(self.process.pid)], check=True, timeout=LIMIT,
                       capture_output=True)

    def rtas(self):
        """The process ids of its RTAs."""
        children = pathlib.Path(f'/proc/{self.process.pid}/task/{self.process.pid}/children')
        return [int(pid) for pid in children.read_text().split()]

    def operations(self, kind):
        return self.status()['volumes'][0].get('operations', {}).get(kind, 0)

    def wait_for_writes(self, number, load):
        """Until so many more have been made, or the load is over."""
        before = self.operations('write')
        until(lambda: self.operations('write') >= before + number or load.poll() is not None)


class Host:
    """The guest, as a host of the node's volumes."""

    def __init__(self, guest):
        self.guest = guest

    def sh(self, command, limit=LIMIT, status=0):
        """A shell command's output; its status must be as expected (None: any)."""
        process = self.begin(command, limit)
        found = process.wait(limit + 10)
        text = process.output()
        assert status is None or found == status, \
            f'{command}: status {found}\n{text}\n{self.sh_plain("dmesg | tail -n 20")}'
        return text

    def sh_plain(self, command):
        return self.guest.run(['sh', '-c', command])

    def begin(self, command, limit=LIMIT):
        return self.guest.start(['sh', '-c', command], {}, limit)

    def until(self, condition, limit=30):
        self.sh(f'for _ in $(seq {limit * 10}); do {condition} && exit 0; sleep 0.1; done; exit 1',
                limit=limit + 10)

    def complaints(self):
        """What its kernel says that none should."""
        return self.sh('dmesg | grep -E "BUG:|WARNING:|Oops|[Bb]ogus"', status=None)


def fio(device, name, more, size):
    return (f'fio --name={name} --filename={device} --direct=1 --ioengine=libaio --iodepth=8 '
            f'--bs=4k --size={size} --verify=crc32c --verify_fatal=1 --verify_dump=0 '
            f'--randseed=7 --minimal {more}')


# --- what any kernel's disk is tried by -------------------------------------------------------


def a_file_system_is_kept(host, device, come_back):
    """`come_back` ends the session and begins another."""
    host.sh(f'mkfs.ext4 -q -F {device} && mkdir -p /mnt && mount -t ext4 {device} /mnt')
    written = host.sh('head -c 8000000 /dev/urandom >/mnt/file && sync && '
                      'sha256sum /mnt/file && umount /mnt')
    come_back()
    read = host.sh(f'e2fsck -fn {device} >/dev/null 2>&1 && mount -t ext4 {device} /mnt && '
                   'sha256sum /mnt/file && umount /mnt')
    assert read == written, (written, read)


def a_trim_makes_holes(host, device, node):
    host.sh(f'dd if=/dev/urandom of={device} bs=1M count=8 oflag=direct 2>/dev/null')
    before = os.stat(node.disk).st_blocks
    host.sh(f'blkdiscard -o 1048576 -l 4194304 {device}')
    until(lambda: os.stat(node.disk).st_blocks <= before - 8192)
    zero = host.sh('head -c 4194304 /dev/zero | sha256sum')
    assert host.sh(f'dd if={device} bs=1M skip=1 count=4 iflag=direct 2>/dev/null '
                   '| sha256sum') == zero


# --- the run -----------------------------------------------------------------------------------


def arguments(doc):
    """A parser of what these scripts take: which cases, and where to leave what explains them."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', default='')
    parser.add_argument('--keep', type=pathlib.Path)
    return parser


def run_cases(tap, host, node, cases, only, always):
    """Those with `only` in their names, and `always`, which others need."""
    for case in cases:
        name = case.__name__.replace('_', ' ')
        if only and only not in name and case is not always:
            continue
        began = time.monotonic()
        try:
            case(host, node)
            tap.report(f'{name} ({time.monotonic() - began:.1f} s)', [])
        except (AssertionError, OSError, subprocess.TimeoutExpired) as why:
            tap.report(name, str(why).splitlines() or [repr(why)])
            if isinstance(why, OSError):
                break


__all__ = ['HOST', 'LIMIT', 'Host', 'Node', 'Tap', 'arguments', 'count', 'fio', 'need', 'run_cases',
           'until', 'vm']
