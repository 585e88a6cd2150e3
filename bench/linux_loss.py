#!/usr/bin/env python3
"""What the kernel's TCP makes of a path that loses packets, for docs/tcp.md: Linux beside weft.

    bench/linux_loss.py [--megabytes N] [--loss P,...] [--rtt MS,...]

A guest under QEMU with Debian's kernel: two network namespaces, a veth pair between them, netem on
both ends (1 Gbit/s, half the round trip each way, losses towards the receiver only), packets of
1500 octets without offload, iperf3 with CUBIC. The guest's time is a count of its instructions
(-icount), so it does not depend on this machine's speed, and waiting costs nothing. Prints the
goodput, a line for each path. Not part of `make bench`: it takes some minutes, and needs the
packages of the set `vm` and iperf3.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(SOURCE / 'tests/siw'), str(SOURCE / 'tests/judges')]

import vm  # noqa: E402  (found by the line above)

PROGRAMS = ['ip', 'tc', 'iperf3']

INIT = r'''#!/bin/busybox sh
export PATH=/usr/bin:/usr/sbin:/bin:/sbin
/bin/busybox --install -s 2>/dev/null
ip() { /usr/bin/ip "$@"; } # not the shell's own
tc() { /usr/sbin/tc "$@"; }
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /run/netns /var/run
ln -s /run/netns /var/run/netns
for module in /modules/*; do insmod $module; done
ip link set lo up
ip netns add peer
ip link add v0 mtu 1500 type veth peer name v1 mtu 1500 netns peer
ip link set v0 gso_max_segs 1
ip netns exec peer ip link set v1 gso_max_segs 1
ip address add 10.0.0.1/24 dev v0
ip link set v0 up
ip netns exec peer ip address add 10.0.0.2/24 dev v1
ip netns exec peer ip link set v1 up
ip netns exec peer iperf3 -s -D
sleep 1
measure() { # RTT_US LOSS MEGABYTES
    tc qdisc replace dev v0 root netem delay $(($1 / 2))us rate 1gbit loss $2% limit 2000
    ip netns exec peer tc qdisc replace dev v1 root netem delay $(($1 / 2))us limit 2000
    echo "PATH $1 $2 $(iperf3 -c 10.0.0.2 -n $3M -f k | grep receiver)"
}
@RUNS@
echo END
poweroff -f
'''


def initramfs(path, runs):
    kernel = vm.kernel_files()
    archive = vm.Archive(path)
    for link in ('bin', 'sbin', 'lib', 'lib64'):
        archive.add(link, vm.Archive.LINK, f'usr/{link}'.encode())
    for folder in ('usr/bin', 'usr/sbin', 'usr/lib', 'usr/lib64', 'proc', 'sys', 'dev', 'tmp',
                   'run', 'var', 'etc'):
        archive.add(folder, vm.Archive.FOLDER)
    lines = '\n'.join(f'measure {rtt_us} {loss} {megabytes}' for rtt_us, loss, megabytes in runs)
    archive.add('init', vm.Archive.FILE, INIT.replace('@RUNS@', lines).encode())
    archive.add('usr/bin/busybox', vm.Archive.FILE,
                pathlib.Path(vm.shutil.which('busybox')).read_bytes())
    for module in sorted((kernel / 'modules.netem').iterdir()):
        archive.add(f'modules/{module.name}', vm.Archive.FILE, module.read_bytes())
    for program in PROGRAMS:
        archive.add_program(vm.shutil.which(program, path='/bin:/sbin:/usr/bin:/usr/sbin'))
    archive.write()
    return kernel


def guest_says(scratch, runs):
    """The lines that a guest prints, as they come."""
    kernel = initramfs(scratch / 'initramfs', runs)
    with subprocess.Popen(
            ['qemu-system-x86_64', '-accel', 'tcg,thread=single', '-icount', 'shift=0,sleep=off',
             '-cpu', 'max', '-smp', '1', '-m', '512', '-nodefaults', '-no-reboot',
             '-display', 'none', '-kernel', kernel / 'vmlinux',
             '-initrd', scratch / 'initramfs', '-serial', 'stdio',
             '-append', 'console=ttyS0 quiet panic=-1 oops=panic mitigations=off nowatchdog '
                        'random.trust_cpu=on'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors='replace') as guest:
        yield from guest.stdout


def numbers(text):
    return [float(word) for word in text.split(',')]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--megabytes', type=int, default=16, help='sent on each path')
    parser.add_argument('--loss', type=numbers, default='0,0.1,0.3,1,3,5,10', metavar='PERCENT,...')
    parser.add_argument('--rtt', type=numbers, default='0.1,1,20', metavar='MS,...')
    arguments = parser.parse_args()
    runs = [(int(rtt * 1000), f'{loss:g}', arguments.megabytes)
            for rtt in arguments.rtt for loss in arguments.loss]
    left = len(runs)
    with tempfile.TemporaryDirectory(prefix='weft-linux.') as scratch:
        for line in guest_says(pathlib.Path(scratch), runs):
            found = re.search(r'PATH (\d+) (\S+) .* ([\d.]+) Kbits/sec', line)
            if found:
                left -= 1
                print(f'rtt {int(found[1]) / 1000:g} ms, loss {found[2]} %: '
                      f'{float(found[3]) / 8000:.2f} MB/s', flush=True)
    if left:
        sys.exit(f'linux_loss: {left} of {len(runs)} paths gave no figure')


if __name__ == '__main__':
    main()
