"""A node whose control socket a test speaks to, in place of weft status and weft rescan."""

import contextlib
import json
import socket

from serving import LIMIT, Node, folder, os


class Controlled(Node):
    """A node whose control socket stands in a folder of its own."""

    def __init__(self, *words):
        self.run = folder()
        self.runtime = self.run.__enter__() / 'run'
        super().__init__(*words, env={**os.environ, 'WEFT_RUNTIME_DIR': str(self.runtime)})

    def __exit__(self, *what):
        super().__exit__(*what)
        self.run.__exit__(*what)

    @contextlib.contextmanager
    def asker(self, room=None):
        with socket.socket(socket.AF_UNIX) as one:
            if room:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            one.settimeout(LIMIT)
            one.connect(str(self.runtime / f'node.{self.process.pid}'))
            yield one

    def ask(self, request):
        with self.asker() as one:
            one.sendall(request)
            return answer(one)


def answer(one, piece=65536):
    """All that comes until the node closes; None: nothing."""
    octets = b''
    with contextlib.suppress(ConnectionResetError):
        while part := one.recv(piece):
            octets += part
    return json.loads(octets) if octets else None
