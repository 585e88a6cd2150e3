#!/usr/bin/env python3
"""weft's own initiator at weft's own node, iSCSI over one-shot RDMA: files there and back, a unit
of one node as another's device, and what ends it."""

import collections
import contextlib
import hashlib
import subprocess
import urllib.parse

import clients
import recut
import wire as judged
from serving import (LIMIT, WEFT, Node, Skip, case, count, expect, expect_error, folder, main,
                     need, os, pathlib, run, signal, until, weft, wire)

MEGABYTES = count(16, 256)
# (the reserved bits of DDP's control field, the opcode) of a Send.
ADVERTISES, CLOSES, INVALIDATES = (4, 3), (8, 3), (0, 4)


class Target(Node):
    """A node that serves iSCSI over one-shot RDMA; the URI of its first volume."""

    def __init__(self, *words, port=0, **options):
        if '--iscsi-rdma' not in weft('serve', '--help').stdout:
            raise Skip('this weft serves no iSCSI over RDMA')
        super().__init__(f'--iscsi-rdma=127.0.0.1:{port}', *words, **options)

    def __enter__(self):
        super().__enter__()
        self.unit, = [uri for uri in self.status()['volumes'][0]['uris']
                      if uri.startswith('iscsi+rdma:')]
        self.port = int(self.unit.split('/')[2].rpartition(':')[2])
        return self


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def source(place, megabytes=MEGABYTES):
    """A file of which every eighth megabyte is zeroes."""
    path = pathlib.Path(place, 'source')
    with path.open('wb') as file:
        for i in range(megabytes):
            file.write(os.urandom(1 << 20) if i % 8 < 7 else bytes(1 << 20))
    return path


def volume(place, megabytes=MEGABYTES):
    path = pathlib.Path(place, 'disk.img')
    with path.open('wb') as file:
        file.truncate(megabytes << 20)
    return path


def cp(*words, env=None):
    expect(weft('cp', *words, limit=300, env=env), 0, None)


@case
def a_file_comes_back_as_it_went():
    with folder() as place:
        there, disk = source(place), volume(place)
        with Target(disk) as target:
            cp('--verify', there, target.unit)
            cp(target.unit, place / 'back')
        assert digest(there) == digest(disk) == digest(place / 'back')


@case
def zeroes_become_holes_at_both_ends():
    with folder() as place:
        there, disk = source(place), volume(place)
        with Target(disk) as target:
            cp('--sparse', there, target.unit)
            cp('--sparse', target.unit, place / 'back')
        assert digest(there) == digest(disk) == digest(place / 'back')


@case
def it_goes_by_send_with_invalidate_where_headers_have_no_place():
    if wire() != 'iwarp':
        raise Skip('RoCE has none of them')
    for parts in ('off', 'advertise', 'close'):
        env = {'WEFT_ONESHOT' if parts == 'off' else 'WEFT_ONESHOT_PARTS': parts}
        with folder() as place:
            there, disk = source(place, 8), volume(place, 8)
            with Target(disk) as target:
                cp(there, target.unit, env=env)
                cp(target.unit, place / 'back', env=env)
            assert digest(there) == digest(disk) == digest(place / 'back'), parts


@case
def a_unit_is_shown():
    with folder() as place, Target(volume(place)) as target:
        said = weft('info', target.unit).stdout
        assert f'{MEGABYTES}M' in said and 'one-shot RDMA' in said, said
        listed = weft('ls', target.unit).stdout
        assert target.unit in listed, listed


@case
def each_command_advertises_once_and_its_answer_closes():
    """As tshark sees it: of `weft cp` and of the questions before it."""
    if wire() != 'iwarp':
        raise Skip('what is looked for are bits of DDP')
    need('tshark')
    with folder() as place:
        there, disk = source(place, 4), volume(place, 4)
        captured = place / 'captured.pcap'
        with Target(disk) as target:
            cp(there, target.unit, env={'WEFT_PCAP': str(captured)})
        recut.recut(captured, place / 'recut.pcap', range(target.port, target.port + 1))
        said = run(*judged.tshark_words(), '-r', place / 'recut.pcap', '-Y', 'iwarp_ddp.rsvd',
                   '-T', 'fields', '-e', 'iwarp_ddp.rsvd', '-e', 'iwarp_rdma.opcode', limit=300)
    seen = collections.Counter(tuple(int(value, 0) for value in line.split('\t'))
                               for line in said.splitlines())
    assert seen[ADVERTISES] == seen[CLOSES] >= 16, seen
    assert seen[INVALIDATES] == 0, seen


