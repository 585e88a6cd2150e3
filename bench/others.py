"""What others had of the processors meanwhile: figures of a busy machine are of its neighbours.

Time that the kernel spends on interrupts is left out of both sides: packets over loopback are taken
there, and nobody's process is charged for them.
"""

import os
import pathlib
import resource
import time

LIMIT = 0.1  # of a processor: more, and the figures are not to be trusted
STAT = pathlib.Path('/proc/stat')
# The columns of its first line: user, nice, system, idle, iowait, irq, softirq, steal.
BUSY = 0, 1, 2, 7


def of_all():
    """Seconds of processors that were busy since the machine started."""
    columns = STAT.read_text().split('\n', 1)[0].split()[1:]
    return sum(int(columns[at]) for at in BUSY) / os.sysconf('SC_CLK_TCK')


def of_ours():
    """... with this process, and with what it has run to the end."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Others:
    """From its making on."""

    def __init__(self):
        self.began = time.monotonic(), of_all(), of_ours()

    def share(self):
        """How many processors they had, on the average."""
        elapsed, everybody, ours = (now - then for now, then in zip(
            (time.monotonic(), of_all(), of_ours()), self.began))
        return max(0.0, (everybody - ours) / elapsed) if elapsed > 0 else 0.0
