"""A virtual machine whose kernel is an iWARP peer: Debian's kernel with its own siw driver.

It has rxe, the kernel's software InfiniBand (RoCE), as well: Guest.use_device() changes to it.

A script begins with enter(), which skips it where this machine cannot do that. Three steps, each
of a few seconds but the first (a minute, once):

    kernel_files()   Debian's kernel, unpacked and not installed, and siw.ko built from Debian's
                     kernel source without a change; kept in $XDG_CACHE_HOME/weft-siwvm
    Guest(...)       an initramfs of busybox, those modules and the RDMA programs of this machine,
                     booted under QEMU's emulation (no KVM) on a tap device
    guest.start()    a program in the guest; Guest is a side in the sense of judges/judge.py

The network is a private one, see tapnet.enter_namespace(). vnet_hdr=off leaves no offload on that
link: its frames are those of a real wire, and QEMU writes all of them to a capture file.

tapnet.NotHere is raised where this machine cannot do that.
"""

import contextlib
import fcntl
import glob
import lzma
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'judges'))

from judge import listening_ports, skip_all  # noqa: E402  (found by the line above)
from tapnet import NotHere, enter_namespace  # noqa: E402

CACHE = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache',
                     'weft-siwvm')
AGENT_PORT = 7
BOOT_LIMIT_S = 120

TOOLS = {  # program: the package that has it
    'qemu-system-x86_64': 'qemu-system-x86', 'busybox': 'busybox-static', 'depmod': 'kmod',
    'dpkg-deb': 'dpkg', 'make': 'make', 'gcc': 'gcc', 'xz': 'xz-utils', 'ip': 'iproute2',
    'rdma': 'iproute2', 'rping': 'rdmacm-utils', 'ib_send_bw': 'perftest', 'unshare': 'util-linux',
}
GUEST_PROGRAMS = [
    'rdma', 'rping', 'ib_send_bw', 'ib_send_lat', 'ib_write_bw', 'ib_write_lat', 'ib_read_bw',
    'ib_read_lat',
]
GUEST_MODULES = ['virtio_pci', 'virtio_net', 'crc32c_generic', 'crc32_generic', 'ib_uverbs',
                 'rdma_ucm', 'rdma_rxe', 'siw']
# What a guest has besides if it is to: see Guest(extras=...).
EXTRA_MODULES = {
    'nvme': ['nvme_tcp', 'nvme_rdma', 'ext4'],
    'nvmet': ['nvmet_rdma', 'nvmet_tcp'],
    'ata': ['ahci', 'sd_mod', 'sg'],
    'iscsi': ['iscsi_tcp', 'sd_mod', 'ext4'],
    'netem': ['veth', 'sch_netem'],
}
DEVICES = ['siw', 'rxe']


# --- the kernel and its modules, made once -----------------------------------------------------


def enter():
    """The kernel's files and a network of this script's own, or the end of it: it is skipped."""
    try:
        kernel_files()
        enter_namespace()
    except NotHere as why:
        skip_all(str(why))


@contextlib.contextmanager
def scratch_folder(keep):
    """A folder; what explains a failure is copied to `keep`, if any."""
    with tempfile.TemporaryDirectory(prefix='weft-vm.') as folder:
        try:
            yield pathlib.Path(folder)
        finally:
            if keep:
                shutil.copytree(folder, keep, dirs_exist_ok=True,
                                ignore=shutil.ignore_patterns('initramfs', 'disk.img', 'nbd'))


def kernel_files():
    """The folder with vmlinux and, in modules/ and modules.EXTRA/, NN-name.ko, numbered in the
    order of loading."""
    missing = [f'{tool} (package {package})' for tool, package in TOOLS.items()
               if shutil.which(tool, path=os.environ['PATH'] + ':/sbin:/usr/sbin') is None]
    if missing:
        raise NotHere('no ' + ', no '.join(missing))
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / 'lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # What is kept holds these modules and no others.
        wanted = ' '.join(sum(EXTRA_MODULES.values(), GUEST_MODULES))
        kernel = CACHE / f'kernel.{zlib.crc32(wanted.encode()):08x}'
        if not kernel.exists():
            work = CACHE / 'work'
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            build_kernel_files(work)
            (work / 'out').rename(kernel)
            shutil.rmtree(work)
    return kernel


