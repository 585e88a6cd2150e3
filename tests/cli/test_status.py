#!/usr/bin/env python3
"""weft status and weft rescan: what they ask a node for (played by this script), and what they show
of its answers."""

import contextlib
import json
import os
import socket
import threading

from cases import case, expect, expect_error, main, scratch, weft

PID = os.getpid()
VOLUME = {'name': 'a', 'state': 'ready', 'size': 3 << 20, 'driver': 'file', 'connections': 2,
          'operations': {'read': 40, 'write': 2}, 'octets': {'read': 1 << 20, 'write': 2 << 20},
          'uri': 'nbd://h/a'}
RTA = {'name': 'a', 'state': 'ready', 'pid': 77, 'since_ms': 12345, 'restarts': 6,
       'in_flight': 7, 'replays': 8, 'retransmissions': 9}
ANSWER = {'pid': PID, 'connections': 5, 'pool': 64 << 20, 'pool_taken': 1 << 20,
          'volumes': [VOLUME], 'rtas': [RTA]}


@contextlib.contextmanager
def nodes(answer, *pids):
    """Nodes with these process ids in a runtime folder of their own; yields what they were asked
    for and the environment in which commands see them."""
    requests = []

    def serve(listener):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer:
                    request = peer.recv(4096).decode()
                    if request:  # else somebody looked whether there is a node
                        requests.append(request)
                        peer.sendall(json.dumps(answer).encode() + b'\n')

    with scratch() as folder, contextlib.ExitStack() as open_ones:
        os.chmod(folder, 0o700)
        servers = []
        for pid in pids:
            listener = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f'{folder}/node.{pid}')
            listener.listen()
            servers.append((listener, threading.Thread(target=serve, args=(listener,),
                                                       daemon=True)))
            servers[-1][1].start()
        try:
            yield requests, {'WEFT_RUNTIME_DIR': folder}
        finally:
            for listener, server in servers:
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                server.join()


# --- status ---------------------------------------------------------------------------------------


@case
def every_column_has_its_number():
    with nodes(ANSWER, PID) as (requests, env):
        result = weft('status', PID, env=env)
    expect(result, 0, None)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert result.stdout.startswith(f'node {PID}: 5 clients, pool 1M of 64M in use\n'), lines
    assert lines[2] == ['a', 'ready', '3M', 'file', '2', '42', '3M', 'nbd://h/a'], lines
    assert lines[4] == ['a', 'ready', '77', '12.3s', '6', '7', '8', '9'], lines
    assert len(lines) == 5 and requests == ['status\n'], (lines, requests)


@case
def latencies_stand_by_volume_and_operation():
    latency = {'read': {'count': 40, 'p50_ns': 812, 'p90_ns': 4479, 'p99_ns': 41983,
                        'p999_ns': 640000000, 'max_ns': 1500000000},
               'write zeroes': {'count': 2}}
    with nodes({**ANSWER, 'volumes': [{**VOLUME, 'latency': latency}]}, PID) as (_, env):
        lines = weft('status', PID, env=env).stdout.splitlines()
    assert lines[3].split() == 'LATENCY OF OPERATION COUNT P50 P90 P99 P99.9 MAX'.split(), lines
    assert lines[4].split() == 'a read 40 812ns 4.47us 41.9us 640ms 1.50s'.split(), lines
    assert lines[5].split() == 'a write zeroes 2 0ns 0ns 0ns 0ns 0ns'.split(), lines


@case
def a_volume_that_is_not_there_says_why():
    volume = {**VOLUME, 'state': 'failed', 'why': 'the file is gone'}
    with nodes({**ANSWER, 'volumes': [volume, VOLUME]}, PID) as (_, env):
        lines = weft('status', PID, env=env).stdout.splitlines()
    assert lines[3] == '      why: the file is gone', lines
    assert lines[4].split()[0] == 'a' and lines[5].split()[0] == 'RTA', lines


@case
def all_nodes_are_asked_unless_one_is_named():
    with nodes(ANSWER, 50, 40) as (requests, env):
        result = weft('status', '--json', env=env)
        expect(result, 0, None)
        assert json.loads(result.stdout) == [ANSWER, ANSWER] and len(requests) == 2, requests
        requests.clear()
        assert json.loads(weft('status', '-j', 40, env=env).stdout) == [ANSWER]
        assert weft('status', env=env).stdout.count('VOLUME') == 2
        expect_error(weft('status', 41, env=env), 1, 'no node: process 41')


@case
def no_node_is_said_plainly():
    with nodes(ANSWER) as (_, env):
        expect(weft('status', env=env), 0, 'No storage node of yours runs now. Start one with: '
               'weft serve FILE\n')
        result = weft('status', '-j', env=env)
        expect(result, 0, None)
        assert json.loads(result.stdout) == [], result.stdout


