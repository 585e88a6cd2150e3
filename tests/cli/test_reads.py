#!/usr/bin/env python3
"""weft reads: what it asks a process for (played by this script), and a real device's answer."""

import contextlib
import json
import os
import subprocess

from cases import BUILD, case, expect, expect_error, main, weft
from played import PID, encoded, process

ANSWER = {'pid': PID, 'program': 'example', 'device': 'weft0',
          'reads': {'allotment': 65536, 'allotment_base': 262144, 'contexts': 128,
                    'contexts_in_use': 3, 'waiting': 2}}


@case
def a_line_per_process():
    with process(encoded(ANSWER)) as requests:
        expect(weft('reads', PID), 0,
               f'{PID} example, weft0: allotment 65536 of 262144 octets, contexts 3 of 128, '
               'waiting 2\n')
        assert requests == [b'reads\n'], requests


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
        assert requests == [b'reads allotment 65536\n', b'reads allotment 0\n',
                            b'reads allotment auto\n',
                            b'reads memory short\n', b'reads memory enough\n'], requests


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
