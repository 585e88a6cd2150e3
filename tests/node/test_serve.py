#!/usr/bin/env python3
"""weft serve: the command line, the configuration file, what is wrong with them; bad devices."""

import fcntl
import os
import re
import resource
import signal
import socket
import struct

import nvme_host
from nbd_client import ACK, GO, INFORMATION, READ, WRITE, Client
from nvme_host import Queue, session
from serving import (LIMIT, WEFT, Node, Skip, captive, case, expect, expect_error, folder,
                     free_port, main, need, pathlib, run, subprocess, until, weft)
from cgroups import memory_group


def volumes(node):
    return {volume['name']: volume for volume in node.status()['volumes']}


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
        for option in ('--nbd=', '--nvme-rdma=', '--nvme-tcp=', '--iscsi='):
            expect_error(weft('serve', f'{option}127.0.0.1:{port}', 'ram:1M'), 1, 'in use', option)


@case
def rdma_over_tcp_and_tcp_want_two_ports_and_it_says_so():
    port = free_port()
    both = f'--iscsi=127.0.0.1:{port}', f'--iscsi-rdma=127.0.0.1:{port}'
    expect_error(weft('serve', *both, 'ram:1M'), 1, 'want two')


@case
def an_address_without_a_port_has_that_of_its_protocol():
    host = f'127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.9'  # nobody else is there
    with Node(f'--iscsi={host}', 'disk=null:1M') as node:
        uris = node.status()['volumes'][0]['uris']
        assert any(uri.startswith(f'iscsi://{host}:3260/') for uri in uris), uris


