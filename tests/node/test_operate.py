#!/usr/bin/env python3
"""A node that runs, as its operator has it: rescan, status, the control socket, metrics."""

import contextlib
import json
import os
import re
import signal
import socket
import stat
import urllib.request

import nvme_host as nvme
from nvme_host import Queue, session
from serving import (LIMIT, Node, Nvme, case, expect, expect_error, folder, free_port, main, need,
                     pathlib, run, subprocess, until, weft)


def volumes(node):
    return {volume['name']: volume for volume in node.status()['volumes']}


@case
def volumes_come_and_go_while_the_node_runs():
    with folder() as place:
        file = pathlib.Path(place, 'node.ini')
        file.write_text('[volume a]\nuri = ram:1M\n[volume b]\nuri = ram:1M\n')
        with Node('--allow-add', f'--config={file}') as node:
            file.write_text('[volume a]\nuri = ram:1M\n[volume c]\nuri = ram:1M\n')
            node.process.send_signal(signal.SIGHUP)
            until(lambda: list(volumes(node)) in (['a', 'c'], ['c', 'a']))
            until(lambda: volumes(node)['c']['state'] == 'ready')
            expect(weft('rescan', '--add=d=null:1M', '--remove=a', node.process.pid), 0,
                   'd: added\na: removed\n')
            assert sorted(volumes(node)) == ['c', 'd'] and volumes(node)['d']['state'] == 'ready'
            expect_error(weft('rescan', '--remove=a', node.process.pid), 1, 'no such volume')
            expect_error(weft('rescan', '--add=d=ram:1M', node.process.pid), 1, 'of this name')
            expect_error(weft('rescan', '--add=floppy:', node.process.pid), 1, 'no driver')
            expect_error(weft('rescan', '--add=e=/none', node.process.pid), 1, 'No such file')
            until(lambda: sorted(volumes(node)) == ['c', 'd'])
            until(lambda: len(node.status()['rtas']) == 2)


@case
def volumes_are_added_only_where_the_operator_allowed_it():
    with Node('ram:1M') as node:
        expect_error(weft('rescan', '--add=loot=file:/etc/passwd', node.process.pid), 1,
                     'takes no volumes from outside', '--allow-add')
        assert list(volumes(node)) == ['ram']
    with folder() as place:
        file = pathlib.Path(place, 'node.ini')
        file.write_text('[node]\nallow-add = yes\n[volume a]\nuri = ram:1M\n')
        with Node(f'--config={file}') as node:
            expect(weft('rescan', '--add=b=ram:1M', node.process.pid), 0, 'b: added\n')


@case
def a_node_that_refuses_writes_refuses_those_to_volumes_that_come_later():
    with folder() as place:
        file = place / 'node.ini'
        file.write_text('[volume a]\nuri = ram:1M\n')
        with Node('-r', '--allow-add', f'--config={file}', 'd=ram:1M') as node:
            file.write_text('[volume a]\nuri = ram:1M\n[volume b]\nuri = ram:1M\n')
            expect(weft('rescan', node.process.pid), 0, 'b: added\n')
            expect(weft('rescan', '--add=c=ram:1M', node.process.pid), 0, 'c: added\n')
            found = {name: volume['read_only'] for name, volume in volumes(node).items()}
            assert found == dict.fromkeys('abcd', True), found
            file.write_text('[volume d]\nuri = ram:1M\n')
            expect_error(weft('rescan', node.process.pid), 1,
                         'd: there is another volume of this name')
            assert sorted(volumes(node)) == list('abcd')


