#!/usr/bin/env python3
"""The Linux kernel's iSCSI initiator with Debian's open-iscsi, in a virtual machine, against weft
serve outside it.

    test_kernel_initiator.py
        --only WORD      only the cases with this in their names
        --keep FOLDER    leave the console, the capture and what the node said there

One boot serves all cases, and one session most of them.
"""

import hashlib
import os
import signal
import sys

import kernel_stage
from kernel_stage import HOST, Tap, arguments, count, need, run_cases, until, vm

PROGRAMS = {'iscsid': 'open-iscsi', 'iscsiadm': 'open-iscsi', 'mkfs.ext4': 'e2fsprogs',
            'e2fsck': 'e2fsprogs', 'fio': 'fio'}
PORTAL = f'{HOST}:3260'
INITIATOR = 'iqn.2026-11.invalid.judge:kernel'
OTHER = 'iqn.2026-11.invalid.judge:other'
GROUP = 'iqn.2026-11.invalid.judge:group'  # of several volumes
SECRET, TARGET_SECRET = 'a-secret-of-kernel', 'a-secret-of-the-node'
NOT_ALLOWED = 24  # iscsiadm's: the target says that the initiator may not
DISK_LEN = 64 << 20
DEVICE = '/dev/sda'
ATTRIBUTES = '/sys/block/sda'


class Node(kernel_stage.Node):
    """A node that iSCSI initiators reach."""

    def __init__(self, scratch):
        self.disk = scratch / 'disk.img'
        with open(self.disk, 'wb') as out:
            out.truncate(DISK_LEN)
        super().__init__(scratch, f'--iscsi={PORTAL}',
                         f'[volume disk]\nuri = file:{self.disk}\n'
                         f'[volume closed]\nuri = ram:1M\nallow = {OTHER}\n'
                         f'[volume one]\nuri = ram:8M\ntarget = {GROUP}\n'
                         f'[volume two]\nuri = ram:16M\ntarget = {GROUP}\nlun = 9\n',
                         ['--allow-add'])
        self.target, self.closed = (self.uri(name, 'iscsi://').split('/')[3]
                                    for name in ('disk', 'closed'))


class Guarded(kernel_stage.Node):
    """A node that wants a proof of who logs in, and gives its own."""

    portal = f'{HOST}:3261'

    def __init__(self, scratch):
        place = scratch / 'guarded'
        place.mkdir()
        secrets = place / 'secrets'
        secrets.touch(0o600)
        secrets.write_text(f'[initiator kernel]\nname = kernel\nsecret = {SECRET}\n'
                           f'initiator = {INITIATOR}\n'
                           f'[target]\nname = node\nsecret = {TARGET_SECRET}\n')
        super().__init__(place, f'--iscsi={self.portal}', '[volume guarded]\nuri = ram:8M\n',
                         [f'--iscsi-secrets={secrets}'])
        self.target = self.uri('guarded', 'iscsi://').split('/')[3]


class Host(kernel_stage.Host):
    """The guest, as an initiator."""

    def begin_service(self):
        """iscsid makes connections, and makes them again; the kernel does the rest."""
        self.sh('mkdir -p /etc/iscsi /run/lock/iscsi && '
                f'echo InitiatorName={INITIATOR} >/etc/iscsi/initiatorname.iscsi && '
                'echo node.startup = manual >/etc/iscsi/iscsid.conf && iscsid')

    def discover(self):
        return self.sh(f'iscsiadm -m discovery -t sendtargets -p {PORTAL}')

    def login(self, target, **parameters):
        for name, value in parameters.items():
            self.sh(f'iscsiadm -m node -T {target} -o update -n node.conn[0].iscsi.{name} '
                    f'-v {value}')
        self.sh(f'iscsiadm -m node -T {target} --login')
        self.until(f'[ -b {DEVICE} ]')

    def logout(self, target):
        self.sh(f'iscsiadm -m node -T {target} --logout')
        self.until(f'[ ! -e {DEVICE} ]')


def fio(name, more, size):
    return kernel_stage.fio(DEVICE, name, more, size)


# --- the cases ---------------------------------------------------------------------------------


def discovery_lists_what_the_initiator_may_use(host, node):
    said = host.discover()
    assert said.split() == [f'{PORTAL},1', node.target, f'{PORTAL},1', GROUP], said