@case
def a_unit_of_one_node_is_a_volume_of_another():
    need('qemu-io')
    with folder() as place, Target(volume(place)) as target, Node(f'disk={target.unit}') as node:
        run('qemu-io', '-f', 'raw', '-c', 'write -P 5 64k 1M', '-c', 'flush', '-c',
            'read -P 5 64k 1M', '-c', 'write -z 64k 64k', '-c', 'read -P 0 64k 64k', '-c',
            'discard 128k 64k', '-c', 'write -f -P 6 0 4k', '-c', 'read -P 6 0 4k', node.uri())
        octets = (place / 'disk.img').read_bytes()
        assert octets[256 << 10] == 5 and octets[64 << 10] == 0 and octets[0] == 6


@case
def it_proves_who_it_is_to_a_target_that_wants_that():
    secret = 'a-secret:of@one%?'
    quoted = urllib.parse.quote(secret, safe='')
    with folder() as place:
        secrets = place / 'secrets'
        secrets.touch(0o600)
        secrets.write_text(f'[initiator one]\nname = one\nsecret = {secret}\n')
        with Target(volume(place, 1), f'--iscsi-secrets={secrets}') as target:
            def unit(user):
                return target.unit.replace('//', f'//{user}', 1)

            with Node(f'disk={unit("one%25" + quoted + "@")}') as node:
                assert weft('info', node.uri()).returncode == 0
                assert secret not in str(node.status()) + node.said(), node.status()
            found = target.status()['iscsi_rdma']
            assert (found['sessions'], found['unproven']) == (1, 0), found
            for user in ('one%25another-secret@', 'two%25' + quoted + '@', ''):
                said = weft('info', unit(user))
                assert said.returncode == 1 and 'wants a proof of who logs in' in said.stderr, said
            assert target.status()['iscsi_rdma']['unproven'] == 3
            expect_error(weft('info', unit('one@')), 1, '//[USER%25SECRET@]HOST')


@case
def it_wants_a_proof_of_the_target_too():
    with folder() as place:
        secrets = place / 'secrets'
        secrets.touch(0o600)
        secrets.write_text('[initiator one]\nname = one\nsecret = of-the-initiator\n'
                           '[target]\nname = it\nsecret = of-the-target\n')
        with Target(volume(place, 1), f'--iscsi-secrets={secrets}') as target:
            unit = target.unit.replace('//', '//one%25of-the-initiator@', 1)

            def info(user, secret, of=unit):
                return weft('info', f'{of}?target_user={user}&target_secret={secret}')

            assert info('it', 'of-the-target').returncode == 0
            with Node(f'disk={unit}?target_user=it&target_secret=of-the-target') as node:
                assert 'of-the-target' not in str(node.status()) + node.said(), node.status()
            expect_error(info('it', 'of-another-one'), 1, 'the target has another secret')
            expect_error(info('another', 'of-the-target'), 1, 'the target proves to be another')
            expect_error(info('it', 'of-the-initiator'), 1, "is the initiator's own")
            expect_error(info('it', 'of-the-target', target.unit), 1, 'takes USER%25SECRET@')
            expect_error(weft('info', f'{unit}?target_user=it'), 1, 'go together')
        with Target(volume(place, 1)) as target:  # that proves nothing
            unit = target.unit.replace('//', '//one%25of-the-initiator@', 1)
            said = info('it', 'of-the-target', unit)
            assert said.returncode == 1 and 'or it has none of its own' in said.stderr, said


@case
def a_volume_is_attached():
    need('qemu-io')
    with folder() as place, Target(volume(place)) as target:
        result = weft('attach', '-q', '--run=qemu-io -f raw -c "write -P 7 0 64k" "$uri"',
                      target.unit)
        assert result.returncode == 0, result
        assert (place / 'disk.img').read_bytes()[:64 << 10] == b'\7' * (64 << 10)