def build_kernel_files(work):
    """Downloads and unpacks the packages in `work`, builds siw.ko, leaves the result in out/."""
    depends = run_tool(['apt-cache', 'depends', 'linux-image-amd64'], work)
    release = re.search(r'Depends: linux-image-(\d[\w.-]+)', depends)
    if not release:
        raise NotHere('apt knows no linux-image-amd64 (apt-get update?)')
    release = release[1]
    series = '.'.join(release.split('.')[:2])
    packages = [f'linux-image-{release}', f'linux-headers-{release}',
                'linux-headers-' + release.removesuffix('-amd64') + '-common',
                f'linux-kbuild-{series}', f'linux-source-{series}']
    run_tool(['apt-get', '-q', 'download', *packages], work)
    for package in work.glob('*.deb'):
        run_tool(['dpkg-deb', '-x', package, work / 'tree'], work)
        package.unlink()

    out = work / 'out'
    (out / 'modules').mkdir(parents=True)
    tree = work / 'tree'
    (out / 'vmlinux').write_bytes(unpacked_kernel((tree / f'boot/vmlinuz-{release}').read_bytes()))
    modules = next(path for path in (tree / 'lib/modules' / release,
                                     tree / 'usr/lib/modules' / release) if path.is_dir())
    siw = build_siw(work, tree / 'usr/src', release, series)
    shutil.copy(siw, modules / 'kernel/siw.ko')
    run_tool(['depmod', '-b', modules.parents[2], release], work)
    own = load_order(modules, GUEST_MODULES)
    for number, path in enumerate(own):
        shutil.copy(path, out / 'modules' / f'{number:02}-{path.name}')
    for extra, names in EXTRA_MODULES.items():
        (out / f'modules.{extra}').mkdir()
        further = [path for path in load_order(modules, names) if path not in own]
        for number, path in enumerate(further, len(own)):
            shutil.copy(path, out / f'modules.{extra}' / f'{number:02}-{path.name}')


def unpacked_kernel(image):
    """The ELF kernel out of a bzImage: unpacking it in an emulated processor costs 2.5 s a boot."""
    start = image.find(b'\xfd7zXZ\0')
    if start < 0:
        return image
    return lzma.LZMADecompressor().decompress(image[start:])


def build_siw(work, usr_src, release, series):
    """Debian has siw's source and does not build it."""
    source = f'linux-source-{series}'
    folder = f'{source}/drivers/infiniband/sw/siw'
    run_tool(['tar', '-C', work, '-xJf', usr_src / f'{source}.tar.xz', folder], work)
    headers = usr_src / f'linux-headers-{release}'
    makefile = headers / 'Makefile'  # it includes the common one by an absolute path
    makefile.write_text(makefile.read_text().replace('/usr/src', str(usr_src)))
    run_tool(['make', '-C', headers, f'M={work / folder}', 'CONFIG_RDMA_SIW=m', 'modules'], work)
    module = work / folder / 'siw.ko'
    run_tool(['strip', '--strip-debug', module], work)
    return module


def load_order(modules, names):
    """Paths of the modules and of what they depend on, dependencies first."""
    depends = {}
    for line in (modules / 'modules.dep').read_text().splitlines():
        path, _, needs = line.partition(':')
        depends[path] = needs.split()
    by_name = {pathlib.Path(path).stem.replace('-', '_'): path for path in depends}
    order = []
    for name in names:
        # modules.dep lists the farthest dependency last.
        for path in [*reversed(depends[by_name[name]]), by_name[name]]:
            if path not in order:
                order.append(path)
    return [modules / path for path in order]


def run_tool(words, folder):
    """The output of a build step; its failure is a reason not to run."""
    words = [str(word) for word in words]
    path = os.environ['PATH'] + ':/sbin:/usr/sbin'
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env={**os.environ, 'PATH': path, 'LC_ALL': 'C'})
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ['no message'])[-1]
        raise NotHere(f'"{" ".join(words[:3])} ..." failed: {last}')
    return done.stdout


# --- the initramfs -----------------------------------------------------------------------------

INIT = rf'''#!/bin/busybox sh
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root
/bin/busybox --install -s 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
echo 1 >/proc/sys/kernel/printk
for module in /modules/*; do insmod $module; done
ulimit -l unlimited
net=$(sed 's/.*weft.net=\([0-9.]*\).*/\1/' /proc/cmdline)
ip link set lo up
ip address add $net.2/24 dev eth0
ip link set eth0 up
ip route add default via $net.1
rdma link add siw0 type siw netdev eth0
exec nc -ll -p {AGENT_PORT} -e /agent
'''