def a_target_that_is_not_the_initiators_refuses_the_login(host, node):
    record = f'iscsiadm -m node -T {node.closed} -p {PORTAL}'
    host.sh(f'{record} -o new')
    host.sh(f'{record} --login', status=NOT_ALLOWED)
    host.sh(f'{record} -o delete')


def a_login_makes_a_disk(host, node):
    host.discover()
    host.login(node.target)
    assert int(host.sh(f'cat {ATTRIBUTES}/size')) * 512 == DISK_LEN
    assert host.sh(f'cat {ATTRIBUTES}/device/vendor').strip() == 'WEFT'
    serial = host.sh(f'tail -c +5 {ATTRIBUTES}/device/vpd_pg80')
    assert serial == node.target.rpartition(':')[2].replace('-', ''), serial
    assert host.sh(f'cat {ATTRIBUTES}/queue/write_cache').strip() == 'write back'


def what_is_written_lies_in_the_volume(host, node):
    written = host.sh('head -c 8388608 /dev/urandom >/tmp/data && sha256sum </tmp/data && '
                      f'dd if=/tmp/data of={DEVICE} bs=1M conv=fsync 2>/dev/null').split()[0]
    with open(node.disk, 'rb') as file:
        assert hashlib.sha256(file.read(8 << 20)).hexdigest() == written
    read = host.sh(f'dd if={DEVICE} bs=1M count=8 iflag=direct 2>/dev/null | sha256sum').split()[0]
    assert read == written


def what_fio_writes_it_reads(host, node):
    host.sh(fio('random', '--rw=randwrite', '2M'))
    host.sh(fio('large', '--rw=write --bs=1M --fsync=8', '16M'))


def a_file_system_outlives_the_session(host, node):
    def come_back():
        host.logout(node.target)
        host.login(node.target)

    kernel_stage.a_file_system_is_kept(host, DEVICE, come_back)


def a_trim_makes_holes(host, node):
    kernel_stage.a_trim_makes_holes(host, DEVICE, node)


def an_rta_that_is_killed_loses_nothing(host, node):
    load = host.begin(fio('killed', f'--rw=randwrite --loops={count(2, 20)}', '4M'), 300)
    for _ in range(count(2, 20)):
        node.wait_for_writes(50, load)
        assert load.poll() is None, f'over before the kill: {load.output()}'
        before = node.rtas()
        os.kill(before[0], signal.SIGKILL)
        until(lambda: before[0] not in node.rtas() and len(node.rtas()) == len(before))
    assert load.wait(300) == 0, load.output()
    # Else the kernel, when it had waited for a command long enough, would send it again.
    timeouts = host.sh(f'cat {ATTRIBUTES}/device/iotmo_cnt')
    assert int(timeouts, 16) == 0, timeouts


def a_node_that_is_started_again_goes_on(host, node):
    load = host.begin(fio('again', '--rw=randwrite', '4M'), 300)
    node.wait_for_writes(50, load)
    assert load.poll() is None, f'over before the kill: {load.output()}'
    node.end(signal.SIGKILL)
    node.start()
    assert load.wait(300) == 0, load.output()


def digests_hold(host, node):
    host.logout(node.target)
    host.login(node.target, HeaderDigest='CRC32C', DataDigest='CRC32C')
    agreed = host.sh('cat /sys/class/iscsi_connection/*/header_digest '
                     '/sys/class/iscsi_connection/*/data_digest')
    assert agreed.split() == ['1', '1'], agreed
    host.sh(fio('digests', '--rw=randwrite', '1M'))
    assert node.status()['iscsi']['digest_errors'] == 0


