#!/usr/bin/env python3
"""weft's own clients at weft's own node, over NVMe/RDMA: files there and back, by one-shot RDMA."""

import collections
import hashlib
import json
import re
import signal
import socket
import threading

from serving import (LIMIT, WEFT, Node, Skip, case, count, expect, folder, main, need, os,
                     pathlib, run, subprocess, until, weft, wire)
import recut
import wire as judged

MEGABYTES = count(64, 1024)


class RdmaNode(Node):
    """A node that serves NVMe over RDMA besides; the URI of its first volume."""

    def __init__(self, *words, host='127.0.0.1', port=0):
        super().__init__(f'--nvme-rdma={host}:{port}', *words)

    def __enter__(self):
        super().__enter__()
        lines = iter(self.process.stdout.readline, '')
        self.nvme = next(line.strip() for line in lines if line.startswith('  nvme+rdma://'))
        return self


def digest(path):
    summary = hashlib.sha256()
    with pathlib.Path(path).open('rb') as file:
        while block := file.read(1 << 20):
            summary.update(block)
    return summary.hexdigest()


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


def cp(*words, limit=300, env=None):
    result = weft('cp', '--json', *words, limit=limit, env=env)
    expect(result, 0, None)
    return json.loads(result.stdout)


# (the reserved bits of DDP's control field, the opcode) of a Send.
ADVERTISES, CLOSES, INVALIDATES = (4, 3), (8, 3), (0, 4)


def sends_seen(captured, port, scratch):
    """How many of each kind tshark finds, an FPDU at a time."""
    recut.recut(captured, scratch, range(port, port + 1))
    said = run(*judged.tshark_words(), '-r', scratch, '-Y', 'iwarp_ddp.rsvd', '-T', 'fields',
               '-e', 'iwarp_ddp.rsvd', '-e', 'iwarp_rdma.opcode', limit=300)
    return collections.Counter(tuple(int(value, 0) for value in line.split('\t'))
                               for line in said.splitlines())


@case
def volumes_that_come_later_have_buffers_that_are_registered():
    """One in the place of another that has gone, too: an RTA's buffers are its own."""
    with folder() as place, RdmaNode('--allow-add', 'a=ram:1M') as node:
        file, back = place / 'file', place / 'back'
        for name in ('a', 'b', 'c'):
            if name != 'a':
                gone = ['--remove=b'] if name == 'c' else []
                expect(weft('rescan', f'--add={name}=ram:1M', *gone, node.process.pid), 0, None)
            volume, = (v for v in node.status()['volumes'] if v['name'] == name)
            uri, = (uri for uri in volume['uris'] if uri.startswith('nvme+rdma:'))
            file.write_bytes(os.urandom(1 << 20))
            for words in ((file, uri), (uri, back)):
                result = weft('cp', *words)
                assert result.returncode == 0, result
            assert digest(back) == digest(file), name


@case
def a_driver_over_rdma_shows_no_devices_as_files():
    with folder() as place, RdmaNode('ram:1M') as node:
        with Node(f'far={node.nvme}', env={**os.environ, 'WEFT_RUNTIME_DIR': str(place)}):
            shown = [path.name for path in pathlib.Path(place).iterdir()]
            assert not any(name.startswith('view.') for name in shown), shown


@case
def a_file_comes_back_as_it_went():
    with folder() as place:
        there, disk = source(place), volume(place)
        with RdmaNode(disk) as node:
            out = cp(there, node.nvme)
            home = cp(node.nvme, f'{place}/back')
        wanted = digest(there)
        assert digest(f'{place}/back') == wanted and digest(disk) == wanted
    for moved in (out['destination'], home['source']):
        way, not_used = (('oneshots', 'closes'), 'lent') if wire() == 'iwarp' else \
            (('lent',), 'oneshots')
        assert all(moved[name] == MEGABYTES * 2 for name in way), moved
        assert moved['registrations'] == moved[not_used] == moved['revokes'] == 0, moved