@contextlib.contextmanager
def fio(node):
    """Ends with the case, however that does: without an RTA it would never."""
    words = [*clients.fio_words(), '--time_based', '--runtime=3', '--io_size=100G',
             '--verify_backlog=64', f'--uri={node.uri()}']
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as load:
        try:
            yield load
        finally:
            load.kill()


def rta_killed(node):
    """Until there is its successor, which is seen as soon as it is a process."""
    pid, = until(node.rtas)
    os.kill(pid, signal.SIGKILL)
    until(lambda: node.rtas() and pid not in node.rtas())


def rtas_killed(node, times):
    """One after the other, each when it drives the volume: one that never did is waited for longer
    each time, up to 5 s, so that kills by the clock may meet nothing but births."""
    for _ in range(times):
        rta_killed(node)
        until(lambda: node.status()['volumes'][0]['state'] == 'ready')


@case
def fio_verifies_while_rtas_are_killed():
    """Of the node whose device the unit is: its successor ends the session and resets the unit."""
    need('fio')
    with folder() as place, Target(volume(place)) as target, \
            Node(f'disk={target.unit}') as node, fio(node) as load:
        rtas_killed(node, 3)
        _, said = load.communicate(timeout=LIMIT)
        assert load.returncode == 0, said


@case
def fio_verifies_after_successors_died_at_birth():
    """On their way to a session, within its login or its reset: what waits is the next one's."""
    need('fio')
    with folder() as place, Target(volume(place)) as target, \
            Node(f'disk={target.unit}') as node, fio(node) as load:
        until(lambda: node.status()['volumes'][0].get('operations', {}).get('write'))
        for _ in range(4):
            rta_killed(node)
        _, said = load.communicate(timeout=LIMIT)
        assert load.returncode == 0, said


@case
def a_node_that_goes_is_waited_for():
    need('qemu-io')
    with folder() as place:
        disk = volume(place)
        with Target(disk) as target:
            unit, port = target.unit, target.port
            node = Node(f'disk={unit}').__enter__()
            run('qemu-io', '-f', 'raw', '-c', 'write -P 3 0 64k', node.uri())
        try:
            until(lambda: 'is lost, commands wait' in node.said())
            read = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read -P 3 0 64k', node.uri()],
                                    stdout=subprocess.PIPE, text=True)
            with Target(disk, port=port):
                said, _ = read.communicate(timeout=LIMIT)
                assert read.returncode == 0 and 'failed' not in said, said
                assert 'is back' in node.said()
        finally:
            node.__exit__()


@case
def a_node_that_does_not_answer_is_called_again():
    need('qemu-io')
    with folder() as place, Target(volume(place)) as target, \
            Node(f'disk={target.unit}?timeout=500ms') as node:
        target.process.send_signal(signal.SIGSTOP)
        write = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', '-c',
                                  'read -P 5 0 64k', node.uri()], stdout=subprocess.DEVNULL)
        try:
            until(lambda: 'the target does not answer' in node.said())
        finally:
            target.process.send_signal(signal.SIGCONT)
        assert write.wait(LIMIT) == 0


@case
def a_refusal_arrives_where_packets_are_lost():
    if wire() != 'roce':
        raise Skip('a stream loses nothing')
    lossy = {**os.environ, 'WEFT_FAULT': 'loss=20%,side=out,seed=7'}
    with folder() as place, Target(volume(place), env=lossy) as target:
        wrong = target.unit.replace('uuid:', 'nothing:')
        for _ in range(10):
            expect_error(weft('info', wrong), 1, 'there is no such target')


@case
def what_is_not_there_is_named():
    with folder() as place, Target(volume(place)) as target:
        wrong = target.unit.replace('uuid:', 'nothing:')
        expect_error(weft('info', wrong), 1, 'there is no such target')
        unit = f'iscsi+rdma://127.0.0.1:1/{target.unit.split("/", 3)[3]}'
        expect_error(weft('info', unit), 1, 'over TCP it is iscsi://')
        said = weft('info', 'iscsi+rdma://127.0.0.1')
        assert said.returncode == 2 and 'it names no unit' in said.stderr, said


main()
