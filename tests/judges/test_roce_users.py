#!/usr/bin/env python3
"""Two users of one host on the RoCE device: who comes second to an address is told who has the port
there, and runs beside him on one that both of his ends agree on."""

import os
import pathlib
import sys
import time

import judge

USERS = 65534, 65533
PATIENCE_S = 30
COUNT = judge.count(200, 5000)


class User:
    """Programs of one user, with a port of RoCE."""

    def __init__(self, uid, roce_port):
        self.uid = uid
        self.prefix = ['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', judge.WEFT,
                       'run', '--wire=roce', f'--roce-port={roce_port}']

    def start(self, *words):
        return judge.LocalProcess([str(word) for word in [*self.prefix, *words]], {},
                                  pathlib.Path('/'))

    def pingpong(self, tcp_port, count):
        """Two programs that send datagrams to each other: (server, client)."""
        words = ['ibv_ud_pingpong', '-g', '0', '-p', tcp_port, '-n', count]
        server = self.start(*words)
        wait_until(lambda: judge.Local.listens(tcp_port) or server.poll() is not None)
        return server, self.start(*words, '127.0.0.1')


def wait_until(holds):
    end = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)


def faults_of(*processes):
    faults = []
    for process in processes:
        if process.wait(PATIENCE_S) != 0:
            faults += [f'it ended with {process.poll()}', *process.output().split('\n')]
        process.stop()
    return faults


def refused(port):
    """The first user waits for a peer; the second looks at the device."""
    first, tcp_port = User(USERS[0], port), judge.free_port()
    server = first.start('ibv_ud_pingpong', '-g', '0', '-p', tcp_port)
    wait_until(lambda: judge.Local.listens(tcp_port) or server.poll() is not None)
    second = User(USERS[1], port).start('ibv_devinfo', '-v')
    second.wait(PATIENCE_S)
    wanted = f'is held by user {USERS[0]}', 'WEFT_ROCE_PORT', f'UDP port {port} at '
    faults = [f'not said: {text}' for text in wanted if text not in second.output()]
    faults += ['it was opened'] if second.poll() == 0 else []
    server.stop()
    return faults + second.output().split('\n') if faults else []


def beside(port):
    """Both at once, each on a port of his own."""
    programs = []
    for uid, own in zip(USERS, (port, port + 1)):
        programs += User(uid, own).pingpong(judge.free_port(), COUNT)
    return faults_of(*programs)


def main():
    if os.geteuid() != 0:
        judge.skip_all('only root is two users')
    if not judge.nobody_may_run(judge.WEFT):
        judge.skip_all(f'other users may not enter the folder of {judge.WEFT}')
    if not judge.Local.has('ibv_ud_pingpong'):
        judge.skip_all('no program ibv_ud_pingpong')
    tap = judge.Tap()
    tap.report('the second user is told who has the port, and what to do',
               refused(judge.free_port()))
    tap.report('two users run at one address, each on a port of his own',
               beside(judge.free_port()))
    return tap.finish()


if __name__ == '__main__':
    sys.exit(main())
