#!/usr/bin/env python3
"""As many volumes as a node has room for, and volumes that come and go ten thousand times: what one
had is given back when it goes."""

import struct

from controlled import Controlled
from nbd_client import ACK, LIST, READ, SERVER, WRITE, Client
from nvme_host import session
from serving import Node, Nvme, case, count, expect, expect_error, main, os, pathlib, until, weft

MOST = 1024
PARTS = 3  # of so many at least one is to leave nothing
LEAK_OCTETS = 128  # of each volume are seen; the heap keeps 400 KiB more or less, as it comes
BY_CHANCE = 8  # a leak of one by each of the volumes that come and go is 150 at least
DISCOVERY = 'nqn.2014-08.org.nvmexpress.discovery'
LOG_DISCOVERY = 0x70


def names(number):
    return [f'v{index}' for index in range(number)]


def states(node):
    return {volume['state'] for volume in node.status()['volumes']}


@case
def a_thousand_volumes_are_listed_found_and_kept_apart():
    volumes = names(MOST)
    with Nvme('--rta=one', *(f'{name}=ram:1M' for name in volumes)) as node:
        assert states(node) == {'ready'} and len(set(node.nqns)) == MOST
        with Client(node) as client:
            client.option(LIST)
            replies = [client.reply(LIST) for _ in range(MOST + 1)]
        assert replies.pop() == (ACK, b'')
        assert [data[4:].decode() for kind, data in replies if kind == SERVER] == volumes
        with session(node.address, DISCOVERY, 0) as (admin,):
            assert struct.unpack_from('<QQ', admin.log(LOG_DISCOVERY, 1024).data)[1] == MOST
        for kind in WRITE, READ:
            for index, name in enumerate(volumes):
                with Client(node).go(name.encode()) as client:
                    mark = struct.pack('<Q', index) * 64
                    client.request(kind, 0, 512, data=mark if kind == WRITE else b'')
                    assert client.answer(0 if kind == WRITE else 512) == \
                        (0, b'' if kind == WRITE else mark), name


@case
def each_of_a_thousand_may_have_a_process_of_its_own():
    number = count(128, MOST)
    with Node(*(f'{name}=null:1M' for name in names(number))) as node:
        assert states(node) == {'ready'} and len(node.rtas()) == number


@case
def one_more_is_refused_and_room_that_one_leaves_is_anothers():
    said = weft('serve', '--rta=one', *(f'{name}=null:1M' for name in names(MOST + 1)))
    assert said.returncode == 2 and f'at most {MOST} volumes' in said.stderr, said.stderr
    with Node('--allow-add', '--rta=one', *(f'{name}=null:1M' for name in names(MOST))) as node:
        pid = node.process.pid
        expect_error(weft('rescan', '--add=more=null:1M', pid), 1, 'volumes')
        expect(weft('rescan', '--remove=v7', pid), 0, 'v7: removed\n')
        expect(weft('rescan', '--add=more=null:1M', pid), 0, 'more: added\n')


def held(node):
    """What its host's process has of the system: descriptors, mappings, processes."""
    proc = pathlib.Path(f'/proc/{node.process.pid}')
    return (len(os.listdir(proc / 'fd')), len((proc / 'maps').read_text().splitlines()),
            len(node.rtas()))


def memory(node):
    """Its own, in KiB."""
    rollup = pathlib.Path(f'/proc/{node.process.pid}/smaps_rollup').read_text()
    return sum(int(line.split()[1]) for line in rollup.splitlines()
               if line.startswith(('Private_Dirty:', 'Private_Clean:')))


def come_and_go(node, uri, number):
    for _ in range(number):
        assert node.ask(f'add v={uri}\n'.encode())['ok'] and node.ask(b'remove v\n')['ok']


def nothing_is_left(uri, number, *words):
    """Behind the first half memory that is kept for the next ones is there. At times megabytes more
    come in one step, and nothing behind that; a leak is there behind each part."""
    most = max(256, number // 2 * LEAK_OCTETS // 1024)
    os.environ.pop('MALLOC_PERTURB_', None)  # it writes into what nobody uses
    with Controlled('--nvme-tcp=127.0.0.1:0', '--iscsi=127.0.0.1:0', '--allow-add', *words,
                    'null:1M') as node:
        come_and_go(node, uri, number // 2)
        before, memories = until(lambda: settled(node), 60), [memory(node)]
        while len(memories) < 2 or memories[-1] - memories[-2] > most:
            assert len(memories) <= PARTS, f'{memories} KiB, one after {number // 2} more each'
            come_and_go(node, uri, number // 2)
            until(lambda: nothing_more(settled(node), before), 60)
            memories.append(memory(node))
        print(f'# {number} of {uri}: {before}, {memories} KiB')


def settled(node):
    """What it has, once the last process is gone; nothing as long as that is not so."""
    has = held(node)
    return has if has[2] <= 1 else None


def nothing_more(has, before):
    """But for what is there for a moment, and mappings that the kernel joins, or does not."""
    return has is not None and all(now <= then + BY_CHANCE for now, then in zip(has, before))


@case
def volumes_of_the_hosts_own_come_and_go_and_nothing_is_left():
    nothing_is_left('ram:1M', 10000, '--rta=host')


@case
def processes_come_and_go_with_their_volumes_and_nothing_is_left():
    nothing_is_left('ram:1M', count(300, 10000))


if __name__ == '__main__':
    main()