@case
def it_goes_the_usual_way_where_one_end_has_no_extensions():
    with folder() as place:
        there, disk = source(place, 16), volume(place, 16)
        with RdmaNode(disk) as node:
            out = cp('--verify', there, node.nvme, env={'WEFT_EXTENSIONS': 'off'})
        assert digest(disk) == digest(there)
    assert out['destination']['oneshots'] == 0 and out['destination']['lent'] == 64, out


@case
def zeroes_become_holes_at_both_ends():
    with folder() as place:
        there, disk = source(place, 16), volume(place, 16)
        with RdmaNode(disk) as node:
            out = cp('--sparse', there, node.nvme)
            cp('--sparse', node.nvme, f'{place}/back')
        assert digest(disk) == digest(there) == digest(f'{place}/back')
    assert out['zeroes'] == 2 << 20, out


@case
def a_stream_goes_there_and_comes_back():
    with folder() as place:
        there, disk = source(place, 16), volume(place, 17)
        odd = there.read_bytes()[:(16 << 20) - 12345]  # ends within a block
        with RdmaNode(disk) as node:
            sent = subprocess.run([WEFT, 'cp', '--json', '-', node.nvme], input=odd,
                                  capture_output=True, timeout=300)
            assert sent.returncode == 0 and json.loads(sent.stdout)['octets'] == len(odd), sent
            with pathlib.Path(place, 'back').open('wb') as back:
                taken = subprocess.run([WEFT, 'cp', '--sparse', node.nvme, '-'], stdout=back,
                                       stderr=subprocess.PIPE, timeout=300)
            assert taken.returncode == 0, taken
        kept = pathlib.Path(place, 'back').read_bytes()
        assert kept[:len(odd)] == odd and kept == disk.read_bytes()
        assert not any(kept[len(odd):])


@case
def a_stream_longer_than_the_volume_is_an_error():
    with folder() as place, RdmaNode('ram:1M') as node:
        sent = subprocess.run([WEFT, 'cp', '-', node.nvme], input=bytes(3 << 20),
                              capture_output=True, text=False, timeout=300)
        assert sent.returncode == 1, sent
        assert b'not copied' in sent.stderr and b'at octet 1048576: No space left' in sent.stderr


@case
def a_stream_that_nobody_reads_ends_the_copy_as_it_ends_cat():
    with RdmaNode('ram:16M') as node:
        reader, writer = os.pipe()
        os.close(reader)
        sent = subprocess.run([WEFT, 'cp', node.nvme, '-'], stdout=writer, stderr=subprocess.PIPE,
                              timeout=300)
        os.close(writer)
        assert sent.returncode == -signal.SIGPIPE, sent


@case
def info_and_ls_agree_with_the_node():
    with RdmaNode('data=ram:32M') as node:
        shown = json.loads(weft('info', '--json', node.nvme).stdout)
        authority = node.nvme.split('/nqn')[0].removeprefix('nvme+rdma://')
        listed = json.loads(weft('ls', '--json', authority).stdout)
        found = json.loads(weft('discover', '--json', authority).stdout)
    assert shown['size'] == 32 << 20, shown
    assert shown['controller']['oneshot'] == (wire() == 'iwarp'), shown
    assert [each['uuid'] for each in listed] == [shown['uuid']], listed
    assert any(each['nqn'] == shown['nqn'] for each in found), found


@case
def a_node_is_reached_at_each_of_its_addresses():
    with Node('--nbd=127.0.0.1:0', '--nvme-tcp=127.0.0.1:0', '--nvme-tcp=127.0.0.2:0',
              '--nvme-rdma=127.0.0.1:0', '--nvme-rdma=127.0.0.2:0', '--iscsi=127.0.0.1:0',
              '--iscsi=127.0.0.2:0', 'd=ram:1M') as node:
        uris = node.status()['volumes'][0]['uris']
        schemes = [uri.partition(':')[0] for uri in uris]
        assert schemes == ['nbd+unix', 'nbd', *(s for s in ('nvme+rdma', 'nvme+tcp', 'iscsi')
                                                for _ in range(2))], uris
        for uri in uris:
            if uri.startswith('nvme+rdma:'):
                assert json.loads(weft('info', '--json', uri).stdout)['size'] == 1 << 20
            elif not uri.startswith('nbd+unix:'):
                host, port = uri.partition('://')[2].partition('/')[0].split(':')
                socket.create_connection((host, int(port)), LIMIT).close()
        authorities = [uri.partition('://')[2].partition('/')[0] for uri in uris[2:6]]
        found = weft('discover', authorities[0]).stdout
        assert all(authority in found for authority in authorities), found