@case
def a_rescan_applies_what_changed_of_volumes_that_stay():
    with folder() as place:
        file, one = place / 'node.ini', place / 'one.img'
        one.write_bytes(bytes(4096))
        first = f'[volume a]\nuri = {one}\n[volume b]\nuri = ram:1M\n[volume c]\nuri = ram:1M\n'
        file.write_text(first)
        with Node(f'--config={file}') as node:
            run('qemu-io', '-f', 'raw', '-c', 'write 0 512', node.uri('c'))
            kept = node.uri('b')
            expect(weft('rescan', node.process.pid), 0, '')
            os.truncate(one, 8192)
            file.write_text(first.replace('[volume c]\nuri = ram:1M', '[volume c]\nuri = ram:2M')
                            .replace('[volume b]', '[volume b]\nread-only = yes')
                            .replace('[volume a]', '[volume a]\nallow = 192.0.2.1'))
            said = weft('rescan', node.process.pid)
            expect(said, 0, None)
            assert sorted(said.stdout.splitlines()) == [
                'a: 8K octets', 'a: other clients', 'b: opened anew', 'c: 2M octets',
                'c: opened anew'], said.stdout
            now = volumes(node)
            assert now['b']['read_only'] and now['c']['size'] == 2 << 20, now
            refused = subprocess.run(['qemu-io', '-f', 'raw', '-c', 'write 0 512', kept],
                                     capture_output=True, text=True, timeout=LIMIT)
            assert refused.returncode != 0, refused
            file.write_text('[volume a]\nuri = /nonexistent\n')
            expect(weft('rescan', node.process.pid), 1, None, 'volume a', 'No such file')


@case
def a_subsystem_has_the_name_that_the_operator_gave_it():
    taken = 'another volume has this NSID of the NQN, or LUN of the target'
    with folder() as place:
        file = place / 'node.ini'
        file.write_text('[volume a]\nuri = ram:1M\nnqn = nqn.2026-11.test:a\n')
        with Nvme('--allow-add', f'--config={file}', 'b=ram:1M?nqn=test-b') as node:
            assert node.nqns == ['nqn.2026-11.test:a', 'test-b'], node.nqns
            with session(node.address, 'test-b') as (admin, queue):
                assert admin.identify(1).data[768:1024].rstrip(b'\0') == b'test-b'
                assert queue.write(0, b'b' * 512).status == 0
            with session(node.address, nvme.DISCOVERY, 0) as (admin,):
                log = admin.log(0x70, 3072).data
                told = [log[at + 256:at + 512].rstrip(b'\0').decode() for at in (1024, 2048)]
                assert sorted(told) == sorted(node.nqns), told
            uuid = node.status()['volumes'][1]['uuid']
            with Queue(node.address) as queue:  # it has no other name beside
                assert queue.connect(f'nqn.2014-08.org.nvmexpress:uuid:{uuid}').status == 0x182
            expect_error(weft('rescan', '--add=c=ram:1M?nqn=test-b&nsid=1', node.process.pid), 1,
                         taken)
            file.write_text('[volume a]\nuri = ram:1M\nnqn = nqn.2026-11.test:other\n')
            expect(weft('rescan', node.process.pid), 0, 'a: opened anew\n')
            assert any('nqn.2026-11.test:other' in uri for uri in volumes(node)['a']['uris'])
        expect_error(weft('serve', '--nbd=unix:/dev/null', 'a=ram:1M?nqn=x',
                          'b=ram:1M?nsid=1&nqn=x'), 1, taken)


@case
def a_long_mistake_under_a_long_path_is_told_whole_by_a_rescan():
    with folder() as place:
        deep = pathlib.Path(place, 'd' * 150)
        deep.mkdir()
        file = pathlib.Path(deep, 'node.ini')
        file.write_text('[volume a]\nuri = ram:1M\n')
        with Node(f'--config={file}') as node:
            file.write_text('[volume a]\nuri = ram:1M?' + 'x' * 150 + '\n')
            for _ in range(3):
                told = weft('rescan', node.process.pid)
                expect_error(told, 1, f'{file}:2: ', 'x' * 100)
            node.process.send_signal(signal.SIGHUP)
            until(lambda: 'x' * 100 in node.said())
            assert list(volumes(node)) == ['a']


@contextlib.contextmanager
def runtime_folder():
    """A runtime folder of its own, and the environment that names it."""
    with folder() as place:
        yield pathlib.Path(place, 'run'), {'WEFT_RUNTIME_DIR': str(place / 'run')}


def nodes_seen(env):
    return [node['pid'] for node in json.loads(weft('status', '--json', env=env).stdout)]


