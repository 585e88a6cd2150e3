#!/usr/bin/env python3
"""Memory that is short in a container and not on the machine, with the kernel of a virtual machine
(vm.py): a device in a control group of version 2 hears of it, by a trigger or, where the kernel
takes none of its user, by the group's events; one in another group does not.

What is short is a group's memory.high, which nothing can be taken back below, as it is full of a
file in memory: who asks for more stands still.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

import vm
from judge import BUILD, WEFT, Tap, skip_all

PROGRAM = BUILD / 'tests/cli/reads_program'
GROUPS = '/sys/fs/cgroup'
HIGH = 48 << 20
NORMAL, QUARTER = 262144, 65536
UP_WITHIN_S, SHORT_WITHIN_S, OVER_WITHIN_S = 100, 100, 100
LIMIT = 300
NOBODY = 65534


class Failed(Exception):
    """What did not come."""


def shell(guest, script):
    return guest.run(['sh', '-c', script])


def as_user(user):
    return f'/usr/bin/setpriv --reuid={user} --regid={user} --clear-groups'


@contextlib.contextmanager
def group(guest, name):
    """A control group with a limit, and one in it without: where programs are."""
    said = shell(guest, f'cd {GROUPS} && mkdir -p {name}/inner && '
                        f'echo {HIGH} >{name}/memory.high')
    if said:
        raise Failed(f'no group could be made: {said}')
    try:
        yield f'{GROUPS}/{name}/inner'
    finally:
        shell(guest, f'cd {GROUPS}; rmdir {name}/inner {name}')


@contextlib.contextmanager
def program(guest, place, user):
    """A program with a device, in a group; yields what `weft reads` tells of it."""
    before = {one['pid'] for one in json.loads(guest.run([WEFT, 'reads', '-j']) or '[]')}
    process = guest.start(
        ['sh', '-c', f'echo $$ >{place}/cgroup.procs; (echo query; exec sleep {LIMIT}) | '
                     f'exec {as_user(user)} {PROGRAM}'], {}, LIMIT)

    def reads():
        told = [one for one in json.loads(guest.run([WEFT, 'reads', '-j']) or '[]')
                if one['program'].startswith('reads_program') and one['pid'] not in before]
        return told[0] if told else None

    try:
        wait_for(lambda: reads() is not None, UP_WITHIN_S, 'device')
        pid = reads()['pid']
        yield lambda: json.loads(guest.run([WEFT, 'reads', '-j', str(pid)]))[0]['reads']
    finally:
        shell(guest, f'for pid in $(cat {place}/cgroup.procs); do kill -9 $pid; done')
        process.stop()


def wait_for(holds, seconds, what):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Failed(f'no {what} within {seconds} s')
        time.sleep(0.2)


def await_allotment(reads, wanted, seconds):
    wait_for(lambda: reads()['allotment'] == wanted, seconds, f'allotment of {wanted}: {reads()}')


@contextlib.contextmanager
def shortage(guest, place):
    """Somebody in the group asks for more than there is, without an end."""
    full = guest.start(['sh', '-c', f'echo $$ >{place}/cgroup.procs; '
                                    f'exec dd if=/dev/zero of=/tmp/full bs=64k count=8192'],
                       {}, LIMIT)
    try:
        yield
    finally:
        full.stop()
        shell(guest, 'rm -f /tmp/full')


def shrinks_and_grows(guest, user):
    with group(guest, 'limited') as place, group(guest, 'other') as elsewhere:
        with program(guest, place, user) as inside, program(guest, elsewhere, user) as beside:
            with shortage(guest, place):
                await_allotment(inside, QUARTER, SHORT_WITHIN_S)
            await_allotment(inside, NORMAL, OVER_WITHIN_S)
            changes = inside()['allotment_changes']['memory']
            if changes != 2:
                raise Failed(f'{changes} changes for one shortage')
            if beside()['allotment_changes'].get('memory', 0):
                raise Failed(f'who is in another group hears of it: {beside()}')


def a_shortage_of_the_group_takes_the_allotment_to_a_quarter_until_it_is_over(guest):
    shrinks_and_grows(guest, 0)


def it_does_where_the_kernel_takes_no_trigger_of_the_user(guest):
    shrinks_and_grows(guest, NOBODY)


def doctor_says_what_the_kernel_refuses(guest):
    with group(guest, 'limited') as place:
        for user, said in ((0, f'tells when memory of {GROUPS}/limited is short'),
                           (NOBODY, 'takes no trigger: Permission denied; that it meets its')):
            findings = shell(guest, f'echo $$ >{place}/cgroup.procs; '
                                    f'{as_user(user)} {WEFT} doctor --json; '
                                    f'echo $$ >{GROUPS}/cgroup.procs')
            seen = {one['name']: one['seen'] for one in json.loads(findings)['checks']}
            if said not in seen['pressure']:
                raise Failed(seen['pressure'])


CASES = [a_shortage_of_the_group_takes_the_allotment_to_a_quarter_until_it_is_over,
         it_does_where_the_kernel_takes_no_trigger_of_the_user,
         doctor_says_what_the_kernel_refuses]


def main():
    if not os.access(WEFT, os.X_OK) or not os.access(PROGRAM, os.X_OK):
        skip_all(f'{WEFT} and {PROGRAM} are not built')
    vm.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-memory.') as name:
        guest = vm.Guest(pathlib.Path(name), [WEFT, PROGRAM, 'setpriv'])
        said = shell(guest, f'mount -t cgroup2 none {GROUPS} && '
                            f'echo +memory >{GROUPS}/cgroup.subtree_control')
        if said:
            skip_all(f'the guest has no cgroups of version 2: {said}')
        for case in CASES:
            try:
                case(guest)
                tap.report(case.__name__.replace('_', ' '), [])
            except (Failed, OSError, ValueError) as fault:
                tap.report(case.__name__.replace('_', ' '), str(fault).splitlines())
        guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
