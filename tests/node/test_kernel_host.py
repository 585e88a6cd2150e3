#!/usr/bin/env python3
"""The Linux kernel's NVMe host, in a virtual machine, against weft serve outside it.

    test_kernel_host.py --transport tcp     nvme_tcp
    test_kernel_host.py --transport rdma    nvme_rdma over siw
        --device rxe     ... over rxe, the cases that the device has a part in
        --only WORD      only the cases with this in their names
        --keep FOLDER    leave the console, the capture and what the node said there

One boot serves all cases, and one connection most of them.
"""

import json
import signal
import sys
import time

import kernel_stage
from kernel_stage import HOST, Tap, arguments, count, need, run_cases, until, vm

PROGRAMS = {'nvme': 'nvme-cli', 'mkfs.ext4': 'e2fsprogs', 'e2fsck': 'e2fsprogs', 'fio': 'fio'}
PORT = 4420
HOSTNQN = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555'
HOSTID = '11111111-2222-3333-4444-555555555555'
OTHER = HOSTNQN.replace('5', '6')
GROUP = 'nqn.2026-11.test:group'  # of several volumes
DISK_LEN = 64 << 20
DEVICE = '/dev/nvme0n1'


class Node(kernel_stage.Node):
    """A node that NVMe hosts reach."""

    def __init__(self, transport, scratch):
        self.scheme = f'nvme+{transport}://'
        self.disk = scratch / 'disk.img'
        with open(self.disk, 'wb') as out:
            out.truncate(DISK_LEN)
        super().__init__(scratch, f'--nvme-{transport}={HOST}:{PORT}',
                         f'[volume disk]\nuri = file:{self.disk}\n'
                         f'[volume closed]\nuri = ram:1M\nallow = {OTHER}\n'
                         f'[volume one]\nuri = ram:8M\nnqn = {GROUP}\n'
                         f'[volume two]\nuri = ram:16M\nnqn = {GROUP}\n', ['--allow-add'])

    def start(self):
        super().start()
        self.nqn, self.closed = (self.uri(name, self.scheme).split('/')[-1]
                                 for name in ('disk', 'closed'))

    def sessions(self):
        return self.status()['nvme']['sessions']


class Host(kernel_stage.Host):
    """The guest, as a host of NVMe."""

    def __init__(self, guest, transport):
        super().__init__(guest)
        self.transport = transport

    def words(self):
        return f'-t {self.transport} -a {HOST} -s {PORT} -q {HOSTNQN} -I {HOSTID}'

    def connect(self, nqn, more='', status=0):
        said = self.sh(f'nvme connect {self.words()} -n {nqn} {more}', status=status)
        if status == 0:
            self.until(f'[ -b {DEVICE} ]')
        return said

    def disconnect(self, nqn):
        self.sh(f'nvme disconnect -n {nqn}')
        self.until(f'[ ! -e {DEVICE} ]')


def fio(name, more, size, device=DEVICE):
    return kernel_stage.fio(device, name, more, size)


# --- the cases ---------------------------------------------------------------------------------


def a_host_finds_the_volumes_that_it_may_use(host, node):
    said = host.sh(f'nvme discover {host.words()}')
    assert node.nqn in said and node.closed not in said, said
    assert f'trtype:  {host.transport}' in said and f'traddr:  {HOST}' in said, said
    until(lambda: node.sessions() == 0)


def a_host_connects_to_all_that_it_finds(host, node):
    host.sh(f'nvme connect-all {host.words()}')
    host.until('ls /dev/nvme?n1')
    found = host.sh('cat /sys/class/nvme/nvme*/subsysnqn')
    assert node.nqn in found and GROUP in found and node.closed not in found, found
    host.sh(f'nvme disconnect -n {node.nqn} && nvme disconnect -n {GROUP}')
    host.until('! ls /sys/class/nvme/nvme*')


