"""Processes of weft that a script plays: control sockets that give any answer, or none."""

import contextlib
import json
import os
import socket
import threading

PID = os.getpid()
ANOTHER = 65534  # a user's number


@contextlib.contextmanager
def acting_as(uid):
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def process(answer, pid=PID, uid=None, is_another=False):
    """A control socket under the name of `pid`, and of `uid`, that gives `answer` (None: nothing at
    all). `is_another`, for root alone: another user has it."""
    uid = ANOTHER if is_another else os.getuid() if uid is None else uid
    requests = []
    release = threading.Event()

    def serve_one(peer):
        with peer, contextlib.suppress(OSError):
            requests.append(peer.recv(64))
            if answer is None:
                release.wait(20)
            else:
                peer.sendall(answer)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=serve_one, args=(peer,), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f'\0weft.{uid}.{pid}')
        with acting_as(ANOTHER) if is_another else contextlib.nullcontext():
            listener.listen()
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        try:
            yield requests
        finally:
            release.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            server.join()


def but_looks(requests):
    """Without those of commands that look at every process: another test's, at the same time."""
    return [request for request in requests if request != b'stat\n']


def encoded(answer):
    return json.dumps(answer).encode() + b'\n'
