#!/usr/bin/env python3
"""weft serve, status and rescan: the command line, the configuration file, faults, metrics."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import stat
import urllib.request

from serving import (LIMIT, WEFT, Node, Skip, captive, case, expect, expect_error, folder,
                     free_port, main, need, pathlib, run, subprocess, until, weft)
from cgroups import memory_group


def status(node):
    return json.loads(weft('status', '--json', node.process.pid).stdout)[0]


def volumes(node):
    return {volume['name']: volume for volume in status(node)['volumes']}


@case
def wrong_command_lines_are_refused():
    for words, said in (([], 'serve what?'), (['floppy:a'], 'there is no driver floppy'),
                        (['--rta=both', 'ram:1M'], 'each, one or host'),
                        (['--pool=none', 'ram:1M'], '--pool=none'), (['--bogus'], 'no option'),
                        (['ram:1M?colour=red'], 'no parameter colour'), (['--nbd'], 'needs a')):
        expect(weft('serve', *words), 2, '', said)


@case
def what_cannot_be_served_is_told_at_once():
    with folder() as place:
        for words, said in ((['/nonexistent'], 'No such file'), (['ram:lots'], 'size=lots'),
                            ([place], 'neither a file nor a block device')):
            result = weft('serve', f'--nbd=unix:{place}/socket', *words)
            assert result.returncode == 1, result
            assert said in result.stderr or 'directory' in result.stderr, result.stderr
            assert '\n  do:  ' in result.stderr and 'not opened' not in result.stderr, result.stderr


@case
def the_advice_fits_what_is_wrong():
    if os.getuid() != 0:
        raise Skip('another user has to try, which takes root')
    with folder() as place:
        place.chmod(0o755)
        path = place / 'disk.img'
        path.write_bytes(bytes(4096))
        path.chmod(0o444)
        as_nobody = ['setpriv', '--reuid=65534', '--clear-groups', WEFT, 'serve', '--quiet',
                     '--nbd=127.0.0.1:0', '--run=true']
        for words, status, said in (([path], 1, 'serve it with -r'), (['-r', path], 0, ''),
                                    ([place / 'none'], 1, 'see whether the name is right')):
            result = subprocess.run([*as_nobody, *words], stderr=subprocess.PIPE, text=True,
                                    timeout=60)
            assert result.returncode == status and said in result.stderr, result
        with Node(f'{path}'):
            busy = weft('serve', f'--nbd=unix:{place}/other', path)
            expect_error(busy, 1, 'another process', 'end the other process')


@case
def an_address_in_use_is_told_at_once():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        listener.listen()
        port = listener.getsockname()[1]
        for option in ('--nbd=', '--nvme-rdma=', '--nvme-tcp='):
            expect_error(weft('serve', f'{option}127.0.0.1:{port}', 'ram:1M'), 1, 'in use', option)


@case
def an_address_that_cannot_be_is_told_at_once():
    for address, said in (('203.0.113.7:1', 'no RDMA device has this address'),
                          ('127.0.0.1:65536', 'no such port')):
        expect_error(weft('serve', f'--nvme-rdma={address}', 'ram:1M'), 1, said, '--nvme-rdma=')
    expect_error(weft('serve', '--nbd=127.0.0.1:65536', 'ram:1M'), 1, 'no such port', '--nbd=')


@case
def a_pool_that_the_memory_limit_does_not_allow_is_told():
    with folder() as place, memory_group(24 << 20, 'memory.max') as group:
        words = [WEFT, 'serve', '--quiet', f'--nbd=unix:{place}/socket', '--run=true', 'ram:1M']
        join = lambda: (group / 'cgroup.procs').write_text(str(os.getpid()))  # noqa: E731
        inside = subprocess.run(words, preexec_fn=join, stderr=subprocess.PIPE, text=True,
                                timeout=60)
        outside = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60)
    assert 'pool of 64M is large beside the memory limit of 24M' in inside.stderr, inside
    assert 'memory limit' not in outside.stderr, outside


@case
def a_limit_on_the_size_of_files_is_an_error_and_no_end():
    need('qemu-io')

    def limit(octets):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (octets, octets))

    def write(at):
        return f'qemu-io -f raw -c "write -P 97 {at} 4k" "$uri"'

    with folder() as place:
        path = pathlib.Path(place, 'disk.img')
        with path.open('wb') as file:
            file.truncate(256 << 20)
        words = [WEFT, 'serve', '--quiet', f'--nbd=unix:{place}/socket']
        refused = subprocess.run([*words, '--run=true', 'ram:1M'], preexec_fn=limit(1 << 20),
                                 stderr=subprocess.PIPE, text=True, timeout=60)
        assert refused.returncode == 1 and 'ulimit -f' in refused.stderr, refused
        # What lies behind the limit cannot be written; what lies before it can, afterwards too.
        tried = f'{write("200M")}; {write("0")} && {write("4k")}'
        served = subprocess.run([*words, f'--run={tried}', path], preexec_fn=limit(128 << 20),
                                capture_output=True, text=True, timeout=60)
        assert served.returncode == 0 and 'failed' in served.stdout, served
        assert path.read_bytes()[:8192] == b'a' * 8192


@case
def a_captive_command_has_the_signals_of_any_other():
    said = captive('grep SigIgn /proc/self/status', 'ram:1M')
    assert int(said.split()[1], 16) & 1 << (signal.SIGPIPE - 1) == 0, said


@case
def octets_that_fill_no_block_are_told_where_clients_have_blocks():
    with folder() as place:
        path = pathlib.Path(place, 'odd.img')
        path.write_bytes(bytes(1000))
        with Node('--nvme-tcp=127.0.0.1:0', path) as node:
            assert 'whole blocks of 512 octets, not its last 488' in node.said(), node.said()
        with Node(path) as node:
            assert 'blocks' not in node.said(), node.said()


@case
def who_names_one_protocol_gets_no_other():
    assert captive('echo "$uris"', 'ram:1M').startswith('nbd+unix:')
    said = weft('serve', '--quiet', '--nvme-rdma=127.0.0.1:0', '--run=echo "$uris"', 'ram:1M')
    assert re.fullmatch(r'nvme\+rdma://127\.0\.0\.1:\d+/nqn\.\S+\n', said.stdout), said


@case
def a_file_is_served_by_one_node():
    with folder() as place:
        path = pathlib.Path(place, 'disk.img')
        path.write_bytes(bytes(4096))
        with Node(path):
            expect_error(weft('serve', f'--nbd=unix:{place}/other', path), 1, 'another process')


@case
def a_captive_command_has_the_last_word():
    assert captive('echo "$uri" "$uris" >&2; exit 7', 'ram:1M', status=7) == ''
    assert captive('echo done', 'ram:1M') == 'done\n'
    captive('kill -9 $$', 'ram:1M', status=137)


@case
def volumes_that_need_more_descriptors_than_there_may_be_are_refused_at_once():
    with folder() as place:
        volumes_of = [f'v{i}=null:1M' for i in range(100)]

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
        expect_error(weft('serve', f'--nbd=unix:{place}/socket', *volumes_of, preexec_fn=limit), 1,
                     '100 volumes need about', 'the limit is 300', 'ulimit -n')
        result = weft('serve', f'--nbd=unix:{place}/socket', '--quiet', '--rta=one', '--run=true',
                      *volumes_of, preexec_fn=limit)
        assert result.returncode == 0, result


@case
def names_are_given_or_derived():
    with folder() as place:
        path = pathlib.Path(place, 'my disk.img')
        path.write_bytes(bytes(4096))
        with Node(path, 'ram:1M', 'ram:1M', 'data=null:1M') as node:
            assert list(volumes(node)) == ['my_disk.img', 'ram', 'ram-2', 'data']


@case
def a_configuration_file_says_it_all():
    uuid = '6f4d1c1e-0000-4000-8000-000000000001'
    with folder() as place:
        file = pathlib.Path(place, 'node.ini')
        file.write_text(f'[node]\npool = 32M\n[volume one]\nuri = ram:1M\nuuid = {uuid}\n'
                        'rta = both\n; a comment\n[volume two]\nuri = null:1M\nread-only = yes\n'
                        'rta = both\n')
        with Node(f'--config={file}') as node:
            found = status(node)
            one, two = found['volumes']
            assert (one['name'], one['uuid'], one['read_only']) == ('one', uuid, False), one
            assert (two['name'], two['read_only']) == ('two', True), two
            assert [rta['name'] for rta in found['rtas']] == ['both'], found
            assert found['pool'] == 32 << 20, found


@case
def mistakes_in_a_configuration_file_have_a_line():
    for text, said in (('[volume a]\nuri = floppy:\n', ':2: '),
                       ('[node]\ncolour = red\n', 'colour'),
                       ('[disk]\nuri = ram:1M\n', ':2: '), ('[volume a]\nuuid = 1\n', 'not a UUID'),
                       ('[volume a]\nread-only = perhaps\n', 'neither yes nor no'),
                       ('[volume a]\nuri = ram:1M\n[volume b/c]\nuri = ram:1M\n', ':4: '),
                       ('[volume a]\nread-only = yes\n', 'it has no uri'),
                       ('nonsense\n', ':1: ')):
        with folder() as place:
            file = pathlib.Path(place, 'node.ini')
            file.write_text(text)
            expect_error(weft('serve', f'--config={file}'), 1, said)
    expect_error(weft('serve', '--config=/nonexistent'), 1, 'No such file')


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
            until(lambda: len(status(node)['rtas']) == 2)


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
def a_device_that_does_not_let_go_is_told_as_under_way():
    with folder() as place:
        path = place / 'disk.img'
        path.write_bytes(bytes(1 << 20))
        with Node('--allow-add', f'a=delay+file:{path}?delay.read=10s', 'b=ram:1M') as node:
            client = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 512', node.uri('a')],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                until(lambda: 1 in [rta['in_flight'] for rta in status(node)['rtas']])
                expect(weft('rescan', '--remove=a', node.process.pid), 0,
                       'a: going; its device has not answered yet\n')
                expect(weft('rescan', '--remove=b', node.process.pid), 0, 'b: removed\n')
            finally:
                client.kill()
                client.wait()


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
        assert list(volumes(node)) == ['b'] and status(node)['connections'] == 0, status(node)
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
def a_backing_file_that_shrinks_is_an_error_and_no_end():
    need('qemu-io')
    with folder() as place:
        path = pathlib.Path(place, 'disk.img')
        path.write_bytes(bytes(1 << 20))
        with Node(path) as node:
            os.truncate(path, 4096)
            run('qemu-io', '-f', 'raw', '-c', 'read 512k 4k', node.uri(), status=1)
            run('qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri())
            assert status(node)['rtas'][0]['restarts'] == 0


@case
def a_device_that_fails_fails_requests_only():
    need('qemu-io')
    for how in ('media', 'no-space'):
        with folder() as place:
            file = pathlib.Path(place, 'broken')
            uri = f'error+ram:1M?error.write=100%&error.as={how}&error.file={file}'
            with Node(f'a={uri}') as node:
                run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', node.uri())
                file.touch()
                run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', node.uri(), status=1)
                run('qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri())
                file.unlink()
                run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', node.uri())


@case
def a_slow_device_keeps_nobody_else_waiting():
    need('qemu-io')
    with Node('slow=delay+ram:1M?delay.read=5s', 'fast=ram:1M') as node:
        slow = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri('slow')],
                                stdout=subprocess.DEVNULL)
        until(lambda: [rta['in_flight'] for rta in status(node)['rtas']] == [1, 0])
        run('qemu-io', '-f', 'raw', '-c', 'write 0 4k', '-c', 'read 0 4k', node.uri('fast'))
        assert slow.poll() is None, 'the fast volume was no faster'
        assert slow.wait(LIMIT) == 0


@case
def a_device_that_loses_commands_is_asked_again():
    need('qemu-io')
    with Node('a=lose+ram:1M?lose=20%&lose.late=20%') as node:
        words = [word for at in range(0, 64) for word in ('-c', f'aio_write -P 3 {at * 4}k 4k')]
        run('qemu-io', '-f', 'raw', *words, '-c', 'aio_flush', '-c', 'read -P 3 0 256k', node.uri())
        assert status(node)['rtas'][0]['resubmissions'] > 0


@case
def a_client_that_is_stopped_amid_a_read_blocks_nobody():
    need('qemu-io')
    with Node('ram:64M', '--pool=64M') as node:
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.connect(str(node.socket))
            stuck.sendall(b'\0\0\0\3IHAVEOPT' + b'\0\0\0\1' + b'\0\0\0\0')  # EXPORT_NAME ""
            request = b'\x25\x60\x95\x13\0\0\0\0' + bytes(16) + (16 << 20).to_bytes(4, 'big')
            stuck.sendall(request * 8)
            until(lambda: status(node)['pool_taken'] > 0)
            run('qemu-io', '-f', 'raw', '-c', 'write 0 16M', '-c', 'read 0 16M', node.uri())


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
        found = status(node)
        assert found['volumes'][0]['uri'] == node.uri('ram'), found
    expect_error(weft('status', node.process.pid), 1, 'no weft serve of yours')


@case
def a_device_that_never_answers_does_not_keep_it_from_ending():
    need('qemu-io')
    with Node('a=delay+ram:1M?delay=1000s') as node:
        client = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri()],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: status(node)['rtas'][0]['in_flight'] > 0)
        node.process.send_signal(signal.SIGTERM)
        node.process.send_signal(signal.SIGINT)  # asked twice
        node.process.wait(LIMIT)
        client.kill()
        client.wait()


@case
def a_signal_ends_it_well():
    for number in (signal.SIGINT, signal.SIGTERM):
        node = Node('ram:1M')
        with node:
            rtas = node.rtas()
            node.process.send_signal(number)
            assert node.process.wait(LIMIT) == 0
            assert not [pid for pid in rtas if os.path.exists(f'/proc/{pid}')]


main()