@case
def an_address_that_cannot_be_is_told_at_once():
    for address, said in (('203.0.113.7:1', 'no RDMA device has this address'),
                          ('127.0.0.1:65536', 'no such port')):
        expect_error(weft('serve', f'--nvme-rdma={address}', 'ram:1M'), 1, said, '--nvme-rdma=')
    expect_error(weft('serve', '--nbd=127.0.0.1:65536', 'ram:1M'), 1, 'no such port', '--nbd=')
    expect_error(weft('serve', '--nbd=::1:10809', 'ram:1M'), 1, 'stands in brackets', '--nbd=')


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
def a_node_whose_output_nobody_reads_serves_all_the_same():
    volumes = [f'v{i}=ram:64K' for i in range(40)]
    with folder() as place:
        node = subprocess.Popen([WEFT, 'serve', '--rta=one', f'--nbd=unix:{place}/socket',
                                 *volumes], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            fcntl.fcntl(node.stdout, fcntl.F_SETPIPE_SZ, 4096)
            run('nbdinfo', '--list', until(lambda: (place / 'socket').exists()) and
                f'nbd+unix:///?socket={place}/socket')
            said = b''
            while said.count(b'volume v') < 40 or not said.endswith(b"'\n"):
                said += os.read(node.stdout.fileno(), 4096)
            assert b'nbd+unix:///v39?socket=' in said, said
        finally:
            node.terminate()
            node.wait(LIMIT)
            node.stdout.close()


@case
def who_names_one_protocol_gets_no_other():
    assert captive('echo "$uris"', 'ram:1M').startswith('nbd+unix:')
    said = weft('serve', '--quiet', '--nvme-rdma=127.0.0.1:0', '--run=echo "$uris"', 'ram:1M')
    assert re.fullmatch(r'nvme\+rdma://127\.0\.0\.1:\d+/nqn\.\S+\n', said.stdout), said


def discovered(address):
    """(subsystem, port) of each entry."""
    with session(address, nvme_host.DISCOVERY, 0) as (admin,):
        log = admin.log(0x70, 1024 * 17).data
        count, = struct.unpack_from('<Q', log, 8)
        entries = (log[1024 * (i + 1):1024 * (i + 2)] for i in range(count))
        return {(entry[256:512].rstrip(b'\0').decode(), int(entry[32:64])) for entry in entries}


@case
def a_volume_may_be_driven_by_the_host_itself_beside_others():
    with folder() as place:
        file = pathlib.Path(place, 'node.ini')
        file.write_text('[volume one]\nuri = ram:1M\nrta = host\n[volume host]\nuri = ram:1M\n'
                        '[volume two]\nuri = ram:1M\nrta = host\n[volume own]\nuri = ram:1M\n')
        with Node(f'--config={file}') as node:
            found = {rta['name']: rta['pid'] for rta in node.status()['rtas']}
            assert len(found) == 3 and set(found) == {'(host)', 'host', 'own'}, found
            assert sorted(node.rtas()) == sorted((found['host'], found['own'])), found
            assert [volume['rta'] for volume in volumes(node).values()] == [
                '(host)', 'host', '(host)', 'own'], found
            for name in volumes(node):
                with Client(node).go(name.encode()) as client:
                    client.request(WRITE, 512, 512, data=name.encode().ljust(512, b'.'))
                    assert client.answer() == (0, b'')
            for pid in node.rtas():
                os.kill(pid, signal.SIGKILL)
            for name in volumes(node):
                with Client(node).go(name.encode()) as client:
                    client.request(READ, 512, 512)
                    assert client.answer(512) == (0, name.encode().ljust(512, b'.')), name


@case
def a_volume_is_for_the_protocols_that_it_names():
    with folder() as place:
        file = pathlib.Path(place, 'node.ini')

        def write(more):
            file.write_text('[node]\nnvme-tcp = 127.0.0.1:0\nnvme-rdma = 127.0.0.1:0\n'
                            'iscsi = 127.0.0.1:0\n[volume all]\nuri = ram:1M\n'
                            '[volume byte]\nuri = ram:1M?protocol=nbd\n'
                            f'[volume blocks]\nuri = ram:1M\n{more}')
        write('protocol = nvme-rdma\nprotocol = iscsi\n')
        with Node(f'--config={file}') as node:
            def schemes():
                return {name: {uri.partition(':')[0] for uri in volume['uris']}
                        for name, volume in volumes(node).items()}
            every = {'nbd+unix', 'nvme+tcp', 'nvme+rdma', 'iscsi'}
            assert schemes() == {'all': every, 'byte': {'nbd+unix'},
                                 'blocks': {'nvme+rdma', 'iscsi'}}, schemes()
            nqns = {name: volume['nqn'] for name, volume in volumes(node).items()}
            uris = volumes(node)['all']['uris']
            tcp, rdma = (int(re.match(rf'nvme\+{kind}://[^/]*:(\d+)/', uri)[1])
                         for kind in ('tcp', 'rdma') for uri in uris if f'+{kind}:' in uri)
            address = '127.0.0.1', tcp
            assert discovered(address) == {(nqns['all'], tcp), (nqns['all'], rdma),
                                           (nqns['blocks'], rdma)}, discovered(address)
            for name, status in ('all', 0), ('byte', 0x184), ('blocks', 0x184):
                with Queue(address) as queue:
                    assert queue.connect(nqns[name]).status == status, name
            for name, is_there in ('all', True), ('byte', True), ('blocks', False):
                with Client(node) as client:
                    client.option(GO, struct.pack('>I', len(name)) + name.encode() + b'\0\0')
                    kind, _ = client.reply(GO)
                    assert (kind in (ACK, INFORMATION)) == is_there, (name, kind)
            write('protocol = nvme-tcp\n')
            assert weft('rescan', node.process.pid).returncode == 0
            assert schemes()['blocks'] == {'nvme+tcp'}, schemes()
            with Queue(address) as queue:
                assert queue.connect(nqns['blocks']).status == 0


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
            found = node.status()
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
                       ('[volume a]\nnguid = 12\n', 'not 32 hexadecimal digits'),
                       (f'[volume a]\nnguid = {"12" * 17}\n', 'not 32 hexadecimal digits'),
                       (f'[volume a]\nnguid = {"12" * 15}xy\n', 'not 32 hexadecimal digits'),
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
def a_backing_file_that_shrinks_is_an_error_and_no_end():
    need('qemu-io')
    with folder() as place:
        path = pathlib.Path(place, 'disk.img')
        path.write_bytes(bytes(1 << 20))
        with Node(path) as node:
            os.truncate(path, 4096)
            run('qemu-io', '-f', 'raw', '-c', 'read 512k 4k', node.uri(), status=1)
            run('qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri())
            assert node.status()['rtas'][0]['restarts'] == 0


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
def a_client_that_is_stopped_amid_a_read_blocks_nobody():
    need('qemu-io')
    with Node('ram:64M', '--pool=64M') as node:
        with socket.socket(socket.AF_UNIX) as stuck:
            stuck.connect(str(node.socket))
            stuck.sendall(b'\0\0\0\3IHAVEOPT' + b'\0\0\0\1' + b'\0\0\0\0')  # EXPORT_NAME ""
            request = b'\x25\x60\x95\x13\0\0\0\0' + bytes(16) + (16 << 20).to_bytes(4, 'big')
            stuck.sendall(request * 8)
            until(lambda: node.status()['pool_taken'] > 0)
            run('qemu-io', '-f', 'raw', '-c', 'write 0 16M', '-c', 'read 0 16M', node.uri())


@case
def a_device_that_never_answers_does_not_keep_it_from_ending():
    need('qemu-io')
    with Node('a=delay+ram:1M?delay=1000s') as node:
        client = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri()],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: node.status()['rtas'][0]['in_flight'] > 0)
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


@case
def a_standard_descriptor_that_was_closed_is_none_of_the_nodes():
    words = '--nvme-tcp=127.0.0.1:0', 'disk=ram:1M'
    with Node(*words, preexec_fn=lambda: (os.close(0), os.close(2))) as node:
        for number in (0, 2):
            held = os.readlink(f'/proc/{node.process.pid}/fd/{number}')
            assert held == '/dev/null', (number, held)
        uri = next(uri for uri in volumes(node)['disk']['uris'] if uri.startswith('nvme+tcp:'))
        copy = subprocess.run([WEFT, 'cp', uri, '-'], stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: os.close(1), timeout=LIMIT)
        assert copy.returncode == 1 and 'Bad file descriptor' in copy.stderr, copy


main()