@case
def discover_writes_an_ipv6_address_in_brackets():
    if not pathlib.Path('/proc/net/if_inet6').exists():
        raise Skip('no IPv6')
    with RdmaNode('data=ram:1M', host='[::1]') as node:
        authority = node.nvme.split('/nqn')[0].removeprefix('nvme+rdma://')
        said = weft('discover', authority).stdout
    assert f'  {authority}  ' in said, (authority, said)


@case
def one_volume_is_copied_to_another():
    with folder() as place:
        there = source(place, 16)
        with RdmaNode(there) as one, RdmaNode('ram:16M') as two:
            cp(one.nvme, two.nvme)
            cp(two.nvme, f'{place}/back')
        assert digest(there) == digest(f'{place}/back')


def stat(pid):
    return json.loads(weft('stat', '--json', pid).stdout)[0]


@case
def each_command_is_advertised_and_closed_by_a_header():
    """As tshark sees it: an advertising Send for each closing one, and no Send with Invalidate."""
    if wire() != 'iwarp':
        raise Skip('one-shot RDMA has no header on RoCEv2')
    need('tshark')
    commands = 16
    with folder() as place, RdmaNode(volume(place, 8)) as node:
        captured = pathlib.Path(place, 'captured')
        moved = cp(source(place, 8), node.nvme, env={'WEFT_PCAP': captured, 'WEFT_LOCAL': 'off'})
        port = int(re.search(r':(\d+)', node.nvme.removeprefix('nvme+rdma:'))[1])
        seen = sends_seen(captured, port, pathlib.Path(place, 'recut'))
    assert moved['destination']['closes'] == commands, moved
    assert seen[ADVERTISES] == seen[CLOSES] == commands, seen
    assert seen[INVALIDATES] == 0, seen


@case
def without_the_part_that_closes_the_answer_invalidates():
    if wire() != 'iwarp':
        raise Skip('one-shot RDMA has no header on RoCEv2')
    with folder() as place, RdmaNode(volume(place, 8)) as node:
        moved = cp(source(place, 8), node.nvme, env={'WEFT_ONESHOT_PARTS': 'advertise'})
    assert moved['destination']['oneshots'] == moved['destination']['closes'] == 16, moved
    assert moved['destination']['revokes'] == 0, moved


@case
def what_a_connection_counted_stays_when_it_ends():
    with folder() as place, RdmaNode(volume(place, 16)) as node:
        cp(source(place, 16), node.nvme)
        found = until(lambda: (now := stat(node.process.pid)) and not now['qps'] and now)
    if wire() == 'iwarp':
        counted = found['weft0']['qps_total']
        assert counted['oneshot_received'] == 32, counted
    else:
        counted = found['weft_roce0']['rc_total']
        assert counted['octets_in'] > 16 << 20, counted


@case
def a_served_subsystem_is_named_after_its_driver():
    with RdmaNode('ram:1M') as far, RdmaNode(far.nvme, f'delay+{far.nvme}') as node:
        found = node.status()
        names = [volume['name'] for volume in found['volumes']]
    assert names == ['nvme_rdma', 'nvme_rdma-2'], names


@case
def an_attached_volume_is_the_volume():
    need('nbdcopy', 'qemu-img')
    with folder() as place:
        there, disk = source(place, 16), volume(place, 16)
        with RdmaNode(disk) as node:
            run(*attach_words(node, place, f'nbdcopy {there} "$uri" && '
                              f'qemu-img compare -f raw -F raw {there} "$uri" >&2'))
        assert digest(disk) == digest(there)


