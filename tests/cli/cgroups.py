"""Memory cgroups of a test's own, of version 1 or 2."""

import contextlib
import os
import pathlib
import time

from cases import Skip


def limit_of(group, limit):
    """The file that limits a group's memory: of cgroup version 1, or 2."""
    return next((group / name for name in ('memory.limit_in_bytes', limit)
                 if (group / name).exists()), None)


def remove(group):
    """Its last process may still be on its way out."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)


@contextlib.contextmanager
def memory_group(limit_len, version_2='memory.high'):
    """A cgroup that may hold so many octets; `version_2` is the limit's name there."""
    for parent in map(pathlib.Path, ('/sys/fs/cgroup/memory', '/sys/fs/cgroup')):
        group = parent / f'weft-test.{os.getpid()}'
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            limit = limit_of(group, version_2)
            if limit:
                limit.write_text(str(limit_len))
                yield group
                return
        finally:
            remove(group)
    raise Skip('no memory cgroup may be made here')
