"""Runs programs, one after the other, by orders on its input, a line of JSON each: as process 1 of
namespaces of its own, so that a mutant costs what its program does and no namespace.

All that a program left behind ends before the next begins. It has so much time of the processors,
and its processes may be so many and stand still for so long; a time in which nobody runs, since
the machine is another's, is none.
"""

import json
import math
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import time

from .choice import OF_NAMESPACE
from .run import bounded

LOOK_S = 0.02    # how often it is looked whether a program stands still
COUNTED_S = 0.1  # of a time between two looks, at most
STRETCH = 4      # who does something has so many times the time of who stands still
CROWD = 300      # processes: a program that begins itself again and again is ended


def ticks():
    """What all processes here have run."""
    total = 0
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = stat.read_text().rsplit(')', 1)[1].split()
        except OSError:
            continue
        if stat.parent.name != str(os.getpid()):
            total += int(fields[11]) + int(fields[12])
    return total


def is_crowded():
    """Where others' processes are not seen."""
    return os.getpid() == 1 and sum(name.isdigit() for name in os.listdir('/proc')) > CROWD


class Waiting:
    """For the end of a process."""

    def __init__(self, pid, still_s):
        self.pid = pid
        self.still_s = still_s
        self.waited_s = self.stood_s = 0
        self.looked = time.monotonic()
        self.ticks = ticks()

    def end(self):
        """Its status, or None if it has stood still for too long."""
        while True:
            signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
            status = reaped().get(self.pid)
            if status is not None:
                return status
            if is_crowded():
                return -signal.SIGKILL
            if self.is_over():
                return None

    def is_over(self):
        now = time.monotonic()
        passed = min(now - self.looked, COUNTED_S)
        self.looked = now
        self.waited_s += passed
        self.stood_s += passed
        if self.stood_s > self.still_s:
            before, self.ticks = self.ticks, ticks()
            if before == self.ticks or self.waited_s > STRETCH * self.still_s:
                return True
            self.stood_s = 0
        return False


def reaped():
    """{pid: status} of those that have ended."""
    ended = {}
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    except ChildProcessError:
        pass
    return ended


def end_all(pid):
    """No process is left but this one."""
    try:
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass


def begin(order, scratch):
    """The process that is the program."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.chdir(order['folder'])
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, order['cpu_s'])  # of this process, through execve
        of_each_s = math.ceil(order['cpu_s']) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (of_each_s, of_each_s))
        environment = {**os.environ, **order['environment'], 'TMPDIR': scratch}
        os.execve(order['command'][0], order['command'], environment)
    finally:
        os._exit(127)


def children_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def how_it_ends(order):
    """How, and the time that was waited for it."""
    if os.getpid() == 1 and os.path.exists(OF_NAMESPACE):
        pathlib.Path(OF_NAMESPACE).write_text(order['environment']['MUTANT'])
    scratch = tempfile.mkdtemp(prefix='m-')
    os.chmod(scratch, 0o755)  # some tests go on as another user
    pid = begin(order, scratch)
    waiting = Waiting(pid, order['still_s'])
    status = waiting.end()
    end_all(pid)
    shutil.rmtree(scratch, ignore_errors=True)
    if status is None or status == -signal.SIGPROF:
        return 'time', waiting.waited_s
    return {0: 'passed', 77: 'skipped'}.get(status, 'failed'), waiting.waited_s


def main():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    bounded()
    for line in sys.stdin:
        began, spent_s = time.monotonic(), children_s()
        how, waited_s = how_it_ends(json.loads(line))
        print(json.dumps({'how': how, 'seconds': time.monotonic() - began, 'waited_s': waited_s,
                          'cpu_s': children_s() - spent_s}), flush=True)


if __name__ == '__main__':
    main()
