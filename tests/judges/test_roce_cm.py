#!/usr/bin/env python3
"""rdma_cm on the RoCE device, judged by programs that know nothing of it: each connects two
processes of this host, at an address of its own. Datagrams take that wire by themselves,
connections where it is the only one."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from judge import own_address

BUILD = pathlib.Path(os.environ.get('WEFT_BUILD_DIR', 'build'))
PATIENCE_S = 30


def udaddy(addr, *options):
    return (('both', ['udaddy', '-b', addr, *options], ['udaddy', '-s', addr, *options]),
            r'return status 0')


def ucmatose(addr, *options):
    return (('roce', ['ucmatose', '-b', addr, *options], ['ucmatose', '-s', addr, *options]),
            r'return status 0')


def rping(addr, *options):
    words = ['rping', '-a', addr, '-C', '20', '-V', *options]
    return ('roce', [*words, '-s'], [*words, '-c', '-v']), r'rdma-ping-19'


def start(wire, words):
    return subprocess.Popen([BUILD / 'weft', 'run', f'--wire={wire}', *words], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def client_says(wire, words):
    client = start(wire, words)
    try:
        return client.communicate(timeout=PATIENCE_S)[0], client.returncode
    except subprocess.TimeoutExpired:
        client.kill()
        return client.communicate()[0], 'no end'


def run(wire, server_words, client_words):
    """The client is refused until the server listens, and tries again."""
    server = start(wire, server_words)
    end = time.monotonic() + PATIENCE_S
    said, status = client_says(wire, client_words)
    while status != 0 and server.poll() is None and time.monotonic() < end:
        said, status = client_says(wire, client_words)
    try:
        server.communicate(timeout=PATIENCE_S if status == 0 else 1)
    except subprocess.TimeoutExpired:
        server.kill()
        server.communicate()
    return said, status, server.returncode


def main():
    addr = own_address()
    if addr is None:
        print('SKIP: this host has no address of its own')
        return 77
    cases = {
        'udaddy': udaddy(addr),
        'udaddy, eight at a time': udaddy(addr, '-c', '8', '-C', '20'),
        'ucmatose': ucmatose(addr),
        'ucmatose, many connections': ucmatose(addr, '-c', '20'),
        'rping': rping(addr),
        'rping, 65535 octets': rping(addr, '-S', '65535'),
        'rping, queue pairs of its own': rping(addr, '-q'),
    }
    # What the device listens at and sends to are addresses of its own; this one stands for them.
    cases['udaddy at 127.0.0.1'] = udaddy('127.0.0.1')
    cases['rping at 127.0.0.1'] = rping('127.0.0.1')
    missing = [name for name in ('udaddy', 'ucmatose', 'rping') if shutil.which(name) is None]
    if missing:
        print(f'SKIP: no program {missing[0]}')
        return 77
    failed = 0
    print(f'1..{len(cases)}')
    for number, (name, (words, wanted)) in enumerate(cases.items(), 1):
        said, status, server_status = run(*words)
        if 'is held by user' in said:
            print(f'ok {number} - {name} # SKIP: another user has the port of RoCE')
            continue
        good = status == 0 and server_status == 0 and re.search(wanted, said)
        failed += not good
        print(f'{"ok" if good else "not ok"} {number} - {name}')
        if not good:
            print(f'# client: {status}, server: {server_status}\n' + said)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
