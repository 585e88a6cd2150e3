#!/usr/bin/env python3
"""Memory pressure as the kernel tells it: a real shortage, made in a memory cgroup of our own."""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

from cases import BUILD, case, main, weft
from cgroups import memory_group

LIMIT_LEN, FILE_LEN = 24 << 20, 96 << 20
SHORT_WITHIN_S, OVER_WITHIN_S = 40, 60

# Reads a file again and again that has no room in the group: every page has to come back. It writes
# the file too, since pages belong to the group that brought them in.
STARVING = '''
import mmap, os, sys, time
open(sys.argv[1], "w").write(str(os.getpid()))
with open(sys.argv[2], "wb") as file:
    for _ in range(int(sys.argv[3]) >> 20):
        file.write(os.urandom(1 << 20))
with open(sys.argv[2], "rb") as file:
    octets = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    end = time.monotonic() + float(sys.argv[4])
    while time.monotonic() < end:
        for at in range(0, len(octets), 4096):
            octets[at]
'''


@contextlib.contextmanager
def shortage():
    """Somebody in a cgroup stands still for want of memory."""
    with memory_group(LIMIT_LEN) as group, tempfile.NamedTemporaryFile() as file:
        starving = subprocess.Popen([sys.executable, '-c', STARVING, group / 'cgroup.procs',
                                     file.name, str(FILE_LEN), str(SHORT_WITHIN_S)])
        try:
            yield
        finally:
            starving.kill()
            starving.wait()


@contextlib.contextmanager
def program(switch):
    """A program with weft's device; yields a function that gives what `weft reads` says of it."""
    running = subprocess.Popen([BUILD / 'tests/cli/reads_program'], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, 'WEFT_READ_PRESSURE': switch})
    running.stdin.write('query\n')
    running.stdin.flush()
    running.stdout.readline()
    try:
        yield lambda: json.loads(weft('reads', '-j', running.pid).stdout)[0]['reads']
    finally:
        running.stdin.close()
        running.wait(20)


def await_allotment(reads, wanted, seconds):
    end = time.monotonic() + seconds
    while reads()['allotment'] != wanted:
        assert time.monotonic() < end, f'after {seconds} s: {reads()}'
        time.sleep(0.2)


@contextlib.contextmanager
def kernels_word():
    """A function that waits for what weft waits for too; where the kernel is silent, so is weft."""
    try:
        fd = os.open('/proc/pressure/memory', os.O_RDWR | os.O_NONBLOCK)
        with os.fdopen(fd, 'wb', buffering=0) as trigger:
            trigger.write(b'some 100000 2000000\0')
            poll = select.poll()
            poll.register(trigger, select.POLLPRI)
            yield lambda: poll.poll(1000 * SHORT_WITHIN_S)
    except OSError as why:
        raise Skip(f'the kernel tells no memory pressure: {why.strerror}') from None


@case
def a_shortage_takes_the_allotment_to_a_quarter_until_it_is_over():
    with program('on') as reads, program('off') as deaf, kernels_word() as is_told:
        with shortage():
            if not is_told():
                raise Skip(f'the kernel told of no shortage within {SHORT_WITHIN_S} s')
            await_allotment(reads, 65536, SHORT_WITHIN_S)
        await_allotment(reads, 262144, OVER_WITHIN_S)
        assert reads()['allotment_changes']['memory'] >= 2, reads()
        assert deaf()['allotment_changes'].get('memory', 0) == 0, deaf()


if __name__ == '__main__':
    main()