def a_host_that_may_not_is_told_at_once(host, node):
    began = time.monotonic()
    host.connect(node.closed, status=1)
    assert time.monotonic() - began < 60  # one that may come later: 600
    assert 'is not allowed' in host.sh('dmesg'), host.sh('dmesg | tail')


def a_volume_is_a_block_device(host, node):
    host.connect(node.nqn)
    assert int(host.sh('cat /sys/block/nvme0n1/size')) * 512 == DISK_LEN
    assert 'weft disk' in host.sh('cat /sys/class/nvme/nvme0/model')
    uuid = host.sh('cat /sys/block/nvme0n1/uuid').strip()
    assert uuid == node.nqn.rpartition(':')[2], uuid
    assert host.sh('cat /sys/block/nvme0n1/queue/write_cache').strip() == 'write back'


def nvme_cli_is_told_what_there_is_and_refused_what_is_not(host, node):
    there = ['id-ctrl', 'id-ns -n 1', 'ns-descs -n 1', 'nvm-id-ctrl', 'nvm-id-ns -n 1',
             'cmdset-ind-id-ns -n 1', 'list-ns', 'list-ctrl', 'supported-log-pages', 'smart-log',
             'ana-log', 'ana-log -g', 'error-log', 'effects-log --csi=0', 'fw-log',
             'changed-ns-list-log', 'fid-support-effects-log', 'mi-cmd-support-effects-log',
             'resv-notif-log', 'get-feature -f 7', 'get-feature -f 11', 'get-feature -f 15',
             'get-property --offset=0', 'verify -n 1 -s 0 -c 7', 'ns-rescan']
    words = '\n'.join(each.replace(' ', ' /dev/nvme0 ', 1) if ' ' in each else f'{each} /dev/nvme0'
                      for each in there)
    said = host.sh(f"echo '{words}' | while read c; do nvme $c </dev/null >/tmp/said 2>&1 || "
                   '{ echo "$c:"; cat /tmp/said; }; done')
    assert said == '', said
    for each, why in (('telemetry-log /dev/nvme0 -o /tmp/telemetry', 'INVALID LOG PAGE'),
                      ('fw-commit /dev/nvme0 -s 1 -a 1', 'INVALID COMMAND OPCODE'),
                      ('set-feature /dev/nvme0 -f 2 -v 1', 'NOT CHANGEABLE'),
                      ('sanitize /dev/nvme0 -a 2', 'INVALID COMMAND OPCODE')):
        said = host.sh(f'nvme {each} 2>&1', status=None)
        assert why in said.upper(), said


def a_file_system_is_made_and_kept(host, node):
    def come_back():
        host.disconnect(node.nqn)
        host.connect(node.nqn)

    kernel_stage.a_file_system_is_kept(host, DEVICE, come_back)


def what_fio_writes_it_reads(host, node):
    host.sh(fio('random', '--rw=randwrite', '2M'))
    host.sh(fio('large', '--rw=write --bs=256k --fsync=8', '8M'))


def a_trim_makes_holes(host, node):
    kernel_stage.a_trim_makes_holes(host, DEVICE, node)


def zeroes_are_written_as_such(host, node):
    host.sh(f'dd if=/dev/urandom of={DEVICE} bs=1M count=4 oflag=direct 2>/dev/null')
    before = node.operations('write zeroes')
    host.sh(f'nvme write-zeroes {DEVICE} -n 1 -s 2048 -c 2047')
    assert node.operations('write zeroes') > before
    zero = host.sh('head -c 1048576 /dev/zero | sha256sum')
    assert host.sh(f'dd if={DEVICE} bs=1M skip=1 count=1 iflag=direct 2>/dev/null '
                   '| sha256sum') == zero


def a_flush_goes_to_the_device(host, node):
    before = node.operations('flush')
    host.sh(f'nvme flush {DEVICE} -n 1')
    host.sh(f'dd if=/dev/zero of={DEVICE} bs=4k count=4 conv=fsync 2>/dev/null')
    assert node.operations('flush') > before


