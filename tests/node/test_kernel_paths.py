#!/usr/bin/env python3
"""The Linux kernel's NVMe host, in a virtual machine, with a path to each of two nodes outside it
that serve one file, or one image of Ceph: its own multipath makes one disk of them, and fails over
without an error.

    test_kernel_paths.py --transport tcp     nvme_tcp
    test_kernel_paths.py --transport rdma    nvme_rdma over siw
        --device rxe     ... over rxe
        --volume rbd     an image of Ceph, of a cluster made for it
        --only WORD      only the cases with this in their names
        --keep FOLDER    leave the console, the capture and what the nodes said there

One boot, and one connection to each node, serve all cases.
"""

import contextlib
import os
import signal
import sys
import time

import kernel_stage
from ceph import Cluster
from judge import BUILD, skip_all
from kernel_stage import HOST, Tap, arguments, count, need, run_cases, until, vm
from serving import Skip

PROGRAMS = {'nvme': 'nvme-cli', 'fio': 'fio'}
NQN = 'nqn.2026-11.test:paths'
HOSTNQN = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
HOSTID = '11111111-2222-3333-4444-555555555555'
DISK_LEN = 32 << 20
DEVICE = '/dev/nvme0n1'
STATES = 'cat /sys/block/nvme0n1/multipath/*/ana_state 2>/dev/null || ' \
         'cat /sys/class/nvme/nvme*/nvme*c*n1/ana_state'


class Node(kernel_stage.Node):
    """One of the two."""

    def __init__(self, transport, scratch, name, uri, port, cntlid):
        self.port = port
        place = scratch / name
        place.mkdir()
        super().__init__(place, f'--nvme-{transport}={HOST}:{port}',
                         f'[node]\ncntlid-min = {cntlid}\n'
                         f'[volume disk]\nuri = {uri}\nnqn = {NQN}\nstandby = yes\n')

    def state(self):
        return self.status()['volumes'][0]['state']


class Nodes:
    """Both: the one that serves the disk, and the other."""

    def __init__(self, transport, scratch, uri):
        self.transport = transport
        self.both = [Node(transport, scratch, 'a', uri, 4420, 1),
                     Node(transport, scratch, 'b', uri, 4421, 1000)]

    def in_turn(self):
        until(lambda: sorted(node.state() for node in self.both) == ['ready', 'standby'])
        return sorted(self.both, key=Node.state)

    def end(self):
        for node in self.both:
            node.end()


def fio(name, loops):
    return kernel_stage.fio(DEVICE, name, f'--rw=randwrite --loops={loops}', '4M')


def fails_over(host, nodes, name, leave, times):
    """`leave` has the active node go, `times` times under a load that must not fail."""
    load = host.begin(fio(name, count(4, 40)), 300)
    for _ in range(times):
        active, standby = nodes.in_turn()
        active.wait_for_writes(50, load)
        assert load.poll() is None, f'over too soon\n{load.output()}'
        leave(active)
        until(lambda node=standby: node.state() == 'ready')
    assert load.wait(300) == 0, load.output()
    complaints(host)


def complaints(host):
    said = host.sh('dmesg | grep -E "I/O error|BUG:|WARNING:|Oops"', status=None)
    assert not said, said


# --- the cases ---------------------------------------------------------------------------------


def both_paths_are_one_disk(host, nodes):
    assert host.sh('cat /sys/module/nvme_core/parameters/multipath').strip() == 'Y'
    for node in reversed(nodes.in_turn()):  # first the one that cannot be used
        host.sh(f'nvme connect -t {nodes.transport} -a {HOST} -s {node.port} -n {NQN} '
                f'-q {HOSTNQN} -I {HOSTID} --reconnect-delay=1 --ctrl-loss-tmo=600')
    host.until(f'[ -b {DEVICE} ]')
    assert int(host.sh('cat /sys/block/nvme0n1/size')) * 512 == DISK_LEN
    assert host.sh('ls /sys/block | grep -c ^nvme.n1').strip() == '1'
    assert sorted(host.sh(STATES).split()) == ['inaccessible', 'optimized'], host.sh(STATES)
    host.sh(fio('first', 1))


def a_volume_is_handed_over_under_load(host, nodes):
    fails_over(host, nodes, 'handed', lambda node: node.rescan('--stand-by=disk'), count(3, 30))


def an_rta_is_killed_under_load(host, nodes):
    load = host.begin(fio('rta', count(4, 40)), 300)
    for _ in range(count(3, 30)):
        active, _ = nodes.in_turn()
        active.wait_for_writes(50, load)
        os.kill(active.rtas()[0], signal.SIGKILL)
        time.sleep(0.2)
    assert load.wait(300) == 0, load.output()
    complaints(host)


def the_active_node_is_killed_under_load(host, nodes):
    load = host.begin(fio('killed', count(4, 40)), 300)
    for _ in range(count(2, 10)):
        active, standby = nodes.in_turn()
        active.wait_for_writes(50, load)
        active.end(signal.SIGKILL)
        until(lambda node=standby: node.state() == 'ready')
        standby.wait_for_writes(50, load)
        active.start()
        host.until('[ "$(grep -l live /sys/class/nvme/nvme*/state | wc -l)" = 2 ]')
    assert load.wait(300) == 0, load.output()
    complaints(host)


CASES = [both_paths_are_one_disk, a_volume_is_handed_over_under_load, an_rta_is_killed_under_load,
         the_active_node_is_killed_under_load]


# --- the run -----------------------------------------------------------------------------------


def options_given():
    parser = arguments(__doc__)
    parser.add_argument('--transport', choices=('tcp', 'rdma'), default='tcp')
    parser.add_argument('--device', choices=vm.DEVICES, default='siw')
    parser.add_argument('--volume', choices=('file', 'rbd'), default='file')
    return parser.parse_args()


@contextlib.contextmanager
def disk_of(kind, scratch):
    """The URI of what both serve."""
    if kind == 'file':
        disk = scratch / 'disk.img'
        with open(disk, 'wb') as out:
            out.truncate(DISK_LEN)
        yield f'file:{disk}'
    elif (BUILD / 'lib' / 'weft-rbd.so').exists():
        with Cluster() as cluster:
            yield cluster.image('disk', f'{DISK_LEN >> 20}M')
    else:
        raise Skip('weft was built without librbd (librbd-dev)')


def run(tap, guest, scratch, options):
    if options.device != 'siw':
        guest.use_device(options.device)
    with disk_of(options.volume, scratch) as uri:
        nodes = Nodes(options.transport, scratch, uri)
        try:
            run_cases(tap, kernel_stage.Host(guest), nodes, CASES, options.only,
                      both_paths_are_one_disk)
        finally:
            nodes.end()


def main():
    options = options_given()
    need(PROGRAMS)
    vm.enter()
    tap = Tap()
    with vm.scratch_folder(options.keep) as scratch:
        guest = vm.Guest(scratch, ['rdma', *PROGRAMS], extras=['nvme'])
        try:
            run(tap, guest, scratch, options)
        except Skip as why:
            skip_all(str(why))
        finally:
            guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
