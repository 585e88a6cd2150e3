#!/usr/bin/env python3
"""The functions that weft run calls unsupported are those that answer EOPNOTSUPP, and no others."""

import ctypes
import errno
import re

from cases import BUILD, SOURCE, case, main

NAMED = re.findall(r'"(ibv_\w+)"', (SOURCE / 'cli/unsupported.c').read_text())


def bodies(source):
    """(name, body) of each function of a file."""
    return re.findall(r'^[\w][^\n;]*?\b\**(\w+)\([^;{]*\)\n\{\n(.*?)^\}', source.read_text(),
                      re.M | re.S)


@case
def those_that_only_refuse_are_named():
    refusing = [name for name, body in bodies(SOURCE / 'verbs/absent.c') if 'EOPNOTSUPP' in body]
    assert len(refusing) > 10, refusing
    assert sorted(refusing) == sorted(NAMED), f'differ in {set(refusing) ^ set(NAMED)}'


@case
def those_that_are_named_refuse():
    library = ctypes.CDLL(str(BUILD / 'lib/libibverbs.so.1'), use_errno=True)
    for name in NAMED:
        ctypes.set_errno(0)
        getattr(library, name)(*[0] * 6)
        assert ctypes.get_errno() == errno.EOPNOTSUPP, f'{name}: errno {ctypes.get_errno()}'


main()