@case
def an_attached_volume_has_a_folder_that_nobody_else_enters():
    with folder() as place, RdmaNode('ram:1M') as node:
        for where in ({'XDG_RUNTIME_DIR': str(place)}, {}):
            said = weft('attach', '--quiet', '--run=socket=${uri#*socket=}; dirname $socket; '
                        'stat -c %a $(dirname $socket)', node.nvme, env=where)
            expect(said, 0, None)
            made, mode = said.stdout.split()
            assert mode == '700' and not os.path.exists(made), said.stdout
            assert made.startswith(f'{place}/' if where else '/'), made


@case
def reads_shows_what_holds_where_the_other_end_wishes_less():
    if wire() == 'roce':
        raise Skip('the ends agree on nothing about Reads on RoCE')
    with folder() as place, RdmaNode('ram:1M') as node:
        said = weft('attach', '--quiet', f'--socket={place}/attached',
                    f'--run={WEFT} reads --json {node.process.pid}', node.nvme,
                    env={'WEFT_READ_ALLOTMENT': '65536'})
        expect(said, 0, None)
        reads = json.loads(said.stdout)[0]['reads']
    assert reads['allotment'] == 262144 and reads['connections'] >= 1, reads
    assert reads['in_force_min'] == reads['in_force_max'] == 65536, reads


def writes(node):
    """How many have been made to its first volume."""
    return node.status()['volumes'][0].get('operations', {}).get('write', 0)


def fio(megabytes):
    """The command that writes so many at random and reads them back."""
    return ('fio --name=judge --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k-64k --iodepth=16 '
            f'--size=32M --io_size={megabytes}M --verify=crc32c --verify_fatal=1 '
            '--verify_state_save=0 --randrepeat=0 --minimal >&2')


def attach_words(node, place, command):
    return [WEFT, 'attach', '--quiet', f'--socket={place}/attached', f'--run={command}', node.nvme]


@case
def fio_verifies_an_attached_volume_while_drivers_are_killed():
    need('fio')
    with folder() as place, RdmaNode(volume(place, 32)) as node:
        stop = threading.Event()

        # One that never drove the volume is waited for longer each time: kills by the clock alone
        # may meet nothing but births.
        def kill():
            while not stop.wait(0.7):
                if node.status()['volumes'][0]['state'] == 'ready':
                    for pid in node.rtas():
                        os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            run(*attach_words(node, place, fio(count(32, 512))), limit=300)
        finally:
            stop.set()
            killer.join()


@case
def fio_verifies_an_attached_volume_while_the_node_is_killed_and_started_again():
    need('fio')
    with folder() as place:
        disk = volume(place, 32)
        with RdmaNode(disk) as node:
            port = int(re.search(r':(\d+)/', node.nvme)[1])
            load = subprocess.Popen(attach_words(node, place, fio(count(64, 512))),
                                    stderr=subprocess.PIPE, text=True)
            until(lambda: writes(node) > 20)
            node.process.kill()
            node.process.wait()
        with RdmaNode(disk, port=port):
            said = load.communicate(timeout=300)[1]
        assert load.returncode == 0, said


@case
def a_copy_outlives_the_death_of_the_driver():
    with folder() as place:
        there, disk = source(place), volume(place)
        with RdmaNode(disk) as node:
            before = node.rtas()
            os.kill(before[0], signal.SIGKILL)
            cp(there, node.nvme)
            os.kill(until(node.rtas)[0], signal.SIGKILL)
            cp('--verify', there, node.nvme)
        assert digest(disk) == digest(there)


@case
def a_client_that_is_killed_leaves_the_volume_to_others():
    with folder() as place:
        there, disk = source(place), volume(place)
        with RdmaNode(disk) as node:
            client = subprocess.Popen([WEFT, 'cp', there, node.nvme], stderr=subprocess.DEVNULL)
            until(lambda: any(disk.read_bytes()[:4096]))
            client.kill()
            client.wait()
            cp('--verify', there, node.nvme)
        assert digest(disk) == digest(there)


main()