@case
def an_unexpected_shape_is_no_crash():
    """Root asks everybody's nodes, and one that shows something else must not end the list."""
    odd = [{}, {'volumes': 1, 'rtas': {}, 'sources': 'x', 'mdns': []},
           {'volumes': [1, None, [], {'name': 1, 'latency': [], 'operations': 3, 'octets': 'x'}],
            'rtas': [None, {'confinement': []}], 'sources': [2, {}], 'mdns': {'name': {}}},
           {'volumes': [{'latency': {'read': None, 'write': 7}}]}]
    for answer in odd:
        with nodes(answer, PID) as (_, env):
            expect(weft('status', PID, env=env), 0, None)


@case
def foreign_text_does_not_reach_the_terminal():
    steers = 'a\x1b[2Jb\n'
    volume = dict.fromkeys(('name', 'state', 'driver', 'uri', 'why', 'source', 'nqn'), steers)
    answer = {'volumes': [{**volume, 'latency': {steers: {'count': 1}}}],
              'rtas': [{**dict.fromkeys(('name', 'state', 'why'), steers),
                        'confinement': {'kind': steers}}],
              'sources': [dict.fromkeys(('state', 'uri', 'why'), steers)],
              'mdns': {'name': steers}, 'changes': [{'volume': steers, 'what': steers}]}
    for words in (['status'], ['rescan']):
        with nodes(answer, PID) as (_, env):
            result = weft(*words, PID, env=env)
        assert 'a?[2Jb?' in result.stdout and '\x1b' not in result.stdout + result.stderr, result


@case
def a_node_that_answers_nonsense_is_named():
    with nodes([1], 40) as (_, env):
        result = weft('status', env=env)
    expect(result, 1, '', 'no status: process 40', "not an object of weft's JSON")


# --- rescan ---------------------------------------------------------------------------------------


@case
def rescan_tells_what_changed():
    answer = {'ok': True, 'changes': [{'volume': 'a', 'what': 'grown'},
                                      {'volume': 'b', 'what': 'gone'}]}
    with nodes(answer, PID) as (requests, env):
        expect(weft('rescan', env=env), 0, 'a: grown\nb: gone\n')
        expect(weft('rescan', PID, env=env), 0, 'a: grown\nb: gone\n')
    assert requests == ['rescan\n'] * 2, requests


@case
def changes_are_sent_in_their_order():
    with nodes({'ok': True}, PID) as (requests, env):
        expect(weft('rescan', '--add=x=ram:1M', '--remove', 'y', '--add=z', PID, env=env), 0)
    assert requests == ['add x=ram:1M\n', 'remove y\n', 'add z\n'], requests


@case
def a_refusal_ends_it():
    with nodes({'ok': False, 'why': 'it is in use'}, PID) as (requests, env):
        result = weft('rescan', '--remove=a', '--remove=b', PID, env=env)
        expect_error(result, 1, 'not done: a', 'it is in use')
        expect_error(weft('rescan', PID, env=env), 1, 'not done: rescan', 'it is in use')
    assert requests == ['remove a\n', 'rescan\n'], requests


@case
def which_node_must_be_plain():
    for pids, *said in (((), '0 nodes of yours', 'start one: weft serve'),
                        ((40, 50), '2 nodes of yours', 'give its process id')):
        with nodes({'ok': True}, *pids) as (requests, env):
            expect_error(weft('rescan', env=env), 1, 'no node: weft rescan', *said)
        assert requests == [], requests


@case
def wrong_command_lines():
    with nodes({'ok': True}, PID) as (requests, env):
        for words, said in ((['status', '--colour'], 'no option --colour'),
                            (['status', 'x'], 'x is not a process id'),
                            (['status', 1, 2], 'one process id at most'),
                            (['rescan', '--colour'], 'no option --colour'),
                            (['rescan', '--add'], '--add needs a value'),
                            (['rescan', 0], '0 is not a process id'),
                            (['rescan', (1 << 30) + 1], 'is not a process id'),
                            (['rescan', 1, 2], 'one process id at most'),
                            (['rescan', '--add=' + 'x' * 2043], 'too long, or of several lines'),
                            (['rescan', '--add=x\nremove y'], 'too long, or of several lines')):
            expect(weft(*words, env=env), 2, '', said)
        expect(weft('rescan', '--add=' + 'x' * 2042, env=env), 0)
    assert requests == ['add ' + 'x' * 2042 + '\n'], [len(request) for request in requests]


if __name__ == '__main__':
    main()
