#!/usr/bin/env python3
"""A storage node and its clients, by the command alone: what each prints, moves and answers."""

import json
import os
import re
import subprocess

from cases import WEFT, case, expect, expect_error, main, scratch, weft
from nodes import SIZE, node, octets, report

NQN = re.compile(r'nqn\.2014-08\.org\.nvmexpress:uuid:([0-9a-f-]{36})')
COMMANDS = ('run', 'stat', 'reads', 'serve', 'status', 'rescan', 'discover', 'ls', 'info', 'cp',
            'attach')


# --- serving --------------------------------------------------------------------------------------


@case
def serve_prints_where_volumes_are_and_how_to_use_them():
    with node() as ours:
        uuid = NQN.search(ours.lines[3]).group(1)
        nqn = f'nqn.2014-08.org.nvmexpress:uuid:{uuid}'
        assert ours.lines == [
            f'volume a: 3M octets, file, uuid {uuid}',
            f'  nbd+unix:///a?socket={ours.socket}',
            f"  qemu-img info 'nbd+unix:///a?socket={ours.socket}'",
            f'  nvme+rdma://{ours.address}/{nqn}',
            f"  weft cp 'nvme+rdma://{ours.address}/{nqn}' copy.img",
            f'  nvme connect -t rdma -a 127.0.0.1 -s {ours.port} -n {nqn}'], ours.lines
        assert ours.end() == 0


@case
def serve_with_nothing_to_serve_says_so():
    expect(weft('serve'), 2, '', 'serve what? Give a file, or a URI')
    expect(weft('serve', '--quiet', '--read-only'), 2, '', 'serve what?')


@case
def serve_ends_with_its_command():
    with scratch() as folder:
        address = f'--nbd=unix:{folder}/s'
        result = weft('serve', '-q', address, 'ram:1M', '--run=echo "$uri"; exit 7')
        expect(result, 7, f'nbd+unix:///ram?socket={folder}/s\n')
        result = weft('serve', '-q', address, 'x=ram:1M', 'y=ram:2M', '--run=echo "$uris"')
        expect(result, 0, f'nbd+unix:///x?socket={folder}/s nbd+unix:///y?socket={folder}/s\n')


# --- looking --------------------------------------------------------------------------------------


@case
def clients_list_what_is_there():
    with node('--read-only') as ours:
        nqn = NQN.search(ours.uri)
        line = f'nvme       rdma  {ours.address}  {nqn.group(0)}\n'
        expect(weft('discover', ours.address), 0, line)
        expect(weft('ls', ours.address), 0, f'      3M  {nqn.group(1)}  {ours.uri}/1  read-only\n')
        shown = report(weft('ls', '--json', ours.address))
        assert [(s['uri'], s['nqn'], s['nsid'], s['size'], s['block_size'], s['read_only'],
                 s['uuid']) for s in shown] == [
                     (f'{ours.uri}/1', nqn.group(0), 1, SIZE, 512, True, nqn.group(1))], shown
        assert report(weft('info', '--json', ours.uri))['controller']['model'] == 'weft a'
        text = weft('info', ours.uri)
    expect(text, 0, None)
    for words in (f'namespace 1 of {nqn.group(0)}\n',
                  '3M, 3145728 octets in blocks of 512, read-only',
                  f'  uuid          {nqn.group(1)}\n', '  model         weft a, serial ',
                  '  transfer      at most 1M; ', '  can           flush\n',
                  '  data          one-shot RDMA\n'):
        assert words in text.stdout, text.stdout


@case
def status_shows_volumes_and_their_processes():
    with node() as ours:
        pid = ours.process.pid
        text = weft('status', pid)
        shown = report(weft('status', '--json', pid))
        # Whoever else has a node on this machine may not answer us, which is an error of its own.
        everyone = json.loads(weft('status', '--json').stdout)
    expect(text, 0, None)
    lines = text.stdout.splitlines()
    assert lines[0] == f'node {pid}: 0 clients, pool 0 of 64M in use', lines
    assert lines[1].split() == ['VOLUME', 'STATE', 'SIZE', 'DRIVER', 'CLIENTS', 'REQUESTS', 'MOVED',
                                'URI'], lines
    assert lines[2].split() == ['a', 'ready', '3M', 'file', '0', '0', '0',
                                f'nbd+unix:///a?socket={ours.socket}'], lines
    assert lines[3].split()[:4] == ['RTA', 'STATE', 'PID', 'SINCE'], lines
    assert lines[4].split()[:2] == ['a', 'ready'] and len(lines) == 5, lines
    assert len(shown) == 1 and shown[0]['pid'] == pid, shown
    assert shown[0]['volumes'][0]['size'] == SIZE, shown
    assert pid in [entry['pid'] for entry in everyone], everyone
    result = weft('status', pid)
    assert result.returncode == 1 and result.stdout == '', result


