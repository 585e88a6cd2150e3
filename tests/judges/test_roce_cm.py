#!/usr/bin/env python3
"""rdma_cm on the RoCE device, judged by programs that know nothing of it: each connects two
processes of this host, at an address of its own. Datagrams take that wire by themselves,
connections where it is the only one."""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing

from judge import own_address

BUILD = pathlib.Path(os.environ.get('WEFT_BUILD_DIR', 'build'))
PATIENCE_S = 30
PORT = 20000 + os.getpid() % 20000  # of RoCE; no other user has it


class Case(typing.NamedTuple):
    """Two programs: what the client has to say, and when the server has been served."""
    server: list
    client: list
    wanted: str
    wires: tuple = ('roce',)   # of the clients, one after the other
    server_wire: str = 'roce'
    server_ends: bool = True   # by itself; otherwise when all clients have been served
    is_patient: bool = False   # the client asks until it is answered
    is_repeated: bool = False  # the client knows no server: it is run until that has ended
    copy: tuple = ()           # two files that are to be the same


def udaddy(addr, *options):
    return Case(['udaddy', '-b', addr, *options], ['udaddy', '-s', addr, *options],
                r'return status 0', ('both',), 'both')


def ucmatose(addr, *options):
    return Case(['ucmatose', '-b', addr, *options], ['ucmatose', '-s', addr, *options],
                r'return status 0')


def rping(addr, *options):
    words = ['rping', '-a', addr, '-C', '20', '-V', *options]
    return Case([*words, '-s'], [*words, '-c', '-v'], r'rdma-ping-19')


def rping_of_both_wires(addr):
    words = ['rping', '-a', addr, '-C', '20', '-V']
    return Case([*words, '-s', '-P'], [*words, '-c', '-v'], r'rdma-ping-19',
                ('roce', 'iwarp', 'roce'), 'both', server_ends=False)


def mckey(addr):
    words = ['mckey', '-m', '239.77.11.2', '-b', addr]
    return Case(words, [*words, '-s'], r'return status 0', ('both',), 'both', is_repeated=True)


def udpong(addr, *options):
    """Its server never ends; the client goes on until each of its messages has been answered."""
    words = ['udpong', '-T', 'e']
    return Case([*words, '-b', addr], [*words, '-s', addr, '-S', '1000', '-C', '200', *options],
                r'custom +1000 +400 +', ('both',), 'both', server_ends=False,
                is_patient=True)


def rcopy(addr, folder):
    source, copy = pathlib.Path(folder, 'source'), pathlib.Path(folder, 'copy')
    source.write_bytes(os.urandom(3000000))
    return Case(['rcopy'], ['rcopy', source, f'{addr}:{copy}'], r'3000000 bytes in',
                server_ends=False, copy=(source, copy))


def start(wire, words):
    environment = dict(os.environ, WEFT_ROCE_PORT=str(PORT))
    return subprocess.Popen([BUILD / 'weft', 'run', f'--wire={wire}', *words], text=True,
                            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def client_says(wire, words):
    client = start(wire, words)
    try:
        return client.communicate(timeout=PATIENCE_S)[0], client.returncode
    except subprocess.TimeoutExpired:
        client.kill()
        return client.communicate()[0], 'no end'


def wait_for_listener(server):
    """Who asks a moment too early is refused by one process and heard by the other. The name of
    what is served is an abstract Unix socket's (link/datagram/serve.c)."""
    end = time.monotonic() + PATIENCE_S
    name = f'@weft-roce.{os.geteuid()}.{PORT}.serves.'
    while server.poll() is None and time.monotonic() < end:
        if name in pathlib.Path('/proc/net/unix').read_text():
            return
        time.sleep(0.01)


def serve(case, wire, server):
    """A client that knows no server is run until that has ended."""
    end = time.monotonic() + PATIENCE_S
    said, status = client_says(wire, case.client)
    while case.is_repeated and server.poll() is None and time.monotonic() < end:
        said, status = client_says(wire, case.client)
    return said, status


def run(case):
    server = start(case.server_wire, case.server)
    if not case.is_repeated and not case.is_patient:
        wait_for_listener(server)
    for wire in case.wires:
        said, status = serve(case, wire, server)
        if status != 0 or not re.search(case.wanted, said):
            break
    try:
        server.communicate(timeout=PATIENCE_S if status == 0 and case.server_ends else 0)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()
    return said, status, server.returncode


def is_good(case, said, status, server_status):
    return (status == 0 and re.search(case.wanted, said)
            and (server_status == 0 or not case.server_ends)
            and (not case.copy or case.copy[0].read_bytes() == case.copy[1].read_bytes()))


def main():
    addr = own_address()
    if addr is None:
        print('SKIP: this host has no address of its own')
        return 77
    folder = tempfile.mkdtemp(prefix='weft-judge.')
    atexit.register(shutil.rmtree, folder)
    cases = {
        'udaddy': udaddy(addr),
        'udaddy, eight at a time': udaddy(addr, '-c', '8', '-C', '20'),
        'ucmatose': ucmatose(addr),
        'ucmatose, many connections': ucmatose(addr, '-c', '20'),
        'rping': rping(addr),
        'rping, 65535 octets': rping(addr, '-S', '65535'),
        'rping, queue pairs of its own': rping(addr, '-q'),
        'rping, one server of both wires': rping_of_both_wires(addr),
        'cmtime': Case(['cmtime', '-b', addr], ['cmtime', '-s', addr], r'disconnect',
                       server_ends=False),
        'mckey': mckey(addr),
        'udpong': udpong(addr),
        'udpong, asleep': udpong(addr, '-T', 'a'),
        'rstream': Case(['rstream', '-b', addr, '-S', '65536', '-C', '100'],
                        ['rstream', '-s', addr, '-S', '65536', '-C', '100'], r'Gb/sec'),
        'rcopy': rcopy(addr, folder),
    }
    # What the device listens at and sends to are addresses of its own; this one stands for them.
    cases['udaddy at 127.0.0.1'] = udaddy('127.0.0.1')
    cases['rping at 127.0.0.1'] = rping('127.0.0.1')
    missing = [case.server[0] for case in cases.values() if shutil.which(case.server[0]) is None]
    if missing:
        print(f'SKIP: no program {missing[0]}')
        return 77
    failed = 0
    print(f'1..{len(cases)}')
    for number, (name, case) in enumerate(cases.items(), 1):
        said, status, server_status = run(case)
        good = is_good(case, said, status, server_status)
        failed += not good
        print(f'{"ok" if good else "not ok"} {number} - {name}')
        if not good:
            print(f'# client: {status}, server: {server_status}\n' + said)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
