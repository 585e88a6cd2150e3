#!/usr/bin/env python3
"""The ata and sg drivers on a disk of a virtual machine (vm.py), behind an AHCI controller.

The drivers and their node run in the guest; what tests/node/test_ddm.c asks of every driver that
keeps data is asked there, and NBD clients of this machine reach the node over the guest's network.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import vm
from judge import BUILD, WEFT, Tap, skip_all

PROGRAM = BUILD / 'tests/test_node_ddm'
SIZE = 32 << 20
PORT = 10809
LIMIT = 120
NODES = [['ata:/dev/sda'], ['sg:/dev/sg0']]


class Failed(Exception):
    """What a program said that ended badly."""


def run(words, limit=LIMIT):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=limit)
    if done.returncode:
        raise Failed(f'{words}: status {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout


def run_there(guest, words, limit=LIMIT):
    process = guest.start(words, {}, limit)
    status = process.wait(limit)
    if status:
        raise Failed(f'{words}: status {status}\n{process.output()}\n{guest.console_text()}')
    return process.output()


@contextlib.contextmanager
def served(guest, *words):
    """A node in the guest; gives its first volume's URI."""
    node = guest.start([WEFT, 'serve', f'--nbd={guest.addr}:{PORT}', *words], {}, LIMIT)
    deadline = time.monotonic() + LIMIT
    try:
        while not guest.listens(PORT):
            if node.poll() is not None or time.monotonic() > deadline:
                raise Failed(f'weft serve {words}: {node.output()}')
            time.sleep(0.1)
        yield f'nbd://{guest.addr}:{PORT}'
    finally:
        node.stop()


# --- the cases, each for each driver ------------------------------------------------------------


def the_contract_holds(guest, uri, place):
    run_there(guest, [PROGRAM, uri])


def clients_do_as_with_a_file(guest, uri, place):
    data, back = place / 'data', place / 'back'
    data.write_bytes(os.urandom(1 << 20) * 4 + bytes(SIZE - (4 << 20)))
    with served(guest, f'disk={uri}') as there:
        run(['nbdcopy', data, there])
        run(['nbdcopy', there, back])
        run(['cmp', data, back])
        run(['qemu-io', '-f', 'raw', '-c', 'write -P 7 0 128k', '-c', 'write -z 4k 64k',
             '-c', 'write -z -u 1M 64k', '-c', 'discard 2M 24M', '-c', 'write -f -P 9 3M 512',
             '-c', 'flush', '-c', 'read -P 0 8k 4k', '-c', 'read -P 9 3M 512', there])


def fio_verifies_while_rtas_are_killed(guest, uri, place):
    with served(guest, f'disk={uri}') as there:
        load = subprocess.Popen(
            ['fio', '--name=judge', '--ioengine=nbd', f'--uri={there}', '--rw=randwrite',
             '--bs=4k-64k', '--iodepth=16', '--size=16M', '--io_size=100G', '--time_based',
             '--runtime=5', '--verify=crc32c', '--verify_fatal=1', '--verify_backlog=64',
             '--verify_state_save=0', '--randrepeat=0', '--minimal'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline, kills = time.monotonic() + LIMIT, 0
        with load:
            while load.poll() is None and time.monotonic() < deadline:
                time.sleep(1)
                kills += len(guest.run(['sh', '-c', KILL]).split())
            load.kill()
            said = load.stderr.read().decode()
    if load.returncode or kills < 1:
        raise Failed(f'fio: status {load.returncode}, {kills} RTAs killed\n{said}')


KILL = """for pid in $(pidof weft); do
    rtas=$(cat /proc/$pid/task/$pid/children)
    [ -z "$rtas" ] || { kill -9 $rtas; echo $rtas; }
done"""


CASES = [the_contract_holds, clients_do_as_with_a_file, fio_verifies_while_rtas_are_killed]


def main():
    missing = [name for name in ('nbdcopy', 'qemu-io', 'fio') if not shutil.which(name)]
    if missing:
        skip_all(f'no {", no ".join(missing)}')
    if not os.access(WEFT, os.X_OK) or not os.access(PROGRAM, os.X_OK):
        skip_all(f'{WEFT} and {PROGRAM} are not built')
    vm.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-disk.') as name:
        place = pathlib.Path(name)
        with (place / 'disk').open('wb') as disk:
            disk.truncate(SIZE)
        guest = vm.Guest(place, [WEFT, PROGRAM], extras=['ata'], disk=place / 'disk')
        for words in NODES:
            for case in CASES:
                label = f'{words[0].partition(":")[0]}: {case.__name__.replace("_", " ")}'
                try:
                    case(guest, words[0], place)
                    tap.report(label, [])
                except (Failed, OSError, subprocess.SubprocessError) as fault:
                    tap.report(label, str(fault).splitlines())
        guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
