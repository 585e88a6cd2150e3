#!/usr/bin/env python3
"""weft's clients at the Linux kernel's NVMe target (nvmet), in a virtual machine, over its siw and,
in the same boot, over its rxe and over TCP.

        --only WORD      only the cases with this in their names
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / 'siw'), str(TESTS / 'judges')]

import vm  # noqa: E402
from judge import Tap, WEFT, count, skip_all  # noqa: E402

LIMIT = 120
SIZE = 32 << 20
NQN = 'nqn.2026-11.test:kernel'
WIRES = {'siw': 'iwarp', 'rxe': 'roce', 'tcp': 'iwarp'}

# A file as a namespace, at a port of its own; the kernel's target is told by folders.
START = f'''set -e
mount | grep -q configfs || mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/nvmet
truncate -s {SIZE} /run/disk
mkdir subsystems/{NQN} subsystems/{NQN}/namespaces/1 ports/1
echo 1 >subsystems/{NQN}/attr_allow_any_host
echo /run/disk >subsystems/{NQN}/namespaces/1/device_path
echo 1 >subsystems/{NQN}/namespaces/1/buffered_io
echo 1 >subsystems/{NQN}/namespaces/1/enable
echo $1 >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo $0 >ports/1/addr_traddr
echo 4420 >ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{NQN} ports/1/subsystems/
'''
STOP = f'''cd /sys/kernel/config/nvmet
rm ports/1/subsystems/{NQN}
rmdir ports/1 subsystems/{NQN}/namespaces/1 subsystems/{NQN}
rm /run/disk
'''


def sh(guest, script, *words):
    process = guest.start(['sh', '-c', script, *words], {}, LIMIT)
    status = process.wait(LIMIT)
    assert status == 0, f'{process.output()}\n{guest.run(["dmesg"])[-1000:]}'


class Target:
    """The kernel's, on one of its devices, or over TCP."""

    def __init__(self, guest, device):
        self.guest, self.wire = guest, WIRES[device]
        transport = 'tcp' if device == 'tcp' else 'rdma'
        if transport == 'rdma':
            guest.use_device(device)
        sh(guest, START, guest.addr, transport)
        self.is_rdma = transport == 'rdma'
        self.place = f'nvme+{transport}://{guest.addr}'
        self.uri = f'{self.place}/{NQN}'

    def end(self):
        sh(self.guest, STOP)

    def weft(self, *words):
        """What the command says, as JSON."""
        done = subprocess.run([WEFT, words[0], '--json', *map(str, words[1:])], text=True,
                              capture_output=True, timeout=LIMIT,
                              env={**os.environ, 'WEFT_WIRE': self.wire})
        assert done.returncode == 0, f'{words}: {done.stdout}{done.stderr}'
        return json.loads(done.stdout)


# --- the cases ---------------------------------------------------------------------------------


def its_volume_is_found_and_shown(target, scratch):
    found = target.weft('discover', target.place)
    assert NQN in [each.get('nqn') for each in found], found
    shown = target.weft('info', target.uri)
    assert shown['size'] == SIZE and not shown['controller']['oneshot'], shown


def what_is_copied_there_comes_back(target, scratch):
    written, read = scratch / 'written', scratch / 'read'
    written.write_bytes(os.urandom(count(4, SIZE >> 20) << 20))
    out = target.weft('cp', written, target.uri)
    home = target.weft('cp', target.uri, read)
    size = written.stat().st_size
    assert read.read_bytes()[:size] == written.read_bytes()
    assert (out['destination']['lent'] > 0) == target.is_rdma, out
    assert home['source']['errors'] == 0, (out, home)


def sent():
    """Octets on the wire to the guest."""
    devices = pathlib.Path('/proc/net/dev').read_text()
    return int(re.search(r'^ *tap0:(.*)$', devices, re.M)[1].split()[8])


def a_client_that_is_killed_leaves_the_volume_to_others(target, scratch):
    whole = scratch / 'whole'
    whole.write_bytes(bytes(SIZE))
    before, deadline = sent(), time.monotonic() + LIMIT
    client = subprocess.Popen([WEFT, 'cp', whole, target.uri], stderr=subprocess.DEVNULL,
                              env={**os.environ, 'WEFT_WIRE': target.wire})
    while sent() - before < 2 << 20:
        assert client.poll() is None and time.monotonic() < deadline, client.poll()
        time.sleep(0.01)
    client.kill()
    client.wait()
    what_is_copied_there_comes_back(target, scratch)


CASES = [its_volume_is_found_and_shown, what_is_copied_there_comes_back,
         a_client_that_is_killed_leaves_the_volume_to_others]


# --- the run -----------------------------------------------------------------------------------


def run_cases(tap, target, device, scratch, only):
    for case in CASES:
        name = f'{device}: {case.__name__.replace("_", " ")}'
        if only not in name:
            continue
        try:
            case(target, scratch)
            tap.report(name, [])
        except (AssertionError, OSError, subprocess.SubprocessError) as why:
            tap.report(name, str(why).splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', default='')
    options = parser.parse_args()
    if not os.access(WEFT, os.X_OK):
        skip_all(f'{WEFT} is not built')
    vm.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-target.') as place:
        scratch = pathlib.Path(place)
        guest = vm.Guest(scratch, ['rdma'], extras=['nvmet'])
        try:
            for device in WIRES:
                target = Target(guest, device)
                run_cases(tap, target, device, scratch, options.only)
                target.end()
        finally:
            guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
