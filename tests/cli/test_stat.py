#!/usr/bin/env python3
"""weft stat asks processes that this script plays: what it shows, what it does not believe."""

import json
import os
import shutil
import socket
import subprocess

from cases import WEFT, Skip, case, expect, expect_error, main, nobody_may_run, weft
from played import encoded, process

PID = os.getpid()
ANSWER = {
    'pid': PID, 'program': 'example',
    'weft0': {'qps': 2, 'cqs': 0, 'startup': {'requests_sent': 1234567, 'timeouts': 0},
              'latency': {'sampled_one_in': 16,
                          'read': {'count': 12, 'sum_ns': 60000, 'p50_ns': 4479, 'p90_ns': 6783,
                                   'p99_ns': 99999, 'p999_ns': 640000000, 'max_ns': 1500000000,
                                   'buckets': [[4607, 7], [1500000000, 5]]}},
              'memory_refusals': {}},
    'connections': [{'state': 'open', 'local': '10.0.0.1:7', 'peer': '10.0.0.2:8', 'qp_num': 123456,
                     'mpa_in': {'fpdus': 3, 'octets': 5 * 1024 * 1024, 'crc_errors': 0}}],
    'qps': [{'qp_num': 123456, 'state': 'RTS', 'sq_count': 0,
             'counters': {'send_completions': 9, 'in.send.octets': 1023}}],
}


# --- what it shows --------------------------------------------------------------------------------


@case
def json_is_an_array_of_what_processes_answer():
    with process(encoded(ANSWER)) as requests:
        result = weft('stat', '--json', PID)
    expect(result, 0, None)
    assert json.loads(result.stdout) == [ANSWER], result.stdout
    assert set(requests) == {b'stat\n'}, requests


@case
def without_pids_all_are_asked():
    with process(encoded(ANSWER)):
        assert ANSWER in json.loads(weft('stat', '--json').stdout)


@case
def who_asks_at_the_same_time_is_not_taken_for_a_process():
    with process(encoded(ANSWER)), socket.socket(socket.AF_UNIX) as other:
        other.connect(f'\0weft.{os.getuid()}.{PID}')
        answers = json.loads(weft('stat', '--json').stdout)
    assert answers.count(ANSWER) == 1, answers


@case
def numbers_of_64_bits_stay_whole():
    answer = {**ANSWER, 'weft0': {'octets': 2**64 - 1}}
    with process(encoded(answer)):
        assert json.loads(weft('stat', '-j', PID).stdout) == [answer]


@case
def the_table_has_units_and_leaves_zeroes_out():
    with process(encoded(ANSWER)):
        result = weft('stat', PID)
    expect(result, 0, f'''example, process {PID}
  device weft0    qps 2
    startup       requests sent 1,234,567
    read took     count 12  sum 60.0us  p50 4.47us  p90 6.78us  p99 99.9us  p999 640ms  max 1.50s
  connection 10.0.0.1:7 -> 10.0.0.2:8  state open  qp num 123456
    mpa in        fpdus 3  octets 5.0 MiB
  queue pair 123456  state RTS
    counters      send completions 9
    in            send octets 1023 B
''')


@case
def foreign_text_does_not_reach_the_terminal():
    answer = {**ANSWER, 'program': 'a\x1b[2Jb\n', 'pid': 'c\x1b[2Jd\n',
              'connections': [{'state': '\x07'}]}
    with process(encoded(answer)):
        result = weft('stat', PID)
    expect(result, 0, None)
    assert 'a?[2Jb?, process c?[2Jd?\n' in result.stdout, result.stdout
    assert '\x1b' not in result.stdout and '\x07' not in result.stdout


@case
def an_unexpected_shape_is_no_crash():
    for answer in ({}, {'pid': [], 'weft0': 3, 'connections': {}, 'qps': [1, None, []]},
                   {'program': None, 'connections': [{'peer': None}], 'qps': [{'qp_num': None}]},
                   {'weft0': {'a': {'b': {'c': 1}}, 'd': None, 'e': 1.5, 'f': -1, 'g': True}},
                   {'weft0': {'x' * 500: 'y' * 500}}):
        with process(encoded(answer)):
            expect(weft('stat', PID), 0, None)


