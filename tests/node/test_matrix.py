#!/usr/bin/env python3
"""What is written to a volume of each driver, by each protocol, is read again, whatever of the way
there is killed meanwhile: fio verifies.

    test_matrix.py --by nbd         NBD, by fio itself
    test_matrix.py --by tcp         NVMe/TCP, by weft's own initiator (weft attach)
    test_matrix.py --by rdma        NVMe/RDMA, likewise
    test_matrix.py --by kernel-tcp  NVMe/TCP, by the Linux kernel in a virtual machine
    test_matrix.py --by siw         NVMe/RDMA over siw, likewise
    test_matrix.py --by rxe         NVMe/RDMA over rxe, likewise
    test_matrix.py --by scsi        iSCSI, likewise
        --all            all its cells, as `make soak`; else some ways share them (SHARES)
        --only WORD      only the cells with this in their names
        --keep FOLDER    leave there what explains a failure

A cell is a node of its own with one volume, a client, and one thing that is killed again and again.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import kernel_stage
from ceph import Cluster
from judge import BUILD, WEFT, free_port, skip_all
from kernel_stage import HOST, Tap, arguments, count, pathlib, until, vm
from serving import Skip

MIB = 1 << 20
DISK_LEN = 32 * MIB
SECONDS = count(6, 60)  # of a load; what a guest does takes longer
GUEST_SECONDS = count(10, 120)
TARGET_PORT = 3260
HOSTNQN = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
INITIATOR = 'iqn.2026-11.invalid.judge:kernel'

# What is killed, and the drivers with which that is tried. What a volume of memory has goes with
# its node.
KILLS = {
    'rta': ('file', 'ram', 'iscsi', 'rbd'),
    'node': ('file', 'iscsi', 'rbd'),
    'target': ('iscsi',),
    'osd': ('rbd',),
}
KILLS_MIN = {'rta': 2, 'node': 1, 'target': 1, 'osd': 1}  # what takes seconds to come back is fewer
ROUNDS_MAX = 6  # of loads, on a machine that is slow
LOAD_LIMIT = GUEST_SECONDS + kernel_stage.LIMIT


# --- drivers: where a volume lies ---------------------------------------------------------------


def file_of(place):
    disk = place / 'disk.img'
    with open(disk, 'wb') as out:
        out.truncate(DISK_LEN)
    return f'file:{disk}'


class File:
    def __init__(self, place, stack):
        self.uri = file_of(place)


class Ram:
    def __init__(self, place, stack):
        self.uri = f'ram:{DISK_LEN // MIB}M'


class Iscsi:
    """The volume of another node, which is its target and may be killed, too."""

    def __init__(self, place, stack):
        place = place / 'target'
        place.mkdir()
        portal = f'127.0.0.1:{free_port()}'
        self.target = Node(place, file_of(place), f'--iscsi={portal}')
        stack.callback(self.target.end)
        self.uri = self.target.uri('disk', 'iscsi://') + '?patience=60s'

    def kill(self):
        self.target.start_again()


class Rbd:
    """An image of a cluster that all cells share."""

    clusters = []

    def __init__(self, place, stack):
        if not (BUILD / 'lib' / 'weft-rbd.so').exists():
            raise Skip('weft was built without librbd (librbd-dev)')
        if not self.clusters:
            cluster = Cluster()
            cluster.__enter__()
            self.clusters.append(cluster)
        self.cluster = self.clusters[0]
        self.uri = self.cluster.image(place.name, f'{DISK_LEN // MIB}M')

    def kill(self):
        self.cluster.kill('osd')
        self.cluster.start('osd')

    @classmethod
    def end(cls):
        while cls.clusters:
            cls.clusters.pop().__exit__()


DRIVERS = {'file': File, 'ram': Ram, 'iscsi': Iscsi, 'rbd': Rbd}


# --- the node -----------------------------------------------------------------------------------


class Node(kernel_stage.Node):
    """With one volume, which is called disk."""

    def __init__(self, place, uri, door):
        super().__init__(place, door, f'[volume disk]\nuri = {uri}\n')

    def start_again(self):
        self.end(signal.SIGKILL)
        self.start()

    def kill_rtas(self):
        before = self.rtas()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(self.rtas()) == len(before) and not set(self.rtas()) & set(before))


# --- clients: connect() to the volume, loads on it, disconnect() ---------------------------------


def fio_words(where, seconds=SECONDS):
    return ['fio', '--name=matrix', *where, '--rw=randwrite', '--bs=4k-64k', '--iodepth=8',
            f'--size={DISK_LEN // MIB}M', '--time_based', f'--runtime={seconds}',
            '--verify=crc32c', '--verify_fatal=1', '--verify_dump=0', '--verify_backlog=64',
            '--verify_state_save=0', '--randrepeat=0', '--minimal']


class Load(subprocess.Popen):
    """A program of this machine, as those of the guest are."""

    def __init__(self, *words):
        self.said = tempfile.TemporaryFile('w+')
        super().__init__(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=self.said,
                         stderr=self.said)

    def output(self):
        self.said.seek(0)
        return self.said.read()


class Nbd:
    """It makes no connection again, so its node lives."""

    kills = ('rta', 'target', 'osd')

    def __init__(self):
        self.door = f'--nbd=127.0.0.1:{free_port()}'

    def connect(self, node):
        pass

    def begin(self, node):
        socket = f'nbd+unix:///disk?socket={node.scratch}/nbd'
        return Load(*fio_words(['--ioengine=nbd', f'--uri={socket}']))

    def disconnect(self):
        pass

    def last_words(self):
        return []

    def end(self):
        pass


class Attached(Nbd):
    """By weft attach, which is an initiator of NVMe, and connects again."""

    kills = tuple(KILLS)

    def __init__(self, transport):
        self.scheme = f'nvme+{transport}://'
        self.door = f'--nvme-{transport}=127.0.0.1:{free_port()}'

    def begin(self, node):
        load = shlex.join(fio_words(['--ioengine=nbd'])) + ' --uri="$uri" >&2'
        return Load(WEFT, 'attach', '--quiet', f'--socket={node.scratch}/attached',
                    f'--run={load}', node.uri('disk', self.scheme))


class Kernel:
    """The kernel of a guest: what its NVMe host and its iSCSI initiator have in common."""

    kills = tuple(KILLS)
    programs = {'fio': 'fio'}

    def __init__(self, extra):
        programs = {**Kernel.programs, **self.programs}
        kernel_stage.need(programs)
        self.folder = tempfile.TemporaryDirectory(prefix='weft-vm.')
        self.guest = vm.Guest(pathlib.Path(self.folder.name), ['rdma', *programs], extras=[extra])
        self.host = kernel_stage.Host(self.guest)

    def connect(self, node):
        self.host.sh(self.words(node))
        self.host.until(f'[ -b {self.device} ]')

    def begin(self, node):
        where = [f'--filename={self.device}', '--direct=1', '--ioengine=libaio']
        return self.host.begin(shlex.join(fio_words(where, GUEST_SECONDS)), LOAD_LIMIT)

    def disconnect(self):
        self.host.sh(self.leave, status=None)
        self.host.until(f'[ ! -e {self.device} ]')
        assert not self.host.complaints(), self.host.complaints()

    def last_words(self):
        return self.guest.console_text().splitlines()[-40:]

    def end(self):
        self.guest.end()
        self.folder.cleanup()


class KernelNvme(Kernel):
    programs = {'nvme': 'nvme-cli'}
    device = '/dev/nvme0n1'
    leave = 'nvme disconnect-all'

    def __init__(self, transport, device='siw'):
        super().__init__('nvme')
        self.transport = transport
        self.door = f'--nvme-{transport}={HOST}:4420'
        if device != 'siw':
            self.guest.use_device(device)

    def words(self, node):
        nqn = node.uri('disk', f'nvme+{self.transport}://').split('/')[-1]
        return (f'nvme connect -t {self.transport} -a {HOST} -s 4420 -q {HOSTNQN} -n {nqn} '
                '--reconnect-delay=1 --keep-alive-tmo=5')


class KernelScsi(Kernel):
    programs = {'iscsid': 'open-iscsi', 'iscsiadm': 'open-iscsi'}
    device = '/dev/sda'
    leave = 'iscsiadm -m node --logoutall=all; iscsiadm -m node -o delete'
    door = f'--iscsi={HOST}:{TARGET_PORT}'

    def __init__(self):
        super().__init__('iscsi')
        self.host.sh('mkdir -p /etc/iscsi /run/lock/iscsi && '
                     f'echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi && '
                     'echo node.startup = manual >/etc/iscsi/iscsid.conf && iscsid')

    def words(self, node):
        target = node.uri('disk', 'iscsi://').split('/')[3]
        return (f'iscsiadm -m discovery -t sendtargets -p {HOST}:{TARGET_PORT} && '
                f'iscsiadm -m node -T {target} --login')


CLIENTS = {
    'nbd': Nbd,
    'tcp': lambda: Attached('tcp'),
    'rdma': lambda: Attached('rdma'),
    'kernel-tcp': lambda: KernelNvme('tcp'),
    'siw': lambda: KernelNvme('rdma'),
    'rxe': lambda: KernelNvme('rdma', 'rxe'),
    'scsi': KernelScsi,
}
IN_GUEST = ('kernel-tcp', 'siw', 'rxe', 'scsi')

# Every way of every cell takes a quarter of an hour. So in one run each of them is tried by one way
# alone, those of Ceph by two, which have a cluster each. A way that is not here has all its cells.
SHARES = {
    'nbd': ('file rta', 'rbd rta', 'rbd osd'),
    'tcp': ('ram rta', 'file node', 'rbd node'),
    'rdma': ('iscsi rta', 'iscsi node', 'iscsi target'),
}
assert (sorted(name for share in SHARES.values() for name in share)
        == sorted(f'{driver} {what}' for what in KILLS for driver in KILLS[what]))


# --- a cell -------------------------------------------------------------------------------------


def harass(node, load, kill):
    """Each second, when something has been written since. How often?"""
    kills = 0
    deadline = time.monotonic() + LOAD_LIMIT
    while load.poll() is None:
        assert time.monotonic() < deadline, f'the load does not end: {load.output()}'
        time.sleep(1)
        node.wait_for_writes(1, load)
        if load.poll() is None:
            kill()
            kills += 1
    return kills


def cell(client, driver, what, place):
    with contextlib.ExitStack() as stack:
        disk = DRIVERS[driver](place, stack)
        node = Node(place, disk.uri, client.door)
        stack.callback(lambda: node.end())
        kill = {'rta': node.kill_rtas, 'node': node.start_again}.get(what) or disk.kill
        stack.callback(client.disconnect)
        client.connect(node)
        kills, rounds = 0, 0
        while kills < KILLS_MIN[what] or rounds == 0:
            load = client.begin(node)
            node.wait_for_writes(1, load)
            kills, rounds = kills + harass(node, load, kill), rounds + 1
            status = load.wait(1)
            said = f'{load.output()}\n{(place / "node.log").read_text()}'
            assert status == 0, f'status {status}: {said}'
            assert rounds < ROUNDS_MAX, f'{kills} kills in {rounds} loads: {said}'
    return kills


def cells(client, options):
    share = None if options.all or count(0, 1) else SHARES.get(options.by)
    for what, drivers in KILLS.items():
        for driver in drivers if what in client.kills else ():
            name = f'{driver} {what}'
            if options.only in name and (share is None or name in share):
                yield driver, what


def run(tap, client, options):
    keep = options.keep
    for driver, what in cells(client, options):
        name = f'{driver} {what}'
        with vm.scratch_folder(keep and keep / name.replace(' ', '-')) as scratch:
            place = scratch / name.replace(' ', '-')
            place.mkdir()
            try:
                kills = cell(client, driver, what, place)
                tap.report(f'{name} ({kills} kills)', [])
            except Skip as why:
                tap.skip(name, str(why))
            except (AssertionError, OSError, subprocess.TimeoutExpired) as why:
                tap.report(name, [*(str(why).splitlines() or [repr(why)]), *client.last_words()])


def main():
    parser = arguments(__doc__)
    parser.add_argument('--by', choices=CLIENTS, default='nbd')
    parser.add_argument('--all', action='store_true')
    options = parser.parse_args()
    if options.by in IN_GUEST:
        vm.enter()
    elif shutil.which('fio') is None:
        skip_all('no fio')
    tap = Tap()
    client = CLIENTS[options.by]()
    try:
        run(tap, client, options)
    finally:
        Rbd.end()
        client.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
