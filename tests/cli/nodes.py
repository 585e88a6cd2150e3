"""A storage node of the command's own, for the scripts about its clients."""

import contextlib
import json
import pathlib
import random
import signal
import subprocess

from cases import WEFT, expect, free_port, scratch

SIZE = 3 << 20


class Node:
    """`weft serve` with these words; its process, its lines, where it listens."""

    def __init__(self, folder, *words):
        self.port = free_port()
        self.address = f'127.0.0.1:{self.port}'
        self.socket = f'{folder}/node.sock'
        self.process = subprocess.Popen(
            [WEFT, 'serve', f'--nbd=unix:{self.socket}', f'--nvme-rdma={self.address}', *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def read(self, count):
        return [self.process.stdout.readline().rstrip('\n') for _ in range(count)]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.process.stdout.close()
        return status


@contextlib.contextmanager
def node(*words, lines=6):
    """A node with the file disk.img of 3 MiB, named `a`; .uri is its volume, .folder all it has."""
    with scratch() as folder:
        disk = pathlib.Path(folder, 'disk.img')
        disk.write_bytes(bytes(SIZE))
        ours = Node(folder, *words, f'a={disk}')
        try:
            ours.folder, ours.disk = pathlib.Path(folder), disk
            ours.lines = ours.read(lines)
            if lines == 6:
                ours.uri = ours.lines[3].strip()
            yield ours
        finally:
            if ours.process.poll() is None:
                ours.end()


def report(result):
    expect(result, 0, None)
    return json.loads(result.stdout)


def octets(length):
    return random.Random(length).randbytes(length)
