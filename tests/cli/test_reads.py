#!/usr/bin/env python3
"""weft reads: what it asks a process for (played by this script), and a real device's answer."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time

from cases import BUILD, WEFT, Skip, case, expect, expect_error, main, weft
from played import PID, but_looks, encoded, process

ANSWER = {'pid': PID, 'program': 'example', 'device': 'weft0',
          'reads': {'allotment': 65536, 'allotment_base': 262144, 'contexts': 128,
                    'contexts_in_use': 3, 'waiting': 2}}


@case
def a_line_per_process():
    with process(encoded(ANSWER)) as requests:
        expect(weft('reads', PID), 0,
               f'{PID} example, weft0: allotment 65536 of 262144 octets, contexts 3 of 128, '
               'waiting 2\n')
        assert but_looks(requests) == [b'reads\n'], requests


@case
def what_is_in_force_is_told_where_there_are_connections():
    for least, most, count, said in ((4096, 4096, 1, '4096 on 1 connection'),
                                     (4096, 0, 2, '4096 to undivided on 2 connections'),
                                     (0, 0, 3, 'undivided on 3 connections')):
        told = {'connections': count, 'in_force_min': least, 'in_force_max': most}
        answer = {**ANSWER, 'reads': {**ANSWER['reads'], **told}}
        with process(encoded(answer)):
            said_all = weft('reads', PID).stdout
            assert f'of 262144 octets, in force {said}, contexts' in said_all, said_all


@case
def each_connection_has_a_line():
    connections = [{'qp_num': 7, 'peer': '192.0.2.1', 'read_request_len': 4096,
                    'read_answer_len': 65536, 'reads_outstanding': 2},
                   {'qp_num': 9, 'read_request_len': 0, 'read_answer_len': 0,
                    'reads_outstanding': 0}]
    with process(encoded({**ANSWER, 'connections': connections})):
        lines = weft('reads', PID).stdout.splitlines()
        assert lines[1:] == ['  qp 7 to 192.0.2.1: a request 4096, an answer 65536, 2 out',
                             '  qp 9: a request undivided, 0 out'], lines


@case
def foreign_text_does_not_reach_the_terminal():
    steers = 'a\x1b[2Jb\n'
    answer = {**ANSWER, 'program': steers, 'device': steers, 'connections': [{'peer': steers}]}
    with process(encoded(answer)):
        said = weft('reads', PID).stdout
    assert said.count('a?[2Jb?') == 3 and '\x1b' not in said, said


@case
def an_unexpected_shape_is_no_crash():
    for answer in ({}, {'program': None, 'reads': [], 'connections': {}},
                   {'device': 1, 'connections': [1, None, {'peer': []}]}):
        with process(encoded(answer)):
            expect(weft('reads', PID), 0, None)


@case
def json_is_what_the_processes_answer():
    with process(encoded(ANSWER)):
        result = weft('reads', '-j', PID)
        assert json.loads(result.stdout) == [ANSWER], result.stdout


@case
def commands_are_handed_on():
    with process(encoded(ANSWER)) as requests:
        for words in (['--allotment=65536'], ['-a', '0'], ['-a', 'auto'],
                      ['--memory=short'], ['-m', 'enough']):
            assert weft('reads', *words, PID).returncode == 0
        assert but_looks(requests) == [b'reads allotment 65536\n', b'reads allotment 0\n',
                                       b'reads allotment auto\n', b'reads memory short\n',
                                       b'reads memory enough\n'], requests


@case
def wrong_command_lines():
    for words, said in ((['--allotment=x', 1], '--allotment=x'),
                        (['--allotment=1073741825', 1], 'must be 0 to 1073741824 octets'),
                        (['--allotment=-1', 1], '--allotment=-1'),
                        (['--memory=low', 1], 'must be short or enough'),
                        (['--allotment=5'], 'needs the process ids'),
                        (['-a', 5, '-m', 'short', 1], 'one command at a time'),
                        (['--allotment'], 'needs a value'),
                        (['--colour'], '--colour'),
                        (['x'], 'x is not a process id')):
        expect(weft('reads', *words), 2, '', said)


@case
def an_unknown_process_is_named():
    expect_error(weft('reads', 1 << 22), 1, 'reads unknown')


@contextlib.contextmanager
def pair_at_work(wire):
    """perftest's two ends, one reading from the other; yields the reader's process id."""
    if shutil.which('ib_read_bw') is None:
        raise Skip('no program ib_read_bw')
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = str(probe.getsockname()[1])
    words = ['run', f'--wire={wire}', 'ib_read_bw', '-F', '-s', '4096', '-D', '30', '-p', port]
    words += ['-R'] if wire == 'iwarp' else ['-x', '0']
    with contextlib.ExitStack() as started:
        def start(*more):
            process = subprocess.Popen([WEFT, *words, *more], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL,
                                       env={**os.environ, 'WEFT_READ_PRESSURE': 'off'})
            started.callback(process.wait)
            started.callback(process.kill)
            return process.pid
        start()
        time.sleep(0.5)
        yield lambda: start('127.0.0.1')


def first_connection(start):
    """The reader comes before its server listens, at times: then it is started again."""
    end = time.monotonic() + 30
    pid = start()
    while time.monotonic() < end:
        result = weft('reads', '-j', pid)
        answers = json.loads(result.stdout) if result.returncode == 0 else []
        for answer in answers:
            if answer['connections']:
                return pid, answer['connections'][0]
        if result.returncode != 0 and not os.path.exists(f'/proc/{pid}/fd/0'):
            pid = start()
        time.sleep(0.1)
    raise AssertionError('no connection within 30 s')


@case
def a_program_that_reads_has_a_line_per_connection():
    for wire in ('iwarp', 'roce'):
        with pair_at_work(wire) as start:
            pid, connection = first_connection(start)
            if wire == 'iwarp':
                assert connection['read_request_len'] == 262144, connection
                assert connection['read_answer_len'] == 262144, connection
            else:
                assert 0 < connection['read_request_len'] <= 262144, connection
            said = weft('reads', pid).stdout
            line = f"\n  qp {connection['qp_num']} to {connection['peer']}: a request "
            assert line in said, said


@contextlib.contextmanager
def program():
    """A program with weft's device; yields its process id and a function that has it do a word."""
    running = subprocess.Popen([BUILD / 'tests/cli/reads_program'], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, 'WEFT_READ_PRESSURE': 'off'})

    def tell(word):
        running.stdin.write(f'{word}\n')
        running.stdin.flush()
        return [int(number) for number in running.stdout.readline().split()]

    try:
        yield running.pid, tell
    finally:
        running.stdin.close()
        running.wait(20)