def two_hosts_reserve_the_volume(host, node):
    """Both are this kernel, with two names; its paths to one subsystem share a disk, so each host
    speaks by its controller."""
    one, two = '/dev/nvme0', '/dev/nvme1'
    words = (f'transport={host.transport},traddr={HOST},trsvcid={PORT},nqn={node.nqn},'
             f'hostnqn={OTHER},hostid={HOSTID.replace("5", "6")},nr_io_queues=1')
    host.sh(f'echo {words} >/dev/nvme-fabrics')  # nvme-cli takes both for one host
    host.until('grep -q live /sys/class/nvme/nvme1/state')

    def nvme(controller, what, status=0):
        command, _, rest = what.partition(' ')
        return host.sh(f'nvme {command} {controller} -n 1 {rest}', status=status)

    def write(controller):
        said = nvme(controller, 'io-passthru -o 1 -l 512 -w -i /dev/zero', None)
        return 'RESERVATION' not in said.upper()

    nvme(one, 'resv-register --nrkey=0x11 --rrega=0')
    nvme(two, 'resv-register --nrkey=0x22 --rrega=0')
    nvme(one, 'resv-acquire --crkey=0x11 --rtype=1 --racqa=0')
    assert (write(one), write(two)) == (True, False)
    said = json.loads(nvme(two, 'resv-report --eds -o json'))
    assert (said['rtype'], said['regctl']) == (1, 2), said
    keys = {row['rkey']: row['rcsts'] for row in said['regctlext']}
    assert keys == {0x11: 1, 0x22: 0}, said
    said = nvme(two, 'resv-acquire --crkey=0x22 --rtype=2 --racqa=0', None)
    assert 'RESERVATION' in said.upper(), said
    nvme(two, 'resv-acquire --crkey=0x22 --prkey=0x11 --rtype=2 --racqa=2')
    assert (write(one), write(two)) == (False, True)
    nvme(two, 'resv-release --crkey=0x22 --rtype=2 --rrela=0')
    assert (write(one), write(two)) == (True, True)
    nvme(two, 'resv-register --crkey=0x22 --rrega=1')
    host.sh('nvme disconnect -d nvme1')


def volumes_of_one_subsystem_come_and_go(host, node):
    """Two of them are disks of one controller; another one appears while it is there, and goes."""
    name = f'nvme connect {host.words()} -n {GROUP} -o normal'
    host.sh(f'{name} && for _ in $(seq 100); do ls /dev/nvme1n2 && exit 0; sleep 0.1; done; exit 1')
    sizes = 'cat /sys/block/nvme1n1/size /sys/block/nvme1n2/size'
    assert host.sh(sizes).split() == ['16384', '32768'], host.sh(sizes)
    listed = json.loads(host.sh('nvme list-ns /dev/nvme1 -o json'))
    assert [each['nsid'] for each in listed['nsid_list']] == [1, 2], listed
    for disk, length in (('nvme1n1', '4M'), ('nvme1n2', '8M')):
        host.sh(fio(disk, '--rw=randwrite', length, f'/dev/{disk}'))
    first = 'dd if=/dev/nvme1n1 bs=1M count=4 iflag=direct 2>/dev/null | sha256sum'
    before = host.sh(first)
    load = host.begin(fio('other', f'--rw=randwrite --loops={count(5, 200)}', '4M',
                          '/dev/nvme1n1'), 300)
    host.sh(first)
    node.rescan(f'--add=three=ram:32M?nqn={GROUP}')
    host.until('[ "$(cat /sys/block/nvme1n3/size)" = 65536 ]')
    host.sh(fio('third', '--rw=randwrite', '8M', '/dev/nvme1n3'))
    node.rescan('--remove=two')
    host.until('[ ! -e /sys/block/nvme1n2 ]')
    assert load.wait(300) == 0, load.output()
    assert before != host.sh(first)
    node.rescan('--remove=three')
    host.until('[ ! -e /sys/block/nvme1n3 ]')
    host.sh(f'nvme disconnect -n {GROUP}')


