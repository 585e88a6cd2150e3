#!/usr/bin/env python3
"""weft cp where sizes do not fit, octets are zeroes, or what was copied is not what is there."""

import contextlib
import os
import pathlib
import pty
import subprocess

from cases import WEFT, Skip, case, expect_error, main, weft
from nodes import SIZE, node, octets, report

PIECE = 512 << 10  # what is copied at a time
BLOCK = 512


# --- sizes ----------------------------------------------------------------------------------------


@case
def what_does_not_fit_is_refused_before_anything_is_written():
    with node() as ours:
        source = ours.folder / 'source'
        source.write_bytes(octets(SIZE + 1))
        expect_error(weft('cp', source, ours.uri), 1, ours.uri,
                     f'it has {SIZE} octets, fewer than the {SIZE + 1}')
        assert ours.disk.read_bytes() == bytes(SIZE)


@case
def a_stream_that_does_not_fit_is_stopped_at_the_end_of_the_volume():
    with node() as ours:
        for more in (1, BLOCK, PIECE):
            source = ours.folder / 'source'
            source.write_bytes(octets(SIZE + more))
            with open(source, 'rb') as stream:
                result = weft('cp', '--depth=1', '-', ours.uri, stdin=stream)
            expect_error(result, 1, ours.uri, f'at octet {SIZE}: No space left on device')


@case
def an_end_within_a_block_is_padded_and_what_lies_behind_stays():
    for length in (1, BLOCK - 1, BLOCK, BLOCK + 1, PIECE + 1, 2 * PIECE):
        whole = -(-length // BLOCK) * BLOCK
        with node() as ours:
            ours.disk.write_bytes(octets(SIZE))
            source = ours.folder / 'source'
            source.write_bytes(octets(length))
            for name in (source, '-'):
                with open(source, 'rb') as stream:
                    assert report(weft('cp', '--json', name, ours.uri,
                                       stdin=stream))['octets'] == length
                there = ours.disk.read_bytes()
                assert there[:length] == octets(length), (name, length)
                assert there[length:whole] == bytes(whole - length), (name, length)
                assert there[whole:] == octets(SIZE)[whole:], (name, length)


@case
def a_file_is_as_long_as_its_copy():
    with node() as ours:
        ours.disk.write_bytes(octets(SIZE))
        for before in (0, SIZE - 1, SIZE + 1):
            copy = ours.folder / 'copy'
            copy.write_bytes(b'x' * before)
            report(weft('cp', '--json', ours.uri, copy))
            assert copy.read_bytes() == octets(SIZE), before


@case
def what_is_not_there_or_no_file_is_named():
    with node() as ours:
        missing = ours.folder / 'missing'
        expect_error(weft('cp', missing, ours.uri), 1, f'cannot read: {missing}', 'No such file')
        expect_error(weft('cp', ours.uri, missing / 'copy'), 1, f'cannot write: {missing}/copy')
        expect_error(weft('cp', ours.uri, '/dev/null'), 1, '/dev/null', 'No space left')
        pipe = ours.folder / 'pipe'
        os.mkfifo(pipe)
        with open(os.open(pipe, os.O_RDWR), 'rb'):
            expect_error(weft('cp', pipe, ours.uri), 1, f'cannot read: {pipe}', 'Illegal seek')
        assert ours.disk.read_bytes() == bytes(SIZE)


# --- zeroes ---------------------------------------------------------------------------------------


@case
def sparse_copies_have_holes_and_the_same_octets():
    data = octets(PIECE) + bytes(PIECE) + bytes(PIECE - 1) + b'x' + bytes(PIECE) + octets(PIECE)
    with node() as ours:
        source, copy = ours.folder / 'source', ours.folder / 'copy'
        source.write_bytes(data)
        ours.disk.write_bytes(octets(SIZE))  # nothing of it may shine through
        for wish, zeroes in (('--quiet', 0), ('--sparse', 2 * PIECE)):
            out = report(weft('cp', '--json', '--verify', wish, source, ours.uri))
            assert (out['octets'], out['zeroes']) == (len(data), zeroes), out
            assert ours.disk.read_bytes()[:len(data)] == data, wish
        ours.disk.write_bytes(data + bytes(SIZE - len(data)))
        copy.write_bytes(b'x' * SIZE)  # nothing of this either
        out = report(weft('cp', '--json', '--sparse', ours.uri, copy))
        assert out['zeroes'] == 2 * PIECE + SIZE - len(data), out
        assert copy.read_bytes() == ours.disk.read_bytes()
        assert copy.stat().st_blocks * 512 < copy.stat().st_size


# --- verifying ------------------------------------------------------------------------------------


@case
def a_source_that_changes_is_found_by_verify_alone():
    # The copy itself moves it, over TCP.
    counter = pathlib.Path('/sys/class/net/lo/statistics/rx_bytes')
    if not counter.is_file() or counter.stat().st_size == 0:
        raise Skip('no counter of the loopback interface to be had')
    with node() as ours:
        by_wire = {'WEFT_LOCAL': 'off'}
        assert report(weft('cp', '--json', counter, ours.uri, env=by_wire))['verified'] is False
        expect_error(weft('cp', '--json', '--verify', counter, ours.uri, env=by_wire), 1,
                     'the copy differs', ours.uri, 'octet ', f'is not that of {counter}')


# --- terminals ------------------------------------------------------------------------------------


@contextlib.contextmanager
def terminal():
    """Both ends of a terminal; the second is what a program gets."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


@case
def progress_is_shown_on_a_terminal_and_wiped_away():
    for words, shown in (([], ['copying [', '% of 3M', '\r\x1b[K']),
                         (['--verify'], ['copying [', 'comparing [', '\r\x1b[K']),
                         (['--quiet'], [])):
        with node() as ours, terminal() as (reader, writer):
            weft('cp', *words, ours.uri, ours.folder / 'copy', stderr=writer)
            os.write(writer, b'@')
            said = ''
            while '@' not in said:
                said += os.read(reader, 65536).decode()
            assert all(part in said for part in shown), said
            assert said.endswith('\r\x1b[K@' if shown else '@'), said
            assert shown or said == '@', said


@case
def octets_are_neither_typed_nor_shown():
    with node() as ours, terminal() as (_, side):
        expect_error(weft('cp', '-', ours.uri, stdin=side), 1, 'standard input',
                     'it is a terminal', 'redirect it')
        result = subprocess.run([WEFT, 'cp', ours.uri, '-'], stdin=subprocess.DEVNULL, stdout=side,
                                stderr=subprocess.PIPE, text=True, timeout=60)
        assert result.returncode == 1 and 'standard output' in result.stderr, result
        assert 'it is a terminal' in result.stderr, result


main()
