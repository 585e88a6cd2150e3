#!/usr/bin/env python3
"""iSCSI over one-shot RDMA beside iSCSI over TCP: one node that serves one volume of memory by both
doors, one client on the node's own drivers, so that nothing differs but the scheme of the URI. Both
go through the kernel's TCP on loopback, and one-shot RDMA also through memory of both processes, as
it does within a host unless told otherwise (docs/one-host.md). Small blocks, one command and many
at a time.

What a command takes is counted, not measured: the difference of two runs that differ by so many
commands, as the client's device and its calls of ibv_reg_mr have it (a session's is one). A count
that is not what docs/iscsi.md says ends the group.
"""

import contextlib
import json
import pathlib
import subprocess
import tempfile

import results
from results import BUILD

PAIRS = results.pairs_wanted(5)
SECONDS = results.seconds_wanted('0.4')
BLOCK_LEN = 4096
DEPTHS = (1, 32)
OPERATIONS = ('read', 'write')
WIRE = {'WEFT_LOCAL': 'off'}  # the client's word decides for both ends
# How one-shot RDMA goes, and the settings for it.
PATHS = {'wire': WIRE, 'one host': {}}
COUNTS = (500, 1500)  # commands of the two runs that are compared
TCP = 'iSCSI over TCP'
# Per command, as the client sees them: what docs/iscsi.md says. The target reads what is written.
DOCUMENTED = {'read': {'Sends': 2, 'RDMA Reads': 0, 'RDMA Writes': 1, 'registrations': 0},
              'write': {'Sends': 2, 'RDMA Reads': 1, 'RDMA Writes': 0, 'registrations': 0}}


@contextlib.contextmanager
def node():
    """The URIs of its volume, by scheme."""
    process = subprocess.Popen([BUILD / 'weft', 'serve', '--iscsi=127.0.0.1:0',
                                '--iscsi-rdma=127.0.0.1:0', 'volume=ram:64M'], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, env=results.environment())
    try:
        uris = {}
        while {'iscsi', 'iscsi+rdma'} - uris.keys():
            line = process.stdout.readline()
            if not line:
                raise RuntimeError('weft serve does not serve iSCSI')
            scheme, has_address, _ = line.strip().partition('://')
            if has_address:
                uris[scheme] = line.strip()
        yield uris
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(20)


def run(uri, operation, depth, *words, **settings):
    return results.measured('bench-iscsi', uri, operation, BLOCK_LEN, depth, *words, **settings)


def measure(uris, operation, depth):
    """Each way one-shot RDMA goes, and TCP, in turns."""
    ways = {path: lambda settings=settings: run(uris['iscsi+rdma'], operation, depth, SECONDS,
                                                **settings) for path, settings in PATHS.items()}
    ways[TCP] = lambda: run(uris['iscsi'], operation, depth, SECONDS)
    found = results.alternating(PAIRS, ways)
    for path in PATHS:
        case = f'4KiB {operation} depth={depth} {path}'
        columns = lambda key, path=path: (results.column(found[path], key), TCP,
                                          results.column(found[TCP], key))
        results.compare('iscsi.rate', case, 'requests/s', *columns('requests_per_s'))
        for key in ('p50_us', 'p99_us'):
            results.compare('iscsi.latency', f'{case} {key[:3]}', 'us', *columns(key),
                            less_is_better=True)


def counted(uri, operation, depth, count):
    """What the client's device has seen of a run of so many commands, log-in and all."""
    with tempfile.TemporaryDirectory(prefix='weft-bench.') as folder:
        stats = pathlib.Path(folder, 'stats')
        said = run(uri, operation, depth, 60, count, WEFT_STATS_FILE=str(stats), **WIRE)
        of_pairs = json.loads(stats.read_text())['weft0']['qps_total']
    messages = lambda name: of_pairs.get(f'{name}.messages', 0)
    return {'Sends': messages('in.send') + messages('out.send'),
            'RDMA Reads': messages('in.rdma_read_request'),
            'RDMA Writes': messages('in.rdma_write'),
            'registrations': said['registrations']}


def count(uris, operation, depth):
    few, many = (counted(uris['iscsi+rdma'], operation, depth, count) for count in COUNTS)
    per_command = {name: (many[name] - few[name]) / (COUNTS[1] - COUNTS[0]) for name in few}
    case = f'4KiB {operation} depth={depth}'
    results.note(f'iscsi.counts {case}:',
                 ', '.join(f'{value:g} {name}' for name, value in per_command.items()))
    documented = DOCUMENTED[operation]
    if per_command != documented:
        raise SystemExit(f'iscsi.counts {case}: docs/iscsi.md says {documented} a command')
    for name, value in per_command.items():
        if value != 0:  # of nothing there is no ratio
            results.emit('iscsi.counts', f'{case} {name}', 'a command', value, 'docs/iscsi.md',
                         documented[name], less_is_better=True)


def main():
    cases = [(operation, depth) for operation in OPERATIONS for depth in DEPTHS]
    with node() as uris:
        for case in cases:
            count(uris, *case)
        for case in cases:
            measure(uris, *case)


if __name__ == '__main__':
    main()