# One connection, one job: the job's text in; out come the number of its process, its output when it
# has ended (a program need not wait for a reader), and its status.
AGENT = '''#!/bin/sh
cat >/tmp/job.$$
sh /tmp/job.$$ 3>&1 >/tmp/out.$$ 2>&1 </dev/null
status=$?
cat /tmp/out.$$
echo "status $status"
rm -f /tmp/job.$$ /tmp/out.$$
'''


class Archive:
    """An initramfs (cpio, format newc) in the making."""

    FOLDER, FILE, LINK = 0o040755, 0o100755, 0o120777

    def __init__(self, path):
        self.path = path
        self.members = {}

    def add(self, name, kind, data=b''):
        name = name.strip('/')
        parent = os.path.dirname(name)
        if parent and parent not in self.members:
            self.add(parent, self.FOLDER)
        self.members.setdefault(name, (kind, data))

    def add_program(self, path):
        """The file and the shared libraries it loads, each where it lies on this machine."""
        listing = subprocess.run(['ldd', path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 text=True).stdout
        for file in [path, *re.findall(r'(/\S+) \(0x', listing)]:
            self.add_file(file)

    def add_file(self, path):
        path = pathlib.Path(path)
        home = path.parent.resolve() / path.name
        self.add(str(home), self.FILE, path.read_bytes())

    def write(self):
        with open(self.path, 'wb') as out:
            for number, (name, (mode, data)) in enumerate(self.members.items(), 1):
                self._member(out, number, name, mode, data)
            self._member(out, 0, 'TRAILER!!!', 0, b'')

    @staticmethod
    def _member(out, number, name, mode, data):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = b'070701' + b''.join(b'%08X' % field for field in fields) + name.encode() + b'\0'
        for part in (head, data):
            out.write(part + b'\0' * (-len(part) % 4))


def write_initramfs(path, kernel, programs, extras):
    archive = Archive(path)
    for link in ('bin', 'sbin', 'lib', 'lib64'):
        archive.add(link, Archive.LINK, f'usr/{link}'.encode())
    for folder in ('usr/bin', 'usr/sbin', 'usr/lib', 'usr/lib64', 'proc', 'sys', 'dev', 'tmp',
                   'run', 'root', 'etc'):
        archive.add(folder, Archive.FOLDER)
    archive.add('init', Archive.FILE, INIT.encode())
    archive.add('agent', Archive.FILE, AGENT.encode())
    archive.add('etc/hosts', Archive.FILE, b'127.0.0.1 localhost\n')
    archive.add('etc/passwd', Archive.FILE, b'root:x:0:0:root:/root:/bin/sh\n')
    archive.add('usr/bin/busybox', Archive.FILE,
                pathlib.Path(shutil.which('busybox')).read_bytes())
    for folder in ['modules', *(f'modules.{extra}' for extra in extras)]:
        for module in sorted((kernel / folder).iterdir()):
            archive.add(f'modules/{module.name}', Archive.FILE, module.read_bytes())
    for program in programs:
        archive.add_program(shutil.which(program, path=os.environ['PATH'] + ':/sbin:/usr/sbin'))
    # What the programs load at run time only: the driver's user half, and what cancels a thread.
    for device in DEVICES:
        for provider in glob.glob(f'/usr/lib/*/libibverbs/lib{device}-rdmav*.so'):
            archive.add_program(provider)
            archive.add_file(f'/usr/lib/{provider.split("/")[3]}/libgcc_s.so.1')
        archive.add_file(f'/etc/libibverbs.d/{device}.driver')
    archive.write()


# --- the machine -------------------------------------------------------------------------------


def ata_disk(path):
    return ['-device', 'ahci,id=ahci', '-device', 'ide-hd,drive=disk,bus=ahci.0',
            '-drive', f'file={path},format=raw,if=none,id=disk,discard=unmap']


class Guest:
    """A running machine, as a side that programs can be started on.

    Guest number n has the address 10.77.n.2, the machine beneath it is 10.77.n.1 there.
    """

    def __init__(self, scratch, programs=GUEST_PROGRAMS, number=0, extras=(), disk=None):
        """`scratch`: a folder of its own; `programs`: names or paths of what it is to hold;
        `extras`: of EXTRA_MODULES; `disk`: a file that is to be an ATA disk (/dev/sda, /dev/sg0),
        with the extra `ata`."""
        kernel = kernel_files()
        initramfs = scratch / 'initramfs'
        net = f'10.77.{number}'
        tap = f'tap{number}'
        self.addr = f'{net}.2'
        self.host_addr = f'{net}.1'
        self.programs = {os.path.basename(program) for program in programs}
        self.capture = scratch / 'wire.pcap'
        self.console = scratch / 'console'
        write_initramfs(initramfs, kernel, programs, extras)
        for words in (['link', 'set', 'lo', 'up'], ['tuntap', 'add', 'dev', tap, 'mode', 'tap'],
                      ['address', 'add', f'{self.host_addr}/24', 'dev', tap],
                      ['link', 'set', tap, 'up']):
            run_tool(['ip', *words], scratch)
        self.process = subprocess.Popen(
            ['qemu-system-x86_64', '-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', '2',
             '-m', '1024', '-nodefaults', '-no-reboot', '-display', 'none',
             '-kernel', kernel / 'vmlinux', '-initrd', initramfs,
             '-append', 'console=ttyS0 quiet panic=-1 oops=panic mitigations=off '
                        f'random.trust_cpu=on nowatchdog no_timer_check weft.net={net}',
             '-serial', f'file:{self.console}',
             '-netdev', f'tap,id=net,ifname={tap},script=no,downscript=no,vnet_hdr=off',
             '-device', 'virtio-net-pci,netdev=net,romfile=',
             '-object', f'filter-dump,id=dump,netdev=net,file={self.capture}']
            + (ata_disk(disk) if disk else []),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(scratch / 'qemu', 'w'))
        self._wait_for_boot(scratch)

    def _wait_for_boot(self, scratch):
        deadline = time.monotonic() + BOOT_LIMIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                GuestProcess(self.addr, ['true'], {}, 10, patience=1).wait(10)
                return
            except OSError:
                time.sleep(0.1)
        self.end()
        raise RuntimeError('the guest did not boot:\n' + (scratch / 'qemu').read_text()
                           + self.console_text())

    def console_text(self):
        return self.console.read_text(errors='replace') if self.console.exists() else ''

    def end(self):
        """Ends the machine; the capture file is complete then."""
        self.process.terminate()
        self.process.wait()

    def has(self, program):
        return program == 'sh' or os.path.basename(program) in self.programs

    def start(self, words, env, limit):
        return GuestProcess(self.addr, words, env, limit)

    def run(self, words, limit=30):
        """The output of a short program."""
        process = self.start(words, {}, limit)
        process.wait(limit)
        return process.output()

    def use_device(self, device):
        """Makes `device` (siw at first, or rxe) the RDMA device of the guest's interface."""
        for other in DEVICES:
            self.run(['sh', '-c', f'rdma link delete {other}0 2>/dev/null'])
        fault = self.run(['rdma', 'link', 'add', f'{device}0', 'type', device, 'netdev', 'eth0'])
        if fault:
            raise RuntimeError(f'the guest has no {device}: {fault}')

    def listens(self, port):
        return port in listening_ports(self.run(['cat', '/proc/net/tcp', '/proc/net/tcp6']))


class GuestProcess:
    """A program in the guest, on a connection of its own to the agent there."""

    def __init__(self, addr, words, env, limit, patience=30):
        exports = ''.join(f'export {name}={shlex.quote(value)}\n' for name, value in env.items())
        command = shlex.join(str(word) for word in words)
        job = f'{exports}echo $$ >&3\nexec timeout -s KILL {int(limit) + 1} {command} 3>&-\n'
        self.addr = addr
        self.received = b''
        self.ended = False
        self.link = socket.create_connection((addr, AGENT_PORT), timeout=patience)
        self.link.sendall(job.encode())
        self.link.shutdown(socket.SHUT_WR)

    def wait(self, seconds):
        """As LocalProcess.wait()."""
        deadline = time.monotonic() + seconds
        while not self.ended:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.link], [], [], left)[0]:
                return None
            data = self.link.recv(1 << 16)
            self.received += data
            self.ended = not data
        status = re.search(rb'status (\d+)\n\Z', self.received)
        if not status:
            return 255
        status = int(status[1])
        return 128 - status if 128 < status <= 128 + signal.SIGRTMAX else status

    def poll(self):
        return self.wait(0)

    def stop(self):
        """Ends the program; `timeout` runs it in the process that printed its number."""
        if self.poll() is None:
            number = self.received.partition(b'\n')[0].decode()
            GuestProcess(self.addr, ['kill', number], {}, 5).wait(5)
            if self.wait(2) is None:
                GuestProcess(self.addr, ['kill', '-9', number], {}, 5).wait(5)
                self.wait(2)
        self.link.close()

    def output(self):
        text = self.received.decode(errors='replace').partition('\n')[2]
        return re.sub(r'status \d+\n\Z', '', text)
