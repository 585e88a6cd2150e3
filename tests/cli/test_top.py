#!/usr/bin/env python3
"""weft top: what it prints of processes that this script plays, and the real thing in a terminal
(tmux), beside real programs. Figures are compared by their form alone."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

from cases import BUILD, WEFT, Skip, case, expect, expect_error, free_port, main, scratch, weft
from played import encoded, process

PID = os.getpid()
PATIENCE_S = 30  # only a failing test waits so long
ANSWER = {
    'pid': PID, 'program': 'example',
    'weft0': {'qps': 1, 'latency': {'send': {
        'count': 2, 'sum_ns': 3000, 'max_ns': 2000, 'buckets': [[1023, 1], [2000, 1]]}}},
    'connections': [{'state': 'open', 'peer': '10.0.0.2:8', 'qp_num': 77}],
    'qps': [{'qp_num': 77, 'state': 'RTS',
             'counters': {'send_completions': 9, 'out.send.octets': 1023}}],
}


# --- for logs and scripts -------------------------------------------------------------------------


def batch(*words):
    return weft('top', '--batch', '--count=1', PID, *words)


def objects(*words):
    result = weft('top', '--json', '-n', 1, PID, *words)
    expect(result, 0, None)
    return [json.loads(line) for line in result.stdout.splitlines()]


@case
def text_has_a_table_of_each_kind():
    with process(encoded(ANSWER)) as requests:
        result = batch()
    expect(result, 0, None)
    assert len(requests) >= 2 and set(requests) == {b'stat\n'}, requests  # rates need two answers
    lines = result.stdout.splitlines()
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', lines[0]), lines
    assert lines[2] == 'processes' and lines[6] == 'connections', lines
    assert lines[3].split() == 'PID PROGRAM STATE CONN WR/s IN/s OUT/s P50 P99 DEVICES'.split()
    assert lines[4].split() == [str(PID), 'example', 'ok', '1', '0', '0', '0', '1.00us', '2.00us',
                                'weft0'], lines[4]
    assert lines[8].split() == [str(PID), 'weft0', '77', 'RTS', '0', '0', '0', '10.0.0.2:8'], lines


@case
def json_is_an_object_per_line():
    with process(encoded(ANSWER)):
        found, = objects()
    assert list(found) == ['time', 'processes', 'connections', 'volumes', 'rtas', 'clients',
                           'left_out'], found
    assert found['processes'] == [{
        'pid': PID, 'program': 'example', 'state': 'ok', 'connections': 1, 'work_per_s': 0,
        'octets_in_per_s': 0, 'octets_out_per_s': 0, 'p50_ns': 1007, 'p99_ns': 2000,
        'devices': 'weft0'}], found
    assert found['connections'] == [{
        'pid': PID, 'id': 'weft0 77', 'state': 'RTS', 'work_per_s': 0, 'octets_in_per_s': 0,
        'octets_out_per_s': 0, 'peer': '10.0.0.2:8'}], found
    assert not any(found[name] for name in ('volumes', 'rtas', 'clients', 'left_out')), found


@case
def count_and_delay_are_kept_to():
    with process(encoded(ANSWER)) as requests:
        result = weft('top', '-j', '-n', 2, '-d', 1, PID)
    expect(result, 0, None)
    assert len(result.stdout.splitlines()) == 2 and len(requests) >= 3, requests


@case
def who_does_not_answer_is_shown_as_such_and_holds_nobody_up():
    played = [(encoded(ANSWER), 'ok'), (None, 'no answer'), (b'nonsense\n', 'nonsense'),
              (b'[' * (5 << 20), 'nonsense'), (encoded(ANSWER), 'ok')]
    if os.geteuid() == 0:  # who can listen as another user
        played.append((b'', 'refused'))
    with contextlib.ExitStack() as processes:
        for i, (answer, state) in enumerate(played):
            is_another = state == 'refused'
            processes.enter_context(process(answer, pid=PID + i, is_another=is_another))
        found, = objects(*range(PID + 1, PID + len(played)))
    rows = {row['pid']: row for row in found['processes']}
    for i, (_, state) in enumerate(played):
        assert rows[PID + i]['state'] == state, rows
        assert (rows[PID + i]['work_per_s'] is None) == (state != 'ok'), rows


@case
def a_process_that_ends_is_gone():
    with subprocess.Popen([WEFT, 'top', '--json', '--count=3', str(PID)], text=True,
                          stdout=subprocess.PIPE) as top:
        with process(encoded(ANSWER)):
            while not json.loads(top.stdout.readline())['processes']:
                pass
        last = json.loads(top.stdout.read().splitlines()[-1])
    assert [row['state'] for row in last['processes']] == ['gone'] and not last['connections'], last


@case
def nothing_that_runs_is_no_error():
    found, = objects()
    assert found['processes'] == [], found
    result = batch()
    expect(result, 0, None)
    assert 'Nothing runs now. Start something with: weft run' in result.stdout, result.stdout
    assert len(result.stdout.splitlines()) == 4, result.stdout


@case
def foreign_text_reaches_neither_terminal_nor_log():
    with process(encoded({**ANSWER, 'program': 'a\x1b[2Jb\n'})):
        result = batch()
        found, = objects()
    assert '\x1b' not in result.stdout and 'a?[2Jb?' in result.stdout, result.stdout
    assert found['processes'][0]['program'] == 'a?[2Jb?', found


@case
def wrong_words_are_refused():
    for words, said in ((('--delay=0',), '--delay=0'), (('-n', 'x'), '--count=x'),
                        (('--what',), 'no option --what'), (('-d',), '-d needs a value'),
                        (('12x',), '12x is not a process id')):
        result = weft('top', *words)
        expect(result, 2, '', said, 'weft help top')


@case
def without_a_terminal_it_says_what_to_use():
    expect_error(weft('top'), 1, 'no screen', 'weft top --batch')


# --- in a terminal --------------------------------------------------------------------------------


class Terminal:
    """weft top in a terminal of 80 x 24, which ends with the program."""

    def __init__(self, folder, *pids):
        self.tmux = ['tmux', '-S', f'{folder}/tmux', '-f', '/dev/null']
        words = ' '.join([str(WEFT), 'top', *map(str, pids)])
        subprocess.run([*self.tmux, 'new-session', '-d', '-x', '80', '-y', '24', words], check=True,
                       env={**os.environ, 'LC_ALL': 'C.UTF-8', 'TERM': 'screen'}, timeout=60)

    def screen(self):
        shown = subprocess.run([*self.tmux, 'capture-pane', '-p'], text=True, timeout=60,
                               capture_output=True)
        return shown.stdout.splitlines()

    def keys(self, *keys):
        subprocess.run([*self.tmux, 'send-keys', *keys], check=True, timeout=60)

    def resize(self, width, height):
        subprocess.run([*self.tmux, 'resize-window', '-x', str(width), '-y', str(height)],
                       check=True, timeout=60)

    def wait(self, what, is_so):
        end = time.monotonic() + PATIENCE_S
        while not is_so(lines := self.screen()):
            assert time.monotonic() < end, f'{what}, not on the screen:\n' + '\n'.join(lines)
            time.sleep(0.05)
        return lines

    def keep(self, name, lines):
        """Left beside the pictures of the pages, for who wants to see it."""
        folder = BUILD / 'pages'
        folder.mkdir(exist_ok=True)
        (folder / f'top-{name}.txt').write_text('\n'.join(lines) + '\n')

    def has_ended(self):
        return subprocess.run([*self.tmux, 'has-session'], capture_output=True,
                              timeout=60).returncode != 0

    def close(self):
        subprocess.run([*self.tmux, 'kill-server'], capture_output=True, timeout=60)


@contextlib.contextmanager
def terminal(*pids):
    if not shutil.which('tmux'):
        raise Skip('tmux is not installed')
    with scratch() as folder:
        shown = Terminal(folder, *pids)
        try:
            yield shown
        finally:
            shown.close()


@contextlib.contextmanager
def rping():
    """A server and a client that goes on and on; yields both."""
    if not shutil.which('rping'):
        raise Skip('rping is not installed')
    port = str(free_port())
    words = [WEFT, 'run', '--quiet', 'rping', '-a', '127.0.0.1', '-p', port, '-C', '1000000000']
    quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
    with contextlib.ExitStack() as programs:
        server = programs.enter_context(subprocess.Popen([*words, '-s'], **quiet))
        programs.callback(server.kill)
        end = time.monotonic() + PATIENCE_S
        while not any(row['state'] == 'ok' for row in of(server.pid)):
            assert time.monotonic() < end, 'the server does not come up'
        client = programs.enter_context(subprocess.Popen([*words, '-c'], **quiet))
        programs.callback(client.kill)
        yield server, client


def of(pid):
    result = weft('stat', '--json', pid)
    return [{'state': 'ok'} for entry in json.loads(result.stdout)
            if any(c['state'] == 'listening' for c in entry['connections'])]


def row_of(lines, pid):
    return next((line.split() for line in lines if line.split()[:1] == [str(pid)]), [])


RATE = re.compile(r'\d+(\.\d)?[kKMG]?')
DURATION = re.compile(r'\d+(\.\d+)?(ns|us|ms|s)')


def is_busy(row):
    """A program that does something: rates and latencies."""
    return (len(row) >= 10 and all(RATE.fullmatch(cell) for cell in row[4:7]) and
            row[4] != '0' and row[5] != '0' and all(DURATION.fullmatch(cell) for cell in row[7:9]))


@case
def the_screen_shows_programs_that_run_and_their_connections():
    with rping() as (server, client), terminal(server.pid, client.pid) as top:
        lines = top.wait('both with rates', lambda lines: all(
            is_busy(row_of(lines, p.pid)) for p in (server, client)) and
            re.fullmatch(r'minute, of \S+/s [▁-█]{60}', lines[21]))  # row by row
        assert len(lines) == 24 and all(len(line) <= 80 for line in lines), lines
        assert lines[0].split()[:3] == ['1', 'processes', '2'], lines
        assert lines[1].split()[0] == 'PID' and lines[23].startswith('q quit'), lines
        assert row_of(lines, client.pid)[1:4] == ['rping', 'ok', '1'], lines
        top.keep('processes', lines)
        top.keys('2')
        lines = top.wait('connections', lambda lines: 'DEVICE AND QP' in lines[1])
        row = row_of(lines, client.pid)
        assert row[1] == 'weft0' and row[2].isdigit() and row[3] == 'RTS', row
        assert re.fullmatch(r'127\.0\.0\.1:\d+', row[7]), row
        top.keep('connections', lines)
        top.keys('Enter')
        lines = top.wait('details', lambda lines: lines[1].startswith('connection weft0 ') and
                         'each second' in lines)  # what missed a turn has no rates at first
        words = ' '.join(lines)
        for word in ('state: RTS', 'queue pair', 'stream OPEN', 'ird ', 'ord '):
            assert word in words, (word, lines)
        top.keep('details', lines)
        top.keys('PageDown', 'PageDown')
        top.wait('the end of the details', lambda lines: any('contexts' in line for line in lines))
        top.keys('Escape')
        top.wait('connections again', lambda lines: 'DEVICE AND QP' in lines[1])
        top.keys('q')
        top.wait('the end', lambda lines: top.has_ended())


@case
def keys_sort_and_filter():
    with process(encoded(ANSWER)), process(encoded(ANSWER), pid=PID + 1), \
            terminal(PID, PID + 1) as top:
        top.wait('both', lambda lines: row_of(lines, PID) and row_of(lines, PID + 1))
        order = [str(PID + 1), str(PID)]
        top.keys('s', 's', 's', 's', 's', 's')  # the column of the process ids
        top.wait('the greatest first',
                 lambda lines: [line.split()[0] for line in lines[2:4] if line] == order)
        top.keys('r')
        top.wait('the least first',
                 lambda lines: [line.split()[0] for line in lines[2:4] if line] == order[::-1])
        top.keys('/', *str(PID + 1))
        top.wait('one row', lambda lines: lines[22] == f'filter: {PID + 1}_' and
                 row_of(lines, PID + 1) and not row_of(lines, PID))
        top.keys('Escape')
        top.wait('both again', lambda lines: row_of(lines, PID))


@case
def a_process_that_is_stopped_holds_nobody_up():
    with rping() as (server, client), terminal(server.pid, client.pid) as top:
        top.wait('both', lambda lines: row_of(lines, server.pid) and row_of(lines, client.pid))
        client.send_signal(signal.SIGSTOP)
        top.wait('it does not answer',
                 lambda lines: row_of(lines, client.pid)[2:4] == ['no', 'answer'])
        assert row_of(top.screen(), server.pid)[2] == 'ok'
        top.keys('h')  # and keys are heard
        top.wait('help', lambda lines: lines[23] == 'any key: back')
        top.keys('h')
        client.send_signal(signal.SIGCONT)
        top.wait('it answers again', lambda lines: row_of(lines, client.pid)[2:3] == ['ok'])
        client.kill()
        client.wait()
        top.wait('it is gone', lambda lines: row_of(lines, client.pid)[2:3] == ['gone'])


@case
def another_size_of_the_terminal_is_filled():
    with process(encoded(ANSWER)), terminal(PID) as top:
        top.wait('a row', lambda lines: row_of(lines, PID))
        top.resize(120, 40)
        lines = top.wait('a larger screen', lambda lines: len(lines) == 40 and
                         lines[39].startswith('q quit') and len(lines[0]) == 120)
        assert row_of(lines, PID)[1] == 'example' and lines[0].endswith('every 1s'), lines
        top.resize(40, 10)
        # Until it is drawn anew, tmux shows a part of what was there.
        lines = top.wait('a smaller screen', lambda lines: len(lines) == 10 and
                         lines[9].startswith('q quit') and row_of(lines, PID))
        assert lines[1].split()[0] == 'PID', lines


if __name__ == '__main__':
    main()
