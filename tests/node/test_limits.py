#!/usr/bin/env python3
"""How many clients there may be, what they cost, and how long they may be silent."""

import contextlib
import os
import pathlib
import re
import resource
import time
import urllib.request

import nvme_host as nvme
from nbd_client import READ, Client, is_ended, silent_nbd
from nvme_host import Queue, session
from serving import Nvme, Skip, case, folder, free_port, main, until, weft

NBD_OF_HOST, TCP_OF_HOST, DISCOVERY_OF_HOST = 1024, 1280, 16
BUSY, BAD_PARAMETER, KATO_INVALID = 0x181, 0x182, 0x1a
HOUR_MS = 3600 * 1000


def need_descriptors(number):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        raise Skip(f'{number} descriptors are needed, {hard} may be had')
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))


def resident(node):
    """Octets of memory that the node has."""
    text = pathlib.Path(f'/proc/{node.process.pid}/status').read_text()
    return int(re.search(r'VmRSS:\s+(\d+)', text).group(1)) << 10


def processor_time(process):
    """Seconds that it has used so far."""
    fields = pathlib.Path(f'/proc/{process}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


@case
def a_silent_connection_costs_little():
    need_descriptors(3000)
    with Nvme('ram:1M') as node, contextlib.ExitStack() as stack:
        stack.enter_context(Client(node).go())
        for protocol, limit, come in (('nbd', 8 << 10, lambda: silent_nbd(node)),
                                      ('nvme_tcp', 8 << 10,
                                       lambda: Queue(node.address, ready=False))):
            before, accepted = resident(node), node.status()[protocol]['accepted']
            for _ in range(800):
                stack.enter_context(come())
            until(lambda: node.status()[protocol]['accepted'] == accepted + 800)
            cost = (resident(node) - before) / 800
            print(f'# {protocol}: {cost / 1024:.1f} KiB')
            assert cost <= limit, (protocol, cost)


@case
def an_address_has_its_limit_and_others_are_served():
    need_descriptors(3000)
    with Nvme('ram:1M') as node, contextlib.ExitStack() as stack:
        for _ in range(NBD_OF_HOST):
            stack.enter_context(silent_nbd(node))
        with silent_nbd(node) as beyond:
            assert is_ended(beyond)
        assert 'nbd: a client at unix, process' in node.said()
        for _ in range(TCP_OF_HOST):
            stack.enter_context(Queue(node.address, ready=False, source='127.0.0.2'))
        with Queue(node.address, ready=False, source='127.0.0.2') as beyond:
            assert beyond.is_ended()
        assert re.search(r'nvme-tcp: a host at 127\.0\.0\.2:\d+ is refused: too many', node.said())
        with session(node.address, node.nqn, source='127.0.0.3') as (_, queue):
            assert queue.read(0, 1).status == 0
        found = node.status()
        assert (found['nbd']['refused'], found['nvme_tcp']['refused']) == (1, 1)


@case
def as_many_as_the_limits_allow_are_served():
    need_descriptors(3000)
    with Nvme('ram:1M') as node, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(node).go()) for _ in range(NBD_OF_HOST)]
        hosts = [stack.enter_context(session(node.address, node.nqn, 16, host=f'{nvme.DISCOVERY}-'
                                             f'{number}')) for number in range(64)]
        assert node.status()['connections'] == NBD_OF_HOST + 64 * 16
        for client in clients:
            client.request(0, 0, 512)
        for _, *queues in hosts:
            assert all(queue.read(0, 1).status == 0 for queue in queues)
        assert all(client.answer(512)[0] == 0 for client in clients)


