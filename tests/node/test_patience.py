#!/usr/bin/env python3
"""What the node does only after seconds: who waits for whom, and for how long."""

import contextlib
import signal
import time

import nvme_host as nvme
from nbd_client import WRITE, Client, is_ended, silent_nbd
from nvme_host import Queue, in_capsule, rw, session, sqe
from serving import (LIMIT, Node, Nvme, case, expect, folder, main, need, run,
                     subprocess, until, weft)

BAD_PARAMETER, NOT_READY = 0x182, 0x82


@case
def a_device_that_stays_busy_is_reported_as_not_ready():
    with Nvme('error+ram:1M?error=100%&error.as=retry') as node:
        with session(node.address, node.nqn) as (_, queue):
            for said in queue.read(0, 1), queue.write(0, b'x' * 512):
                assert (said.status, said.is_final) == (NOT_READY, False), said


@case
def a_slow_volume_does_not_keep_a_host_from_being_heard():
    with Nvme('delay+ram:1M?delay.write=4s') as node:
        with session(node.address, node.nqn, kato=3000) as (admin, queue):
            queue.capsule(rw(nvme.WRITE, 0, 1, in_capsule(512)), b'w' * 512)
            for _ in range(10):
                began = time.monotonic()
                assert admin.ask(sqe(nvme.KEEP_ALIVE)).status == 0
                assert time.monotonic() - began < 2
                time.sleep(0.3)
            assert queue.answer().status == 0
        assert node.status()['nvme']['expired'] == 0


@case
def a_refused_host_does_not_fill_the_log():
    with Nvme('ram:1M') as node, Queue(node.address) as queue:
        def is_told_of():
            assert queue.connect('nqn.2026-11.test:nosuch').status == BAD_PARAMETER
            return 'more lines about it suppressed' in node.said()
        for _ in range(1000):
            queue.connect('nqn.2026-11.test:nosuch')
        assert len(node.said().splitlines()) <= 12
        with Queue(node.address, source='127.0.0.2') as other:
            other.connect('nqn.2026-11.test:nosuch')
        assert 'at 127.0.0.2:' in node.said()
        until(is_told_of)
        assert node.status()['nvme']['refused'] > 1000


@case
def who_does_not_end_his_write_does_not_keep_the_node():
    with Node('ram:1M') as node, Client(node).go() as client:
        client.request(WRITE, 0, 128 << 10, data=bytes(1000))
        until(lambda: node.status()['pool_taken'])
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(20) == 0 and client.is_ended()


@case
def who_does_not_connect_has_ten_seconds():
    with Nvme('ram:1M') as node, Queue(node.address) as queue, silent_nbd(node) as client:
        began = time.monotonic()
        with contextlib.suppress(AssertionError, OSError):
            while time.monotonic() < began + 25:  # each of them is refused
                assert queue.connect('nqn.2026-11.test:nosuch').status == BAD_PARAMETER
                time.sleep(0.2)
        assert 8 < time.monotonic() - began < 20, time.monotonic() - began
        client.recv(100)
        assert is_ended(client)
        until(lambda: (node.status()['nbd']['stalled'], node.status()['nvme_tcp']['stalled']) ==
              (1, 1))


@case
def a_device_that_does_not_let_go_is_told_as_under_way():
    with folder() as place:
        path = place / 'disk.img'
        path.write_bytes(bytes(1 << 20))
        with Node('--allow-add', f'a=delay+file:{path}?delay.read=10s', 'b=ram:1M') as node:
            client = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 512', node.uri('a')],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                until(lambda: 1 in [rta['in_flight'] for rta in node.status()['rtas']])
                expect(weft('rescan', '--remove=a', node.process.pid), 0,
                       'a: going; its device has not answered yet\n')
                expect(weft('rescan', '--remove=b', node.process.pid), 0, 'b: removed\n')
            finally:
                client.kill()
                client.wait()


@case
def a_slow_device_keeps_nobody_else_waiting():
    need('qemu-io')
    with Node('slow=delay+ram:1M?delay.read=5s', 'fast=ram:1M') as node:
        slow = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri('slow')],
                                stdout=subprocess.DEVNULL)
        until(lambda: [rta['in_flight'] for rta in node.status()['rtas']] == [1, 0])
        run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', '-c', 'read 0 4k', node.uri('fast'))
        assert slow.poll() is None, 'the fast volume was no faster'
        assert slow.wait(LIMIT) == 0


@case
def a_device_that_loses_commands_is_asked_again():
    need('qemu-io')
    with Node('a=lose+ram:1M?lose=20%&lose.late=20%') as node:
        words = [word for at in range(0, 64) for word in ('-c', f'aio_write -P 3 {at * 4}k 4k')]
        run('qemu-io', '-f', 'raw', *words, '-c', 'aio_flush', '-c', 'read -P 3 0 256k', node.uri())
        assert node.status()['rtas'][0]['resubmissions'] > 0


main()