@case
def the_control_socket_is_for_its_own_user():
    with runtime_folder() as (place, env):
        with Node('ram:1M', env={**os.environ, **env}) as node:
            path = place / f'node.{node.process.pid}'
            assert stat.S_ISSOCK(path.stat().st_mode)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, oct(path.stat().st_mode)
            assert stat.S_IMODE(place.stat().st_mode) == 0o700, oct(place.stat().st_mode)
            assert f'@weft-node.{os.getuid()}.{node.process.pid}' not in \
                pathlib.Path('/proc/net/unix').read_text()
            assert node.process.pid in nodes_seen(env)
            assert node.process.pid not in nodes_seen({'WEFT_RUNTIME_DIR': '/nonexistent'})
        assert os.listdir(place) == []


@case
def what_a_killed_node_leaves_behind_is_seen_by_nobody_and_removed():
    with runtime_folder() as (place, env):
        with Node('ram:1M', env={**os.environ, **env}) as node:
            node.process.kill()
            node.process.wait()
            assert os.listdir(place) == [f'node.{node.process.pid}']
            assert node.process.pid not in nodes_seen(env)
        with Node('ram:1M', env={**os.environ, **env}) as node:
            assert os.listdir(place) == [f'node.{node.process.pid}']


@case
def a_node_whose_name_is_taken_says_so():
    with runtime_folder() as (place, env):
        place.mkdir(mode=0o700)

        def take():  # in the process that will be the node's, which keeps it open
            taker = socket.socket(socket.AF_UNIX)
            taker.bind(f'{place}/node.{os.getpid()}')
            taker.listen()
            os.dup2(taker.fileno(), 100)
        with Node('ram:1M', env={**os.environ, **env}, preexec_fn=take, close_fds=False) as node:
            until(lambda: 'somebody else answers there' in node.said())
            assert 'will not find this node' in node.said(), node.said()


@case
def a_runtime_folder_that_others_may_write_to_is_not_used():
    with runtime_folder() as (place, env):
        place.mkdir()
        place.chmod(0o777)
        with Node('ram:1M', env={**os.environ, **env}) as node:
            until(lambda: 'that others may not write to' in node.said())
            assert os.listdir(place) == []


@case
def a_client_of_a_volume_that_goes_is_let_go():
    need('qemu-io')
    with Node('a=ram:1M', 'b=ram:1M') as node:
        client = subprocess.Popen(['qemu-io', '-f', 'raw', node.uri('a')], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        until(lambda: volumes(node)['a']['connections'] == 1)
        expect(weft('rescan', '--remove=a', node.process.pid), 0, 'a: removed\n')
        assert list(volumes(node)) == ['b'] and node.status()['connections'] == 0, node.status()
        said, _ = client.communicate('read 0 512\nquit\n', timeout=LIMIT)
        assert 'failed' in said, said
        run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', node.uri('b'))


@case
def a_new_size_is_seen_by_a_rescan():
    with folder() as place:
        path = pathlib.Path(place, 'disk.img')
        path.write_bytes(bytes(4096))
        with Node(path) as node:
            os.truncate(path, 8192)
            expect(weft('rescan', node.process.pid), 0, 'disk.img: 8K octets\n')
            assert volumes(node)['disk.img']['size'] == 8192


@case
def metrics_are_there_for_prometheus():
    need('qemu-io')
    port = free_port()
    with Node('ram:1M', f'--metrics=127.0.0.1:{port}') as node:
        run('qemu-io', '-f', 'raw', '-c', 'write 0 64k', node.uri())
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=LIMIT) as answer:
            text = answer.read().decode()
        assert 'weft_volume_octets_total{volume="ram",operation="write"} 65536\n' in text, text
        assert 'weft_rta_up{rta="ram"} 1\n' in text, text
        for line in text.splitlines():
            assert line.startswith('# ') or re.fullmatch(r'weft_\w+(\{[^}]*\})? [\d.]+', line), line


@case
def status_tells_people_and_programs():
    with Node('ram:1M') as node:
        text = weft('status', node.process.pid).stdout
        assert re.search(r'\n  ram +ready +1M ram ', text), text
        assert re.search(r'\n  RTA .*\n  ram +ready ', text), text
        found, = json.loads(weft('status', '--json', node.process.pid).stdout)
        assert found['volumes'][0]['uri'] == node.uri('ram'), found
    expect_error(weft('status', node.process.pid), 1, 'no weft serve of yours')


main()
