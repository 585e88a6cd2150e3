#!/usr/bin/env python3
"""The control socket of a node, against askers that are slow, silent, many, or talk nonsense."""

import contextlib
import json
import socket
import threading
import time

from controlled import Controlled, answer
from nbd_client import Client
from serving import LIMIT, case, main

ASKERS, PATIENCE = 16, 5
SOCKET_HOLDS = 220000


@case
def nonsense_is_answered_in_words():
    with Controlled('ram:1M') as node:
        for request, why in ((b'nonsense\n', 'there is no such request'),
                             (b'\n', 'there is no such request'),
                             (b'statuses\n', 'there is no such request'),
                             (b'remove nosuch\n', 'there is no such volume'),
                             (b'add a=ram:1M\n', 'this node takes no volumes from outside: '
                                                 'start it with --allow-add')):
            assert node.ask(request) == {'ok': False, 'why': why}, request
        assert node.ask(b'status\nremove ram\n')['volumes'][0]['name'] == 'ram'  # one request
        assert node.ask(b'status\n')['volumes'][0]['name'] == 'ram'


@case
def a_request_may_come_in_pieces_and_ends_somewhere():
    with Controlled('ram:1M') as node:
        with node.asker() as one:
            for octet in b'status\n':
                one.sendall(bytes([octet]))
                time.sleep(0.01)
            assert answer(one)['pid'] == node.process.pid
        with node.asker() as one:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                one.sendall(b'x' * 4096)
            assert answer(one) is None
        with node.asker() as one:
            one.sendall(b'stat')
            one.shutdown(socket.SHUT_WR)
            assert answer(one) is None
        assert node.ask(b'status\n')['pid'] == node.process.pid


@case
def an_asker_that_is_slow_gets_all_of_it():
    """The answer is longer than a socket holds; others are answered meanwhile."""
    names = [f'{number}'.rjust(60, 'v') for number in range(256)]
    with Controlled('--rta=one', '--nvme-tcp=127.0.0.1:0',
                    *(f'{name}=null:1M' for name in names)) as node:
        threading.Thread(target=node.process.stdout.read, daemon=True).start()  # it says much
        for name in names:  # has counters from then on
            Client(node).go(name.encode()).socket.close()
        with node.asker(room=4096) as slow:
            slow.sendall(b'status\n')
            time.sleep(0.5)
            assert len(node.ask(b'status\n')['volumes']) == 256
            found = answer(slow, 4096)
        assert len(json.dumps(found, separators=(',', ':'))) > SOCKET_HOLDS
        assert [volume['name'] for volume in found['volumes']] == names


@case
def silent_askers_are_so_many_and_leave_in_the_end():
    with Controlled('ram:1M') as node, contextlib.ExitStack() as stack:
        began = time.monotonic()
        silent = [stack.enter_context(node.asker()) for _ in range(ASKERS)]
        with node.asker() as beyond:
            assert answer(beyond) is None
        assert time.monotonic() - began < PATIENCE
        assert [answer(one) for one in silent] == [None] * ASKERS
        assert time.monotonic() - began >= PATIENCE - 1
        assert node.ask(b'status\n')['pid'] == node.process.pid


main()