@case
def rescan_sees_that_a_file_has_grown():
    with node() as ours:
        pid = ours.process.pid
        expect(weft('rescan', pid), 0)
        os.truncate(ours.disk, 2 * SIZE)
        grown = weft('rescan', pid)
        size = report(weft('status', '--json', pid))[0]['volumes'][0]['size']
        refused = weft('rescan', pid, '--add=ram:1M')
    expect(grown, 0, None)
    assert size == 2 * SIZE and 'a' in grown.stdout, grown.stdout
    assert refused.returncode == 1 and '--allow-add' in refused.stderr, refused


@case
def help_of_every_command_is_the_same_both_ways():
    for command in COMMANDS:
        both = weft(command, '--help'), weft('help', command)
        for said in both:
            expect(said, 0, both[0].stdout)
        assert both[0].stdout.startswith(f'Usage: weft {command} '), both[0].stdout
        assert f'\n  {command} ' in weft('help').stdout


# --- copying --------------------------------------------------------------------------------------


@case
def cp_moves_every_octet_however_many_pieces_are_on_their_way():
    for depth in (1, 3, 128):
        with node() as ours:
            there, back = ours.folder / 'there', ours.folder / 'back'
            there.write_bytes(octets(SIZE))
            out = report(weft('cp', '--json', '--verify', f'--depth={depth}', there, ours.uri))
            assert ours.disk.read_bytes() == there.read_bytes()
            home = report(weft('cp', '--json', '--verify', f'--depth={depth}', ours.uri, back))
            assert back.read_bytes() == there.read_bytes()
        assert out['octets'] == home['octets'] == SIZE, (out, home)
        assert out['verified'] and home['verified'], (out, home)


@case
def cp_goes_from_a_volume_to_another():
    with node() as ours, node() as theirs:
        ours.disk.write_bytes(octets(SIZE))
        out = report(weft('cp', '--json', '--verify', ours.uri, theirs.uri))
        assert theirs.disk.read_bytes() == octets(SIZE)
    assert out['octets'] == SIZE, out


@case
def cp_speaks_of_the_volume_that_refuses():
    with node('--read-only') as ours:
        there = ours.folder / 'there'
        there.write_bytes(octets(4096))
        expect_error(weft('cp', there, ours.uri), 1, ours.uri, 'the volume is read-only')
        there.write_bytes(octets(SIZE))
        expect_error(weft('cp', ours.uri, ours.folder), 1, str(ours.folder))
        assert ours.disk.read_bytes() == bytes(SIZE)


@case
def cp_reads_and_writes_pipes():
    with node() as ours:
        there = ours.folder / 'there'
        there.write_bytes(octets(SIZE))
        with open(there, 'rb') as source:
            taken = subprocess.run([WEFT, 'cp', '-', ours.uri], stdin=source, timeout=60)
        assert taken.returncode == 0 and ours.disk.read_bytes() == octets(SIZE)
        given = subprocess.run([WEFT, 'cp', ours.uri, '-'], stdout=subprocess.PIPE, timeout=60)
        assert given.returncode == 0 and given.stdout == octets(SIZE)


# --- attaching ------------------------------------------------------------------------------------


@case
def attach_gives_a_socket_to_its_command():
    with node() as ours:
        path = ours.folder / 'nbd.sock'
        result = weft('attach', '-q', f'--socket={path}', f'--run=test -S {path} && echo "$uri"; '
                      'exit 9', f'{ours.uri}/1')
    expect(result, 9, f'nbd+unix:///nvme?socket={path}\n')
    assert not path.exists()


main()
