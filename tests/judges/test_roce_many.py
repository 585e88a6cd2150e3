#!/usr/bin/env python3
"""Eight processes on the RoCE device at once, of one user and of two: who is killed in the middle
takes nobody along, and whoever comes next has its slot, the top octet of queue pairs' numbers."""

import json
import os
import re
import subprocess
import sys
import time

import judge

PAIRS = 4
MESSAGES = 10000, 100000, 1000000  # the more, where fewer have come before one was killed
UNDER_WAY = 100  # packets
PATIENCE_S = 90


class User(judge.Local):
    """Programs of one user, or of whoever runs judges, with a port of RoCE."""

    def __init__(self, roce_port, uid=None):
        super().__init__('127.0.0.1', [judge.WEFT, 'run', '--wire=roce',
                                       f'--roce-port={roce_port}'])
        if uid is not None:
            self.drop = ['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups']
            os.chown(self.scratch, uid, uid)


class Pair:
    """A server and a client that send each other messages over a reliable connection; the server
    compares what it has got."""

    def __init__(self, user, messages):
        self.user = user
        self.messages = messages
        port = judge.free_port()
        words = ['ibv_rc_pingpong', '-c', '-e', '-g', '0', '-p', str(port), '-n', str(messages)]
        self.server = user.start(words, {}, PATIENCE_S)
        wait_until(lambda: user.listens(port) or self.server.poll() is not None)
        self.client = user.start([*words, user.addr], {}, PATIENCE_S)
        self.both = self.server, self.client

    def is_under_way(self):
        return all(told(process)['packets']['received'] > UNDER_WAY for process in self.both)

    def faults(self):
        return [fault for process in self.both for fault in self.faults_of(process)]

    def faults_of(self, process):
        status, said = process.wait(PATIENCE_S), process.output()
        if status == 0 and f'{self.messages} iters in' in said and 'invalid data' not in said:
            return []
        return [f'one that was left alone ended with {status}', *said.splitlines()[-5:]]

    def has_ended(self):
        return any(process.poll() is not None for process in self.both)


def wait_until(holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def told(process):
    """What `weft stat` says of the process's device; nothing of one that is not there yet."""
    said = subprocess.run([judge.WEFT, 'stat', '-j', str(process.process.pid)],
                          capture_output=True, text=True).stdout
    devices = json.loads(said) if said.strip() else []
    return devices[0]['weft_roce0'] if devices else {'packets': {'received': 0}}


def slot_of(process):
    said = subprocess.run([judge.WEFT, 'stat', str(process.process.pid)], capture_output=True,
                          text=True).stdout
    number = re.search(r'^ +queue pair (\d+) ', said, re.M)
    return int(number[1]) >> 16 if number else None


def kill_one_of(pairs):
    """The faults of all that follows; None if some had ended before.

    Nothing is asked of the victim's peer: if it had sent all and waits for an answer, nobody tells
    it that none will come.
    """
    wait_until(lambda: all(pair.is_under_way() or pair.has_ended() for pair in pairs))
    victim = pairs[0]
    slot = slot_of(victim.server)
    # Who has sent all lets go of its queue pair a while before it is gone.
    if slot is None or any(pair.has_ended() for pair in pairs):
        failed = [pair for pair in pairs if pair.has_ended() and pair.faults()]
        return failed[0].faults() if failed else None
    victim.server.process.kill()
    victim.server.wait(PATIENCE_S)
    next_one = Pair(victim.user, victim.messages)
    pairs.append(next_one)
    wait_until(lambda: next_one.is_under_way() or next_one.has_ended())
    slots = [slot_of(process) for process in next_one.both]
    faults = [] if slot in slots else [f'the slot was {slot}, those of the next are {slots}']
    return faults + [fault for pair in pairs[1:] for fault in pair.faults()]


def run_once(users, messages):
    pairs = []
    try:
        pairs += [Pair(users[i % len(users)], messages) for i in range(PAIRS)]
        return kill_one_of(pairs)
    finally:
        for pair in pairs:
            for process in pair.both:
                process.stop()


def run(tap, name, users):
    faults = None
    for messages in MESSAGES:
        faults = run_once(users, messages) if faults is None else faults
    tap.report(name, ['all had ended before one was killed'] if faults is None else faults)
    for user in users:
        user.__exit__()


def why_not_two_users():
    if os.geteuid() != 0:
        return 'only root is two users'
    return '' if judge.nobody_may_run(judge.WEFT) else f'others may not enter {judge.BUILD}'


def main():
    if not judge.Local.has('ibv_rc_pingpong'):
        judge.skip_all('no program ibv_rc_pingpong')
    tap = judge.Tap()
    run(tap, 'eight processes of one user, one of them killed', [User(judge.free_port())])
    two = 'eight processes of two users, one of them killed'
    if why_not_two_users():
        tap.skip(two, why_not_two_users())
    else:
        port = judge.free_port()
        run(tap, two, [User(port, judge.NOBODY), User(port + 1, judge.NOBODY - 1)])
    return tap.finish()


if __name__ == '__main__':
    sys.exit(main())