@case
def a_node_without_descriptors_waits_until_it_has_some():
    with Nvme('ram:1M') as node, Client(node).go() as served:
        process = node.process.pid
        before = resource.prlimit(process, resource.RLIMIT_NOFILE)
        in_use = {int(one.name) for one in pathlib.Path(f'/proc/{process}/fd').iterdir()}
        first_free = min(set(range(len(in_use) + 1)) - in_use)
        resource.prlimit(process, resource.RLIMIT_NOFILE, (first_free, before[1]))
        with silent_nbd(node) as waiting:
            spent, of_a_spinner = processor_time(process), time.process_time()
            until_then = time.monotonic() + 1
            while time.monotonic() < until_then:
                pass
            spent = processor_time(process) - spent
            of_a_spinner = time.process_time() - of_a_spinner
            assert spent < of_a_spinner / 4, f'{spent} s, and {of_a_spinner} s has who spins'
            served.request(READ, 0, 512)
            assert served.answer(512)[0] == 0
            resource.prlimit(process, resource.RLIMIT_NOFILE, before)
            waiting.settimeout(10)
            assert waiting.recv(8) == b'NBDMAGIC'


@case
def an_address_has_few_discovery_controllers():
    with Nvme('ram:1M') as node, contextlib.ExitStack() as stack:
        for _ in range(DISCOVERY_OF_HOST):
            stack.enter_context(session(node.address, nvme.DISCOVERY, 0))
        with Queue(node.address) as queue:
            said = queue.connect(nvme.DISCOVERY)
            assert (said.status, said.is_final) == (BUSY, False)
        assert 'too many controllers' in node.said()
        stack.enter_context(session(node.address, nvme.DISCOVERY, 0, source='127.0.0.2'))
        stack.enter_context(session(node.address, node.nqn))


@case
def a_promise_to_be_heard_of_is_at_most_an_hour():
    with Nvme('ram:1M') as node:
        with Queue(node.address) as queue:
            said = queue.connect(nvme.DISCOVERY, kato=HOUR_MS + 1)
            assert (said.status, said.result) == (BAD_PARAMETER, 48)
            assert queue.connect(nvme.DISCOVERY, kato=HOUR_MS).status == 0
            queue.set(nvme.CC, nvme.ENABLE)
            assert queue.feature(15, HOUR_MS + 1).status == KATO_INVALID
            assert queue.feature(15, 0).status == 0
            said = queue.ask(nvme.sqe(nvme.GET_FEATURES, 6, tail=bytes([15])))
            assert said.result == 60000  # it cannot promise nothing


# What the node tells now, or told half a second ago to somebody else.
def names_in_metrics(port, counter, value):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics') as answer:
        text = answer.read().decode()
    return sorted(re.findall(rf'weft_volume_{counter}{{volume="(.*)",operation="read"}} {value}\n',
                             text))


@case
def a_volume_that_is_gone_leaves_its_counters_to_others():
    port = free_port()
    with folder() as place:
        config = place / 'node.ini'

        def volumes(letter):
            config.write_text('[node]\nrta = one\n' + ''.join(
                f'[volume {letter}{number}]\nuri = null:1M\n' for number in range(100)))
            return {f'{letter}{number}' for number in range(100)}
        names = volumes('a')
        with Nvme(f'--config={config}', f'--metrics=127.0.0.1:{port}') as node:
            for letter in 'abc':
                if letter != 'a':
                    names = volumes(letter)
                    weft('rescan', node.process.pid)
                until(lambda: {one['name'] for one in node.status()['volumes']} == names and
                      all(one['state'] == 'ready' for one in node.status()['volumes']))
                for name in names:
                    with Client(node).go(name.encode()) as client:
                        client.request(READ, 0, 512)
                        client.request(READ, 0, 512, cookie=8)
                        assert (client.answer(512)[0], client.answer(512, cookie=8)[0]) == (0, 0)
                until(lambda: node.status()['connections'] == 0)
                assert {(one['connections'], one['operations']['read'])
                        for one in node.status()['volumes']} == {(0, 2)}
                until(lambda: names_in_metrics(port, 'operations_total', 2) == sorted(names))
                assert names_in_metrics(port, 'octets_total', 1024) == sorted(names)


main()
