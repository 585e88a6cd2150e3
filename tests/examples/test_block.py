#!/usr/bin/env python3
"""The block protocol of examples/ across two processes: every way of making memory reachable, and
one-shot RDMA in each of its forms."""

import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

from cases import BUILD, case, main  # noqa: E402

TARGET = BUILD / 'examples/block-target'
INITIATOR = BUILD / 'examples/block-initiator'
LIMIT = 60


def environment(settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith('WEFT_')}
    return {**kept, 'LD_LIBRARY_PATH': str(BUILD / 'lib'), **settings}


@contextlib.contextmanager
def target(settings):
    """A target on a free port, for one initiator."""
    with subprocess.Popen([TARGET, '127.0.0.1', '0', '--once'], env=environment(settings),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


def initiator(port, *words, settings):
    return [[INITIATOR, '127.0.0.1', port, *map(str, words)], environment(settings)]


def exchange(way, *words, ours=None, theirs=None, count=200):
    """Runs both sides; what the initiator says."""
    with target(theirs or {}) as (process, port):
        command, env = initiator(port, f'--way={way}', f'--count={count}', *words,
                                 settings=ours or {})
        result = subprocess.run(command, env=env, text=True, timeout=LIMIT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=LIMIT)
    assert result.returncode == 0, f'initiator: {result.stderr}\ntarget: {said}'
    assert process.returncode == 0, f'target: {said}'
    return json.loads(result.stdout)


def both(**settings):
    return {'ours': settings, 'theirs': settings}


@case
def every_way_moves_blocks_and_finds_them_again():
    for way in ('mr', 'mw1', 'mw2', 'oneshot'):
        said = exchange(way, '--depth=8')
        assert said['commands'] == 200, said


@case
def one_shot_takes_one_call_and_one_completion():
    for depth in (1, 32):
        said = exchange('oneshot', f'--depth={depth}', '--unchained')
        assert said['calls_per_command'] == 1, said
        assert said['completions_per_command'] == 1, said


@case
def scatter_lists_and_long_commands():
    exchange('oneshot', '--depth=4', '--size=65536', '--pieces=64')
    exchange('oneshot', '--depth=2', '--size=1048576', '--pieces=33', count=20)


@case
def the_opcode_encoding():
    exchange('oneshot', **both(WEFT_ONESHOT='opcode'))


@case
def each_part_without_the_other():
    for part in ('advertise', 'close'):
        for encoding in ('flags', 'opcode'):
            exchange('oneshot', ours={'WEFT_ONESHOT': encoding}, count=50,
                     theirs={'WEFT_ONESHOT': encoding, 'WEFT_ONESHOT_PARTS': part})


@case
def a_peer_without_it_is_served_and_used_by_the_same_calls():
    off = {'WEFT_ONESHOT': 'off'}
    none = {'WEFT_EXTENSIONS': 'off'}
    other = {'WEFT_ONESHOT': 'opcode'}
    for ours, theirs in ((off, {}), ({}, off), (none, {}), ({}, none), (other, {}), ({}, other)):
        exchange('oneshot', ours=ours, theirs=theirs, count=50)


@case
def markers_and_no_crc():
    exchange('oneshot', **both(WEFT_MARKERS='on'))
    exchange('oneshot', **both(WEFT_CRC='off'))


@case
def over_packets_the_message_has_the_key():
    roce = both(WEFT_WIRE='roce')
    for depth in (1, 32):
        said = exchange('oneshot', f'--depth={depth}', '--unchained', **roce)
        assert said['calls_per_command'] == said['completions_per_command'] == 1, said
    exchange('oneshot', '--depth=4', '--size=65536', '--pieces=64', **roce)


def first_command():
    """The PDU of CmdSN 1: WRITE(16) of eight blocks at 0."""
    header = struct.pack('>BBHIQIIII', 0x01, 0xa0, 0, 0, 0, 1, 4096, 1, 0)
    return header + struct.pack('>BBQIH', 0x8a, 0, 0, 8, 0)


@case
def a_pdu_travels_as_it_is():
    with tempfile.TemporaryDirectory(prefix='weft-block.') as folder:
        capture = pathlib.Path(folder, 'capture')
        exchange('oneshot', '--depth=1', ours={'WEFT_PCAP': str(capture)}, count=2)
        seen = capture.read_bytes()
    pdu = first_command()
    assert seen.count(pdu) == 1, f'{seen.count(pdu)} times'
    # In front of it, the STag in the header of the Send: bit 12 of the control word.
    header = seen[seen.index(pdu) - 18:seen.index(pdu)]
    assert header[:2] == b'\x51\x43', header.hex()
    stag = header[2:6]
    assert seen.count(b'\x61\x43' + stag) == 1, 'no close of the same STag'
    # Behind it, nothing but pad and CRC: the length of the FPDU says so.
    length, = struct.unpack('>H', seen[seen.index(pdu) - 20:seen.index(pdu) - 18])
    assert length == 18 + len(pdu), length


@case
def a_target_that_goes_away_leaves_an_initiator_that_says_so():
    with target({}) as (process, port):
        command, env = initiator(port, '--way=oneshot', '--depth=32', '--count=10000000',
                                 settings={'WEFT_ERRORS': 'off'})
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as other:
            assert process.stdout.readline() == 'oneshot: connected\n'
            process.send_signal(signal.SIGKILL)
            _, said = other.communicate(timeout=LIMIT)
    assert other.returncode == 1, f'status {other.returncode}: {said}'
    assert 'a work request:' in said, said


if __name__ == '__main__':
    main()