def a_reset_under_load_loses_nothing(host, node):
    load = host.begin(fio('reset', f'--rw=randwrite --loops={count(1, 20)}', '4M'), 300)
    for _ in range(count(3, 30)):
        node.wait_for_writes(50, load)
        host.sh('nvme reset /dev/nvme0', status=None)
    assert load.wait(300) == 0, load.output()
    host.until('grep -q live /sys/class/nvme/nvme0/state')


def a_node_that_is_started_again_goes_on(host, node):
    host.disconnect(node.nqn)
    host.connect(node.nqn, '--reconnect-delay=1 --keep-alive-tmo=5')
    load = host.begin(fio('again', '--rw=randwrite', '4M'), 300)
    node.wait_for_writes(50, load)
    node.end(signal.SIGKILL)
    node.start()
    assert load.wait(300) == 0, load.output()


def what_else_may_be_agreed(host, node):
    ways = ['--nr-io-queues=1 -Q 16']
    if host.transport == 'tcp':
        ways += ['--hdr-digest --data-digest', '--disable-sqflow']
    for more in ways:
        host.disconnect(node.nqn)
        host.connect(node.nqn, more)
        host.sh(fio('agreed', '--rw=randwrite', '512k'))
    assert node.status().get('nvme_tcp', {'digest_errors': 0})['digest_errors'] == 0


def hosts_come_and_go(host, node):
    host.disconnect(node.nqn)
    for _ in range(count(3, 100)):
        host.connect(node.nqn)
        host.disconnect(node.nqn)
    until(lambda: node.sessions() == 0)
    found = node.status()
    assert (found['connections'], found['pool_taken']) == (0, 0), found
    assert not host.complaints(), host.complaints()


CASES = [a_host_finds_the_volumes_that_it_may_use, a_host_connects_to_all_that_it_finds,
         a_host_that_may_not_is_told_at_once, a_volume_is_a_block_device,
         nvme_cli_is_told_what_there_is_and_refused_what_is_not,
         a_file_system_is_made_and_kept, what_fio_writes_it_reads, a_trim_makes_holes,
         zeroes_are_written_as_such, a_flush_goes_to_the_device, two_hosts_reserve_the_volume,
         volumes_of_one_subsystem_come_and_go, a_reset_under_load_loses_nothing,
         a_node_that_is_started_again_goes_on, what_else_may_be_agreed,
         hosts_come_and_go]
# Those in which the RNIC has a part: with another one beneath, the rest is the same.
CASES_OF_DEVICES = [a_host_finds_the_volumes_that_it_may_use, a_volume_is_a_block_device,
                    what_fio_writes_it_reads, a_reset_under_load_loses_nothing,
                    a_node_that_is_started_again_goes_on, hosts_come_and_go]


# --- the run -----------------------------------------------------------------------------------


def options_given():
    parser = arguments(__doc__)
    parser.add_argument('--transport', choices=('tcp', 'rdma'), default='tcp')
    parser.add_argument('--device', choices=vm.DEVICES, default='siw')
    return parser.parse_args()


def main():
    options = options_given()
    need(PROGRAMS)
    vm.enter()
    tap = Tap()
    with vm.scratch_folder(options.keep) as scratch:
        guest = vm.Guest(scratch, ['rdma', *PROGRAMS], extras=['nvme'])
        if options.device != 'siw':
            guest.use_device(options.device)
        node = Node(options.transport, scratch)
        try:
            cases = CASES if options.device == 'siw' else CASES_OF_DEVICES
            run_cases(tap, Host(guest, options.transport), node, cases, options.only,
                      a_volume_is_a_block_device)
        finally:
            node.end()
            guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