def reads_of(pid, *words):
    return json.loads(weft('reads', '-j', *words, pid).stdout)[0]['reads']


@case
def a_running_device_takes_commands():
    with program() as (pid, tell):
        assert tell('query') == [0, 262144, 262144, 128]
        assert reads_of(pid)['allotment'] == 262144 and reads_of(pid)['connections'] == 0
        assert reads_of(pid, '--allotment=65536')['allotment'] == 65536
        assert reads_of(pid, '--memory=short')['allotment'] == 16384
        assert reads_of(pid, '--memory=enough')['allotment'] == 65536
        assert reads_of(pid)['allotment_changes'] == {'operator': 1, 'memory': 2}
        assert tell('query') == [0, 65536, 65536, 128]
        assert reads_of(pid, '--allotment=auto')['allotment'] == 262144


@case
def a_program_changes_its_own_device():
    with program() as (pid, tell):
        assert tell('4096') == [0, 4096, 4096, 128]
        assert tell('262144') == [0, 262144, 262144, 128]
        assert tell('short') == [0, 65536, 262144, 128]
        assert tell('enough') == [0, 262144, 262144, 128]
        assert tell('1073741825')[0] < 0
        assert reads_of(pid)['allotment_changes'] == {'operator': 2, 'memory': 2}
        assert tell('8192') == [0, 8192, 8192, 128]
        assert tell('auto') == [0, 262144, 262144, 128]


if __name__ == '__main__':
    main()