def units_of_one_target_are_disks_that_come_and_go(host, node):
    """Beside the first disk, which is another session's."""
    record = f'iscsiadm -m node -T {GROUP}'
    disks = 'ls -d /sys/block/sd[b-z]'

    def found():
        """Sizes in blocks by number."""
        said = host.sh(f'for disk in $({disks}); do readlink $disk/device; cat $disk/size; done')
        words = said.split()
        return {int(link.rpartition(':')[2]): int(size)
                for link, size in zip(words[::2], words[1::2])}

    host.sh(f'{record} --login')
    host.until(f'[ $({disks} | wc -l) = 2 ]')
    assert found() == {0: 16384, 9: 32768}, found()
    for name in ('sdb', 'sdc'):
        host.sh(kernel_stage.fio(f'/dev/{name}', name, '--rw=randwrite', '4M'))
    more = f'--rw=randwrite --loops={count(5, 50)}'
    load = host.begin(kernel_stage.fio('/dev/sdb', 'other', more, '4M'), 300)
    node.rescan(f'--add=three=ram:32M?target={GROUP}')
    host.until('dmesg | grep -q "LUN assignments on this target have changed"')
    host.sh(f'{record} --rescan')
    host.until(f'[ $({disks} | wc -l) = 3 ]')
    assert found() == {0: 16384, 1: 65536, 9: 32768}, found()
    host.sh(kernel_stage.fio('/dev/sdd', 'third', '--rw=randwrite', '4M'))
    node.rescan('--remove=two')
    host.until('! dd if=/dev/sdc of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null')
    assert load.wait(300) == 0, load.output()
    host.sh(f'{record} --logout')


def who_knows_its_secret_logs_in_and_no_other(host, node):
    """Both ends prove who they are, with each algorithm."""
    guarded = Guarded(node.scratch)
    portal = f'-p {Guarded.portal}'
    discovery = f'iscsiadm -m discoverydb -t sendtargets {portal}'
    record = f'iscsiadm -m node -T {guarded.target} {portal}'

    def update(which, prefix, **values):
        host.sh(' && '.join(f'{which} -o update -n {prefix}.{name} -v {value}'
                            for name, value in values.items()))

    try:
        host.sh(f'{discovery} -o new')
        host.sh(f'{discovery} --discover', status=NOT_ALLOWED)
        update(discovery, 'discovery.sendtargets.auth', authmethod='CHAP', username='kernel',
               password=SECRET)
        assert guarded.target in host.sh(f'{discovery} --discover')
        update(record, 'node.session.auth', authmethod='CHAP', username='kernel',
               password=SECRET, username_in='node', password_in=TARGET_SECRET)
        for algorithm in ('MD5', 'SHA256', 'SHA3-256'):
            update(record, 'node.session.auth', chap_algs=algorithm)
            host.sh(f'{record} --login')
            host.until('ls /dev/sd[b-z]')
            host.sh(f'{record} --logout')
        sessions = guarded.status()['iscsi']['sessions']
        update(record, 'node.session.auth', password_in='a-secret-of-another')
        host.sh(f'{record} --login', status=None)
        update(record, 'node.session.auth', password='a-secret-of-another')
        host.sh(f'{record} --login', status=NOT_ALLOWED)
        assert host.sh('ls /dev/sd[b-z]', status=None).count('/dev/sd') <= 1
        assert guarded.status()['iscsi']['unproven'] >= 2
        assert guarded.status()['iscsi']['sessions'] <= sessions + 1
    finally:
        guarded.end()


def a_logout_leaves_nothing(host, node):
    for _ in range(count(1, 50)):
        host.logout(node.target)
        host.login(node.target)
    host.logout(node.target)
    until(lambda: node.status()['connections'] == 0)
    assert node.status()['pool_taken'] == 0, node.status()
    assert not host.complaints(), host.complaints()


CASES = [discovery_lists_what_the_initiator_may_use,
         a_target_that_is_not_the_initiators_refuses_the_login, a_login_makes_a_disk,
         what_is_written_lies_in_the_volume, what_fio_writes_it_reads,
         a_file_system_outlives_the_session, a_trim_makes_holes,
         an_rta_that_is_killed_loses_nothing, a_node_that_is_started_again_goes_on, digests_hold,
         units_of_one_target_are_disks_that_come_and_go,
         who_knows_its_secret_logs_in_and_no_other, a_logout_leaves_nothing]


# --- the run -----------------------------------------------------------------------------------


def main():
    options = arguments(__doc__).parse_args()
    need(PROGRAMS)
    vm.enter()
    tap = Tap()
    with vm.scratch_folder(options.keep) as scratch:
        guest = vm.Guest(scratch, PROGRAMS, extras=['iscsi'])
        node = Node(scratch)
        try:
            host = Host(guest)
            host.begin_service()
            run_cases(tap, host, node, CASES, options.only, a_login_makes_a_disk)
        finally:
            node.end()
            guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
