"""A storage node in one process, over a volume of memory, and a client who asks it by NBD for one
thing at a time. Its RTA is in the host's own process: valgrind cannot start one of its own."""

import contextlib
import pathlib
import socket
import subprocess
import sys
import time
import types

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / 'tests/node'))

import nbd_client  # noqa: E402

REQUEST_LEN = 4096
REQUESTS = {'read': nbd_client.READ, 'write': nbd_client.WRITE}
VOLUME_LEN = 16 << 20
POOL_LEN = '16M'  # of each RTA there may be: valgrind has no room for 64 GiB of addresses


class Failed(Exception):
    """The node does not serve, with the reason."""


def listens(path):
    """A socket is there before it listens."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextlib.contextmanager
def served(build, place, under=()):
    """The node, under another program perhaps: by the socket there, and ended behind this. Nothing
    reads what it says: valgrind says more than a pipe holds, and a node that waits for one stands
    still."""
    words = [*under, build / 'weft', 'serve', '--quiet', '--rta=host', f'--pool={POOL_LEN}',
             f'--nbd=unix:{place}/socket', f'ram:{VOLUME_LEN}']
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 60
            while not listens(place / 'socket'):
                if process.poll() is not None or time.monotonic() > until:
                    raise Failed(f'{build}/weft serve --rta=host does not serve')
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def ask(place, operation, count):
    """So many requests, the next one when the one before is answered."""
    is_read = operation == 'read'
    data = b'' if is_read else bytes(REQUEST_LEN)
    with nbd_client.Client(types.SimpleNamespace(socket=place / 'socket')) as client:
        client.go()
        for i in range(count):
            client.request(REQUESTS[operation], offset=i * REQUEST_LEN % VOLUME_LEN,
                           length=REQUEST_LEN, data=data)
            error, _ = client.answer(REQUEST_LEN if is_read else 0)
            if error:
                raise Failed(f'{operation} of the volume: NBD error {error}')
