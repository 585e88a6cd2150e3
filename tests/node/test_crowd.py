#!/usr/bin/env python3
"""Many clients and many volumes: none of them can keep an RTA from coming back."""

import contextlib
import struct
import time

import nvme_host
from crowd import Crowd
from serving import Node, case, count, free_port, main, need, os, signal, subprocess, until

CLIENTS = MOST = 1024
HOSTS, QUEUES = 64, 16


def kill_rtas(node):
    for pid in node.rtas():
        os.kill(pid, signal.SIGKILL)


def restarts(node):
    return sum(rta['restarts'] for rta in node.status()['rtas'])


def comes_back(node, crowd, deaths=3):
    """The RTAs die with every client's write in their hands; all are answered, and rightly so.
    It takes no longer than to start them did, but for noise and the back-off."""
    quiet = max(crowd.round() for _ in range(3))
    for _ in range(deaths):
        crowd.ask()
        kill_rtas(node)
        begin = time.monotonic()
        crowd.wait()
        took = time.monotonic() - begin
        print(f'# {len(crowd.members)} clients: start {node.start_seconds:.3f} s, '
              f'a round {quiet:.3f} s, with a death {took:.3f} s')
        assert took < 5 + 10 * quiet + 4 * node.start_seconds, f'{took} s'


def fio(node):
    """It writes over NBD, behind the first MiB, and verifies."""
    return subprocess.Popen(
        ['fio', '--name=judge', '--ioengine=nbd', f'--uri={node.uri()}', '--offset=1M',
         '--size=32M', '--rw=randwrite', '--bs=4k-64k', '--iodepth=16', '--time_based',
         '--runtime=3', '--verify=crc32c', '--verify_fatal=1', '--verify_backlog=128',
         '--verify_state_save=0', '--minimal'],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def verified(load):
    _, said = load.communicate(timeout=60)
    assert load.returncode == 0, said


@case
def a_crowd_of_clients_outlives_its_rta():
    """And fio, which verifies what it writes."""
    need('fio')
    with Node('ram:64M') as node, Crowd(node, CLIENTS - 1) as crowd:
        load = fio(node)
        until(lambda: node.status()['connections'] == CLIENTS)
        comes_back(node, crowd)
        verified(load)
        assert restarts(node) == 3


def block_of(queue):
    return struct.pack('<I', queue) * 128


def ask_all(queues, opcode):
    for at, queue in enumerate(queues):
        is_write = opcode == nvme_host.WRITE
        where = (nvme_host.in_capsule if is_write else nvme_host.transport)(512)
        queue.capsule(nvme_host.rw(opcode, at, 1, where), block_of(at) if is_write else b'')


def answers(queues, opcode):
    for at, queue in enumerate(queues):
        said = queue.answer()
        assert said.status == 0, at
        assert opcode == nvme_host.WRITE or said.data == block_of(at), at


def hosts_come_back(node, queues, opcode, quiet):
    """The RTA dies with a command of each queue in its hands; one that is sent afterwards is
    answered soon, and all are."""
    ask_all(queues, opcode)
    kill_rtas(node)
    begin = time.monotonic()
    late = queues[-1]
    late.capsule(nvme_host.rw(nvme_host.READ, 2000, 1, nvme_host.transport(512), cid=1))
    said = {one.cid: one.status for one in (late.answer(), late.answer())}
    back = time.monotonic() - begin
    assert said == {0: 0, 1: 0}, said
    answers(queues[:-1], opcode)
    took = time.monotonic() - begin
    print(f'# {HOSTS} hosts of {QUEUES} queues: a round {quiet:.3f} s, with a death {took:.3f} s, '
          f'service is back after {back:.3f} s')
    assert took < 5 + 10 * quiet + 4 * node.start_seconds, f'{took} s'


@case
def a_crowd_of_hosts_outlives_its_rta():
    """As many hosts with as many queues, and fio, which verifies what it writes."""
    need('fio')
    port = free_port()
    with Node('ram:64M', f'--nvme-tcp=127.0.0.1:{port}') as node, contextlib.ExitStack() as stack:
        nqn = 'nqn.2014-08.org.nvmexpress:uuid:' + node.status()['volumes'][0]['uuid']
        queues = [queue for host in range(HOSTS) for queue in stack.enter_context(
            nvme_host.session(('127.0.0.1', port), nqn, QUEUES, host=f'nqn.2026-11.test:{host}',
                              hostid=struct.pack('<QQ', 1, host)))[1:]]
        assert len(queues) == HOSTS * QUEUES
        load = fio(node)
        until(lambda: node.status()['connections'] == HOSTS * QUEUES + 1)
        begin = time.monotonic()
        ask_all(queues, nvme_host.WRITE)
        answers(queues, nvme_host.WRITE)
        quiet = time.monotonic() - begin
        for _ in range(2):
            hosts_come_back(node, queues, nvme_host.WRITE, quiet)
            hosts_come_back(node, queues, nvme_host.READ, quiet)
        verified(load)
        assert restarts(node) == 4


@case
def as_many_volumes_as_there_may_be_come_back():
    """With one RTA for all, and, as many as there is time for, with an RTA each."""
    for how, number in (('one', MOST), ('each', count(256, MOST))):
        volumes = [f'v{i}' for i in range(number)]
        words = [f'{name}=ram:1M' for name in volumes]
        with Node(f'--rta={how}', *words) as node, Crowd(node, CLIENTS, volumes) as crowd:
            assert len(node.rtas()) == (number if how == 'each' else 1)
            comes_back(node, crowd, deaths=2)
            until(lambda: all(v['state'] == 'ready' for v in node.status()['volumes']))


@case
def in_the_host_itself_a_crowd_is_served_too():
    volumes = [f'v{i}' for i in range(MOST)]
    words = [f'{name}=ram:1M' for name in volumes]
    with Node('--rta=host', *words) as node, Crowd(node, CLIENTS, volumes) as crowd:
        crowd.round()
        assert node.rtas() == [] and restarts(node) == 0


@case
def a_crowd_that_leaves_at_once_harms_no_rta():
    with Node('ram:1M') as node:
        for _ in range(3):
            with Crowd(node, CLIENTS) as crowd:
                crowd.round()
        with Crowd(node, 1) as crowd:
            crowd.round()
        assert restarts(node) == 0, node.said()


@case
def clients_that_come_and_go_harm_no_rta():
    """Ten thousand, some of which have asked for the volume and some not."""
    with Node('ram:1M') as node:
        for _ in range(10000 // CLIENTS + 1):
            with Crowd(node, CLIENTS):
                pass
        with Crowd(node, 1) as crowd:
            crowd.round()
        assert restarts(node) == 0, node.said()


main()