@case
def watch_shows_again():
    with process(encoded(ANSWER)):
        with subprocess.Popen([WEFT, 'stat', '--json', '--watch=1', str(PID)], text=True,
                              stdout=subprocess.PIPE) as watching:
            rounds = [json.loads(watching.stdout.readline()) for _ in range(2)]
            watching.kill()
    assert rounds == [[ANSWER], [ANSWER]], rounds


@case
def no_process_is_said_plainly():
    alone = ['unshare', '--net'] if os.geteuid() == 0 else ['unshare', '--user', '--net']
    if not shutil.which('unshare') or subprocess.run([*alone, 'true'],
                                                     capture_output=True).returncode:
        raise Skip('no network namespace of its own to be had')
    for command in ('stat', 'reads'):
        table = subprocess.run([*alone, WEFT, command], text=True, capture_output=True)
        expect(table, 0, "No program uses weft's device now. Start one with: weft run PROGRAM\n")
        as_json = subprocess.run([*alone, WEFT, command, '-j'], text=True, capture_output=True)
        expect(as_json, 0, None)
        assert json.loads(as_json.stdout) == []


# --- what it does not believe ---------------------------------------------------------------------


@case
def an_unknown_process_is_an_error():
    expect_error(weft('stat', 999999999), 1, 'process 999999999', 'there is no such process')
    expect_error(weft('stat', PID), 1, f'process {PID}', "has not used weft's device")


@case
def an_unknown_process_does_not_hide_the_others():
    with process(encoded(ANSWER)):
        result = weft('stat', '--json', 999999999, PID)
    expect(result, 1, None, 'process 999999999')
    assert json.loads(result.stdout) == [ANSWER]


@case
def what_is_not_one_json_object_is_refused():
    for answer in (b'nonsense\n', b'[1]\n', b'{"pid": 1', b'{}{}\n', b'{"a": 1} b\n', b'\xff\xfe\n',
                   b'{"a":' * 100 + b'1' + b'}' * 100):
        with process(answer):
            result = weft('stat', '--json', PID)
        expect(result, 1, None, f'process {PID}', "not an object of weft's JSON")
        assert json.loads(result.stdout) == [], result.stdout


@case
def a_process_of_ones_own_that_hangs_up_has_ended():
    with process(b''):
        expect_error(weft('stat', PID), 1, 'it has ended meanwhile')
        expect(weft('stat'), 0, None)


@case
def a_process_that_shows_strangers_the_door_belongs_to_another():
    if os.geteuid() != 0:
        raise Skip('only root can listen as another user')
    with process(b'', is_another=True):
        expect_error(weft('stat', PID), 1, 'it belongs to another user')


@case
def a_process_that_says_nothing_is_given_up():
    with process(None):
        expect_error(weft('stat', PID), 1, 'did not answer in time')


@case
def the_name_of_another_users_process_is_not_believed():
    if os.geteuid() != 0:
        raise Skip('only root may start a program of another user')
    if not nobody_may_run(WEFT):
        raise Skip('other users may not enter the folder of this tree')
    with process(encoded(ANSWER), uid=65534) as requests:
        result = weft('stat', PID, user=65534, group=65534, extra_groups=[])
    expect_error(result, 1, f'process {PID}', 'it belongs to another user')
    assert b'stat\n' not in requests, 'it was asked before it was known'


@case
def names_that_only_look_alike_are_left_alone():
    for name in (f'weft.{os.getuid()}.{PID}x', f'weft.{os.getuid()}.-{PID}', f'weft.{os.getuid()}'):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind('\0' + name)
            listener.listen()
            expect_error(weft('stat', PID), 1, "has not used weft's device")


main()
