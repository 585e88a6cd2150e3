#!/usr/bin/env python3
"""A volume in Ceph by weft's NBD beside qemu-nbd over librbd, and beside fio's own librbd engine,
which has neither a server nor a process between: on a cluster of one OSD in memory, without a cache
anywhere.
"""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

import node
import results
from results import BUILD

sys.path.insert(0, str(pathlib.Path(os.environ['WEFT_SOURCE_DIR'], 'tests', 'node')))
PATTERNS = (('randread', '4k', 1), ('randread', '4k', 32), ('randwrite', '4k', 1),
            ('randwrite', '4k', 32), ('seqread', '128k', 8), ('seqwrite', '128k', 8))


def qemu_nbd(place, ceph):
    socket = f'{place}/qemu'
    return node.server(['qemu-nbd', '-f', 'raw', '-k', socket, '-t', '--cache=none',
                        f'rbd:rbd/bench:conf={ceph.conf}'], socket), node.nbd(socket)


def librbd(ceph):
    return contextlib.nullcontext(), ['--ioengine=rbd', '--pool=rbd', '--rbdname=bench',
                                      '--clientname=admin', '--invalidate=0']


def compare_all(place, ceph):
    ours = lambda: node.weft(place, ceph.uri('bench')), 'weft'
    for rw, block, depth in PATTERNS:
        for theirs in ((lambda: qemu_nbd(place, ceph), 'qemu-nbd over librbd'),
                       (lambda: librbd(ceph), 'fio on librbd')):
            node.compare('node.rbd', f'{rw} {block} depth={depth} vs {theirs[1]}', ours, theirs, rw,
                         block, depth)


def missing_here(programs):
    if not (BUILD / 'lib' / 'weft-rbd.so').exists():
        yield 'librbd-dev when weft was built'
    yield from (name for name in programs if not shutil.which(name))


def main():
    import ceph as clusters  # of the tests
    missing = ', '.join(missing_here(('fio', 'qemu-nbd', *clusters.PROGRAMS)))
    if missing:
        print(f'SKIP: no {missing} here (tools/packages.sh ceph test)', file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix='weft-bench.', dir='.') as place, \
            clusters.Cluster('memstore', 2 << 30) as ceph:
        os.environ['CEPH_CONF'] = str(ceph.conf)
        with open(f'{ceph.conf}', 'a', encoding='ascii') as conf:
            conf.write('[client]\nrbd_cache = false\n')
        data = pathlib.Path(place, 'data')
        data.write_bytes(os.urandom(node.SIZE))
        ceph.rbd('import', '--no-progress', data, 'rbd/bench')
        compare_all(os.path.abspath(place), ceph)
    results.note('one OSD in memory, on the machine that measures')


if __name__ == '__main__':
    main()
