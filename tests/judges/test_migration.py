#!/usr/bin/env python3
"""QEMU moves a running machine over RDMA, on both devices: its memory, which it goes on writing
to while it moves, is compared octet by octet; a move that is broken off leaves it running."""

import contextlib
import json
import pathlib
import random
import socket
import tempfile
import time

import judge

QEMU = 'qemu-system-x86_64'
LIMIT = 90
MEMORY = 64 << 20
LOADED_AT, LOADED_LEN = 16 << 20, 8 << 20

# For ever: each segment of the first MiB is filled with its number.
BOOT = bytes.fromhex('fa b80010'       # cli; mov ax, 0x1000
                     '8ec0 31ff b90080'  # next: mov es, ax; xor di, di; mov cx, 0x8000
                     'f3ab 40 ebf4')    # rep stosw; inc ax; jmp next


class Machine:
    """A QEMU and the line on which it takes orders."""

    def __init__(self, side, folder, name, env, *options):
        self.path = folder / f'{name}.sock'
        self.memory = folder / f'{name}.memory'
        boot, loaded = folder / 'boot', folder / f'loaded.{name}'
        self.process = side.start(
            [QEMU, '-machine', 'q35,accel=tcg', '-m', f'{MEMORY >> 20}', '-nodefaults', '-display',
             'none', '-drive', f'file={boot},format=raw,if=ide', '-snapshot', '-device',
             f'loader,file={loaded},addr={LOADED_AT:#x},force-raw=on', '-qmp',
             f'unix:{self.path},server=on,wait=off', *options], env, LIMIT)
        self.line = self._connect().makefile('rw')
        self.line.readline()
        self.order('qmp_capabilities')

    def _connect(self):
        end = time.monotonic() + LIMIT
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(str(self.path))
                line.settimeout(LIMIT)
                return line
            except OSError:
                line.close()
                assert self.process.poll() is None, self.process.output()
                assert time.monotonic() < end, 'QEMU does not listen'
                time.sleep(0.05)

    def order(self, what, **arguments):
        self.line.write(json.dumps({'execute': what, 'arguments': arguments}) + '\n')
        self.line.flush()
        while True:
            answer = json.loads(self.line.readline())
            assert 'error' not in answer, f'{what}: {answer}'
            if 'return' in answer:
                return answer['return']

    def state(self):
        return self.order('query-status')['status']

    def octets(self):
        self.order('pmemsave', val=0, size=MEMORY, filename=str(self.memory))
        return self.memory.read_bytes()

    def stop(self):
        self.process.stop()


def move(source, target, port, pin):
    """Begins it; the target waits, and stands still when it has the machine."""
    if pin:
        for machine in source, target:
            machine.order('migrate-set-capabilities',
                          capabilities=[{'capability': 'rdma-pin-all', 'state': True}])
    target.order('migrate-incoming', uri=f'rdma:127.0.0.1:{port}')
    source.order('migrate', uri=f'rdma:127.0.0.1:{port}')


def end_of_move(source):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        said = source.order('query-migrate').get('status')
        if said in ('completed', 'failed', 'cancelled'):
            return said
        time.sleep(0.05)
    return 'under way'


def end_of_arrival(target):
    """The source has completed when its last octet is there, which the target then takes in."""
    end = time.monotonic() + LIMIT
    while target.state() == 'inmigrate' and time.monotonic() < end:
        time.sleep(0.02)
    return target.state()


def the_machine_moves(source, target, port, pin):
    move(source, target, port, pin)
    said = end_of_move(source)
    arrived = end_of_arrival(target) if said == 'completed' else 'not asked'
    if arrived != 'paused':
        return [f'the move is {said}, the target {arrived}',
                *source.process.output().splitlines()[-5:]]
    here, there = source.octets(), target.octets()
    wrong = sum(here[at:at + 4096] != there[at:at + 4096] for at in range(0, MEMORY, 4096))
    return [f'{wrong} pages differ'] if wrong else []


def the_machine_runs_on_when_the_target_is_killed(source, target, port, pin):
    source.order('migrate-set-parameters', **{'max-bandwidth': 1 << 20})  # long enough to be broken
    move(source, target, port, pin)
    while source.order('query-migrate').get('status') in (None, 'none', 'setup'):
        time.sleep(0.02)
    target.process.process.kill()
    said = end_of_move(source)
    return [] if (said, source.state()) == ('failed', 'running') else [f'{said}, {source.state()}']


CASES = {
    'a running machine moves': (the_machine_moves, False),
    'a running machine moves, all of its memory registered': (the_machine_moves, True),
    'the target is killed, and the machine runs on':
        (the_machine_runs_on_when_the_target_is_killed, False),
}


def faults_of(side, wire, case, pin):
    env = {'WEFT_WIRE': wire, 'WEFT_ROCE_PORT': str(judge.free_port())}
    with tempfile.TemporaryDirectory(dir=side.scratch) as name, contextlib.ExitStack() as started:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        (folder / 'boot').write_bytes(BOOT + bytes(510 - len(BOOT)) + b'\x55\xaa' + bytes(1 << 16))
        machines = []
        for role, options in ('source', ()), ('target', ('-S', '-incoming', 'defer')):
            # Each has other octets there at first.
            (folder / f'loaded.{role}').write_bytes(random.Random(role).randbytes(LOADED_LEN))
            machines.append(Machine(side, folder, role, env, *options))
            started.callback(machines[-1].stop)
        return case(*machines, judge.free_port(), pin)


def main():
    options = judge.argument_parser(__doc__).parse_args()
    tap = judge.Tap()
    if not judge.Local.has(QEMU):
        judge.skip_all(f'no {QEMU}')
    with judge.weft_side(link=options.link) as side:
        for wire in 'iwarp', 'roce':
            for name, (case, pin) in CASES.items():
                if options.only in f'{wire}: {name}':
                    tap.report(f'{wire}: {name}', faults_of(side, wire, case, pin))
    return tap.finish()


if __name__ == '__main__':
    raise SystemExit(main())
