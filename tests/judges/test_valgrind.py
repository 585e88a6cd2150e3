#!/usr/bin/env python3
"""valgrind as a judge: two processes meet over each wire, and nothing that weft reads, writes or
says to the system is undefined, and nothing that was taken is lost."""

import os
import pathlib
import shutil
import subprocess
import time

import judge

PATIENCE_S = 120  # valgrind is slow, and the machine may be too
PORT = 18000 + os.getpid() % 1000
VALGRIND = ['valgrind', '-q', '--trace-children=yes', '--leak-check=full',
            '--show-leak-kinds=definite', '--errors-for-leak-kinds=definite',
            '--error-exitcode=99']


def start(wire, words):
    environment = dict(os.environ, WEFT_ROCE_PORT=str(20000 + os.getpid() % 20000))
    return subprocess.Popen(
        [*VALGRIND, judge.WEFT, 'run', f'--wire={wire}', 'ibv_rc_pingpong', '-g', '0', '-n', '10',
         '-p', str(PORT), *words], env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)


def is_listening():
    tables = [pathlib.Path(f'/proc/net/{name}') for name in ('tcp', 'tcp6')]
    rows = [line.split() for t in tables if t.exists() for line in t.read_text().splitlines()]
    return any(r[1].endswith(f':{PORT:04X}') and r[3] == '0A' for r in rows if len(r) > 3)


def faults_of(name, process):
    try:
        said = process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return [f'{name}: no end', process.communicate()[0]]
    return [] if process.returncode == 0 else [f'{name}: status {process.returncode}', said]


def run(wire):
    server = start(wire, [])
    end = time.monotonic() + PATIENCE_S
    while not is_listening() and server.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    client = start(wire, ['127.0.0.1'])
    return faults_of('client', client) + faults_of('server', server)


def main():
    if shutil.which('valgrind') is None or shutil.which('ibv_rc_pingpong') is None:
        judge.skip_all('valgrind or ibv_rc_pingpong is not installed')
    tap = judge.Tap()
    for wire in 'roce', 'iwarp':
        tap.report(f'ibv_rc_pingpong over {wire}', run(wire))
    return tap.finish()


if __name__ == '__main__':
    raise SystemExit(main())
