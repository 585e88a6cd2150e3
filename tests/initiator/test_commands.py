#!/usr/bin/env python3
"""weft discover, ls, info and cp, at a target of the tests' own."""

import json
import os
import pathlib
import pty
import random
import subprocess
import sys

from serving import (BUILD, NQN, SIZE, case, expect, expect_error, main, scratch, target, uri,
                     weft, wire)


def data(length):
    """Some of it zeroes, the rest not."""
    draw = random.Random(length)
    octets = bytearray(draw.randbytes(length))
    octets[1 << 20:3 << 20] = bytes(2 << 20)
    return bytes(octets)


def report(result):
    expect(result, 0, None)
    return json.loads(result.stdout)


@case
def discover_prints_the_log():
    with target() as port:
        said = weft('discover', f'127.0.0.1:{port}')
        expect(said, 0, f'nvme       rdma  127.0.0.1:{port}  {NQN}\n')
        entries = report(weft('discover', '--json', f'127.0.0.1:{port}'))
    assert entries == [{'kind': 'nvme', 'transport': 'rdma', 'host': '127.0.0.1', 'port': port,
                        'nqn': NQN}], entries


@case
def ls_finds_what_info_shows():
    with target() as port:
        listed = report(weft('ls', '--json', f'127.0.0.1:{port}'))
        assert listed == report(weft('ls', '--json', uri(port))), listed
        shown = report(weft('info', '--json', listed[0]['uri']))
        text = weft('info', listed[0]['uri']).stdout
    assert listed[0]['uri'] == uri(port) + '/1' and listed[0]['size'] == SIZE, listed
    assert shown['uuid'] == listed[0]['uuid'] == '44444444-4444-4444-4444-444444444444', shown
    has_oneshot = wire() == 'iwarp'
    assert shown['controller']['oneshot'] == has_oneshot, shown
    assert shown['controller']['transfer_max'] == 1 << 20, shown
    assert ('one-shot RDMA' in text) == has_oneshot and '8388608 octets' in text, text


@case
def cp_brings_back_what_it_took():
    with target() as port, scratch() as folder:
        there, back = pathlib.Path(folder, 'there'), pathlib.Path(folder, 'back')
        there.write_bytes(data(SIZE))
        out = report(weft('cp', '--json', '--verify', there, uri(port)))
        home = report(weft('cp', '--json', '--sparse', uri(port), back))
        assert back.read_bytes() == there.read_bytes()
    moved = out['destination']
    assert out['octets'] == SIZE and out['verified'] and out['zeroes'] == 0, out
    way = ('oneshots', 'closes') if wire() == 'iwarp' else ('lent',)
    assert all(moved[name] == 32 for name in way) and moved['registrations'] == 0, moved
    assert home['zeroes'] == 2 << 20, home


@case
def cp_tells_zeroes_instead_of_writing_them():
    with target() as port, scratch() as folder:
        full, there, back = (pathlib.Path(folder, name) for name in ('full', 'there', 'back'))
        full.write_bytes(b'x' * SIZE)
        there.write_bytes(data(SIZE))
        report(weft('cp', '--json', full, uri(port)))
        out = report(weft('cp', '--json', '--sparse', there, uri(port)))
        report(weft('cp', '--json', uri(port), back))
        assert back.read_bytes() == there.read_bytes()
    assert out['zeroes'] == 2 << 20 and out['destination']['octets_written'] == SIZE - (2 << 20)


@case
def cp_goes_the_usual_way_too():
    with target('usual') as port, scratch() as folder:
        there, back = pathlib.Path(folder, 'there'), pathlib.Path(folder, 'back')
        there.write_bytes(data(SIZE))
        env = {'WEFT_ONESHOT': 'off'}
        out = report(weft('cp', '--json', there, uri(port), env=env))
        report(weft('cp', '--json', uri(port), back, env=env))
        assert back.read_bytes() == there.read_bytes()
    assert out['destination']['lent'] == 16 and out['destination']['oneshots'] == 0, out


@case
def a_file_of_odd_length_fills_its_last_block_with_zeroes():
    with target() as port, scratch() as folder:
        full, there, back = (pathlib.Path(folder, name) for name in ('full', 'there', 'back'))
        full.write_bytes(b'x' * SIZE)
        there.write_bytes(b'y' * 1000001)
        report(weft('cp', '--json', full, uri(port)))
        out = report(weft('cp', '--json', '--verify', there, uri(port)))
        report(weft('cp', '--json', uri(port), back))
        octets = back.read_bytes()
    end = -(-1000001 // 512) * 512
    assert out['octets'] == 1000001, out
    assert octets[:1000001] == b'y' * 1000001 and octets[1000001:end] == bytes(end - 1000001)
    assert octets[end:] == b'x' * (SIZE - end)


@case
def cp_shows_its_progress_on_a_terminal_alone():
    with target() as port, scratch() as folder:
        there = pathlib.Path(folder, 'there')
        there.write_bytes(data(SIZE))
        for words, is_shown in ([], True), (['--quiet'], False):
            ours, theirs = pty.openpty()
            result = weft('cp', *words, there, uri(port), stderr=theirs)
            os.write(theirs, b'end')
            said = os.read(ours, 1 << 16)
            os.close(ours)
            os.close(theirs)
            assert result.returncode == 0 and result.stdout == '', result
            assert (b'copying [' in said) == is_shown, said
        assert weft('cp', there, uri(port)).stderr == ''


@case
def the_library_runs_by_itself():
    program = ('import ctypes, sys; why = ctypes.create_string_buffer(320); '
               'address = ctypes.create_string_buffer(4096); '
               'library = ctypes.CDLL(sys.argv[1]); '
               'print(library.weft_nvme_address_parse(b"h:", address, why), why.value.decode())')
    said = subprocess.run([sys.executable, '-c', program,
                           str(BUILD / 'lib/initiator/libweft-nvme.so.1')], text=True,
                          capture_output=True, env=os.environ | {'LD_LIBRARY_PATH': BUILD / 'lib'},
                          timeout=60)
    assert said.stdout == '-22 it names no port behind the colon\n', said


@case
def cp_refuses_what_cannot_be():
    with target('read-only') as port, scratch() as folder:
        there = pathlib.Path(folder, 'there')
        there.write_bytes(b'x' * 512)
        expect_error(weft('cp', there, uri(port)), 1, 'the volume is read-only')
        expect_error(weft('cp', f'{there}.not', uri(port)), 1, 'No such file')
        expect_error(weft('cp', uri(port), f'{folder}/no/file'), 1, 'No such file')
        expect_error(weft('cp', there, uri(port).replace('uuid', 'other')), 1, 'has no subsystem')
    with target() as port, scratch() as folder:
        there = pathlib.Path(folder, 'there')
        there.write_bytes(b'x' * (SIZE + 1))
        expect_error(weft('cp', there, uri(port)), 1, 'fewer than the 8388609 to be copied')


@case
def cp_says_where_the_target_failed():
    with scratch() as folder:
        there = pathlib.Path(folder, 'there')
        there.write_bytes(b'x' * (4 << 20))
        with target('full') as port:
            expect_error(weft('cp', there, uri(port)), 1, 'answers: Capacity Exceeded')
        with target('drops') as port:
            expect_error(weft('cp', there, uri(port)), 1, 'the target ended the connection')


@case
def nobody_is_there():
    with target() as port:
        pass
    for command in ('discover', 'ls'):
        said = weft(command, f'127.0.0.1:{port}')
        assert said.returncode == 1 and 'see whether `weft serve` runs there' in said.stderr, said


main()
