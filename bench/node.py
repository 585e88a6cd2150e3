#!/usr/bin/env python3
"""The storage node beside nbdkit and qemu-nbd on the same file: fio's nbd engine, one client
over a Unix socket; beside raw io_uring on the file; the initiator over RDMA beside that, and weft
attach beside the node's own NBD; and what the RTA's process costs. All of them go through the page
cache alike, which has the file all the time. What a write of 4 KiB costs depends on how the file
was written (docs/storage-measured.md), so they are measured on one written by pages, too. What a
request costs in system calls and context switches, of all the processes of a server (of weft
attach: its target's too; of the initiator: its target's alone), perf counts; of the calls also how
many are left without those by which who looks on gives the processor away (base/lookout.h), which
do nothing where nobody wants it.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket as sockets
import subprocess
import sys
import tempfile
import time

import results
from results import BUILD

PAIRS = results.pairs_wanted(3)
MILLISECONDS = int(float(results.seconds_wanted('0.4')) * 1000)
SIZE = int(os.environ.get('WEFT_BENCH_NODE_MIB', '256')) << 20
PATTERNS = {'randread': '4k', 'randwrite': '4k', 'seqread': '128k', 'seqwrite': '128k'}


def fio_job(engine, rw, block, depth):
    """What fio says of its job's side that was asked for."""
    rw = rw.removeprefix('seq')
    output = subprocess.run(
        ['fio', '--name=bench', f'--rw={rw}', f'--bs={block}', f'--iodepth={depth}',
         f'--size={SIZE}', f'--runtime={MILLISECONDS}ms', '--time_based', '--randrepeat=0',
         '--norandommap', '--invalidate=0', '--output-format=json', *engine],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    job = json.loads(output[output.index('{'):])['jobs'][0]
    return job['write' if 'write' in rw else 'read']


def fio(*words):
    """Requests a second."""
    return fio_job(*words)['iops']


def nbd(socket, name=''):
    return ['--ioengine=nbd', f'--uri=nbd+unix:///{name}?socket={socket}']


@contextlib.contextmanager
def server(words, socket):
    """Gives the processes that serve, here the one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(socket)
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while not os.path.exists(socket):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f'{words[0]} does not serve')
            time.sleep(0.01)
        yield [process.pid]
    finally:
        process.terminate()
        process.wait(20)


def weft(place, volume, rta='each'):
    socket = f'{place}/weft-{rta}'
    return server([BUILD / 'weft', 'serve', '--quiet', f'--rta={rta}', f'--nbd=unix:{socket}',
                   f'volume={volume}'], socket), nbd(socket)


def nbdkit(place, *plugin):
    socket = f'{place}/nbdkit'
    return server(['nbdkit', '-f', '-U', socket, *plugin], socket), nbd(socket)


def qemu_nbd(place, path):
    socket = f'{place}/qemu'
    return server(['qemu-nbd', '-f', 'raw', '-k', socket, '-t', '--aio=io_uring',
                   '--cache=writeback', path], socket), nbd(socket)


@contextlib.contextmanager
def target(path):
    """The file as an NVMe over RDMA volume; gives its URI and the process."""
    with sockets.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen([BUILD / 'weft', 'serve', f'--nvme-rdma=127.0.0.1:{port}',
                                f'volume={path}'], text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=results.environment())
    try:
        uris = (line.strip() for line in process.stdout if line.strip().startswith('nvme+rdma:'))
        uri = next(uris, None)
        if uri is None:
            raise RuntimeError('weft serve --nvme-rdma does not serve')
        yield uri, process.pid
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(20)


@contextlib.contextmanager
def attached(place, path):
    with target(path) as (uri, pid), server([BUILD / 'weft', 'attach', '--quiet',
                                             f'--socket={place}/attach', uri],
                                            f'{place}/attach') as pids:
        yield [pid, *pids]


def initiator(path, rw, block, depth):
    """Requests a second over RDMA."""
    octets = int(block.removesuffix('k')) << 10
    with target(path) as (uri, _):
        return results.measured('bench-nvme', uri, rw, octets, depth,
                                MILLISECONDS / 1000)['requests_per_s']


def compare(bench, case, ours, theirs, rw, block, depth):
    """Both served one after the other in turns; each server runs only while it is measured."""
    def requests_per_s(make):
        context, engine = make()
        with context:
            return fio(engine, rw, block, depth)
    judge(bench, case, *((lambda make=make: requests_per_s(make), name)
                         for make, name in (ours, theirs)))


def judge(bench, case, ours, theirs):
    """Of each a function that gives requests a second, and a name; in turns."""
    if not results.is_wanted(bench, case):
        return
    found = results.alternating(PAIRS, {name: measure for measure, name in (ours, theirs)})
    results.compare(bench, case, 'requests/s', found[ours[1]], theirs[1], found[theirs[1]])


def patterns(place, path):
    raw = lambda: (contextlib.nullcontext(), ['--ioengine=io_uring', f'--filename={path}'])
    for rw, block in PATTERNS.items():
        for depth in (1, 32) if block == '4k' else (8,):
            case = f'file depth={depth}'
            ours = (lambda: weft(place, path), 'weft')
            arguments = (rw, block, depth)
            compare(f'node.{rw}', f'{case} vs nbdkit', ours,
                    (lambda: nbdkit(place, 'file', path), 'nbdkit file'), *arguments)
            compare(f'node.{rw}', f'{case} vs qemu-nbd', ours,
                    (lambda: qemu_nbd(place, path), 'qemu-nbd'), *arguments)
            compare(f'node.{rw}', f'{case} vs raw', ours, (raw, 'io_uring on the file'), *arguments)
            compare(f'node.{rw}', f'attach depth={depth} vs nbd',
                    (lambda: (attached(place, path), nbd(f'{place}/attach')), 'weft attach'), ours,
                    *arguments)
            judge(f'node.{rw}', f'nvme-rdma depth={depth} vs io_uring',
                  (lambda: initiator(path, *arguments), 'initiator'),
                  (lambda: fio(raw()[1], *arguments), 'io_uring on the file'))
    for depth in (1, 32):
        compare('node.randread', f'null depth={depth} vs nbdkit',
                (lambda: weft(place, f'null:{SIZE}'), 'weft'),
                (lambda: nbdkit(place, 'null', str(SIZE)), 'nbdkit null'), 'randread', '4k', depth)
        compare('node.randread', f'ram depth={depth} vs nbdkit',
                (lambda: weft(place, f'ram:{SIZE}'), 'weft'),
                (lambda: nbdkit(place, 'memory', str(SIZE)), 'nbdkit memory'), 'randread', '4k',
                depth)


def family(pid):
    """The process and all that it has started."""
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        for child in (task / 'children').read_text().split():
            yield from family(int(child))
    yield pid


CALLS, YIELDS, SWITCHES = COUNTED = ('raw_syscalls:sys_enter', 'syscalls:sys_enter_sched_yield',
                                     'context-switches')
KERNEL_WORKS = {'node.syscalls': lambda counts: counts[CALLS],
                'node.syscalls_but_yields': lambda counts: counts[CALLS] - counts[YIELDS],
                'node.switches': lambda counts: counts[SWITCHES]}


def counted_by_perf(pids):
    """The words of perf that count for these processes, up to a file for what it says."""
    return ['perf', 'stat', '-x,', '-e', ','.join(COUNTED), '-p',
            ','.join(map(str, pids))]


def counted(pids, ask):
    """{bench: how many a request}: of these processes and all that they have started, while `ask`
    asks, which gives the requests."""
    with tempfile.NamedTemporaryFile('r') as said:
        serving = itertools.chain.from_iterable(map(family, pids))
        perf = subprocess.Popen([*counted_by_perf(serving), '-o', said.name])
        time.sleep(0.2)  # it attaches
        requests = ask()
        perf.send_signal(signal.SIGINT)
        perf.wait(20)
        fields = (line.split(',') for line in said if ',' in line)
        counts = {field[2]: int(field[0]) for field in fields}
    return {bench: count(counts) / requests for bench, count in KERNEL_WORKS.items()}


def kernel_work(make, rw, depth):
    """Of all that serves one client."""
    context, engine = make()
    with context as pids:
        fio(engine, rw, '4k', depth)
        return counted(pids, lambda: fio_job(engine, rw, '4k', depth)['total_ios'])


def target_work(path, rw, depth):
    """Of the target that serves an initiator over RDMA."""
    with target(path) as (uri, pid):
        seconds = MILLISECONDS / 1000
        ask = lambda: results.measured('bench-nvme', uri, rw, 4096, depth, seconds)
        ask()
        return counted([pid], lambda: ask()['requests_per_s'] * seconds)


def perf_counts():
    """Does perf count these events here?"""
    if not shutil.which('perf'):
        return False
    return subprocess.run([*counted_by_perf([os.getpid()]), '--', 'true'],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def kernel_works(place, path):
    if not perf_counts():
        print('SKIP node.syscalls, node.switches: perf cannot count them here', file=sys.stderr)
        return
    servers = {'nbdkit file': lambda: nbdkit(place, 'file', path),
               'weft': lambda: weft(place, path),
               'RTA in the host': lambda: weft(place, path, 'host'),
               'weft attach': lambda: (attached(place, path), nbd(f'{place}/attach'))}
    for rw, depth in ((rw, depth) for rw in ('randread', 'randwrite') for depth in (1, 32)):
        if not any(results.is_wanted(bench, f'{rw} depth={depth}') for bench in KERNEL_WORKS):
            continue
        measures = {name: (lambda make=make: kernel_work(make, rw, depth))
                    for name, make in servers.items()}
        measures['target of an initiator'] = lambda: target_work(path, rw, depth)
        found = results.alternating(PAIRS, measures)
        for bench in KERNEL_WORKS:
            theirs, *ours = (results.column(found[name], bench) for name in measures)
            for name, column in zip(list(measures)[1:], ours):
                results.compare(bench, f'{rw} depth={depth} {name}', 'a request', column,
                                'nbdkit file', theirs, less_is_better=True)


def writes_by_pages(place, path):
    """Short writes to a file that the page cache has in pages, not in large folios."""
    for depth in (1, 32):
        for theirs in ((lambda: nbdkit(place, 'file', path), 'nbdkit file'),
                       (lambda: qemu_nbd(place, path), 'qemu-nbd')):
            compare('node.randwrite', f'file by pages depth={depth} vs {theirs[1].split()[0]}',
                    (lambda: weft(place, path), 'weft'), theirs, 'randwrite', '4k', depth)


def rta_hop(place):
    for depth in (1, 32):
        compare('node.rta_hop', f'null depth={depth}',
                (lambda: weft(place, f'null:{SIZE}'), 'weft'),
                (lambda: weft(place, f'null:{SIZE}', 'host'), 'RTA in the host'), 'randread', '4k',
                depth)


def image_make(path, write_len):
    """By writes of so many bytes."""
    with open(path, 'wb', buffering=0) as file:
        for _ in range(SIZE // write_len):
            file.write(os.urandom(write_len))
    return path


def main():
    missing = [name for name in ('fio', 'nbdkit', 'qemu-nbd') if not shutil.which(name)]
    if missing:
        print(f'SKIP: no {", ".join(missing)} here (tools/packages.sh test)', file=sys.stderr)
        return
    with tempfile.TemporaryDirectory(prefix='weft-bench.', dir='.') as place:
        place = os.path.abspath(place)
        path = image_make(f'{place}/disk.img', 1 << 20)
        patterns(place, path)
        writes_by_pages(place, image_make(f'{place}/pages.img', 4096))
        kernel_works(place, path)
        rta_hop(place)


if __name__ == '__main__':
    main()
