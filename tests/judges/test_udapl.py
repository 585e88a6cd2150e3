#!/usr/bin/env python3
"""Judges of another API: uDAPL, whose provider over rdma_cm makes verbs of what its programs ask,
on both devices; and one that hands addresses over by a socket of its own, on RoCE."""

import atexit
import fcntl
import pathlib
import re
import shutil
import socket
import struct
import sys
import tempfile

import judge
from judge import Case

# Where servers of dtest's kind tell their clients of themselves, some before they listen.
PORT = 15828
UNHEARD = r"[Cc]ould(n.t| not) connect|Error Connect|non-consumer REJ, reason=8"
SIOCGIFADDR = 0x8915


def interface_of(address):
    """uDAPL names the interface that an RDMA device belongs to."""
    with socket.socket() as asked:
        for _, name in socket.if_nameindex():
            try:
                row = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack('16s240x', name.encode()))
            except OSError:
                continue  # it has no address
            if socket.inet_ntoa(row[20:24]) == address:
                return name
    return None


def provider(folder, library, device):
    """A registry of uDAPL's with one provider, as the environment names it."""
    path = folder / f'{library}.{device.partition(" ")[0]}.conf'
    path.write_text(f'judged u2.0 nonthreadsafe default lib{library}.so.2 dapl.2.0 "{device}" ""\n')
    return {'DAT_OVERRIDE': str(path)}


def dtest(name, program, wanted, addr, env, *options):
    words = [program, '-P', 'judged', *options]
    return Case(f'{program}: {name}', [*words, '-h', addr], words, judge.says(wanted), env=env,
                addr=addr, unheard=UNHEARD, port=0 if program == 'dtestsrq' else PORT)


def dapltest(name, addr, env, *transactions):
    """Its own sizes and counts of all that it has moved, in threads with several endpoints."""
    def check(outcome):
        match = re.search(r'Total RDMA Read *: *([\d.]+) MB', outcome.client)
        return None if match and float(match[1]) > 0 else 'no word of what was read'
    words = ['dapltest', '-T', 'T', '-D', 'judged', '-s', addr, '-i', '50', '-t', '2', '-w', '2']
    return Case(f'dapltest: {name}', [*words, *transactions],
                ['dapltest', '-T', 'S', '-D', 'judged'], check, env=env, addr=addr,
                unheard=UNHEARD, server_stays=True)


def of_device(wire, addr, env):
    passed = r'DAPL Test Complete\. PASSED'
    yield dtest(f'{wire}, messages, Writes, Reads', 'dtest', passed, addr, env, '-b', '65536')
    yield dtest(f'{wire}, short ones', 'dtest', passed, addr, env, '-b', '64')
    yield dtest(f'{wire}, a shared receive queue', 'dtestsrq', r'SRQ Test Complete', addr, env)
    # Each end sleeps for 10 ms whenever a connection has not ended at once: not many.
    yield dtest(f'{wire}, connections', 'dtestcm', r'Connections: .*Num=100\b', addr, env, '-c',
                '100')
    yield dapltest(f'{wire}, threads', addr, env, 'client', 'SR', '256', 'server', 'SR', '256',
                   'client', 'RW', '4096', 'server', 'RR', '65536')


def cases():
    folder = pathlib.Path(tempfile.mkdtemp(prefix='weft-udapl.'))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder)
    yield from of_device('iwarp', '127.0.0.1', provider(folder, 'daplofa', 'lo 0'))
    own = judge.own_address()
    if own is None or interface_of(own) is None:
        print('# no address but those of loopback: nothing of RoCE is tried', file=sys.stderr)
        return
    roce = {'WEFT_WIRE': 'roce', 'WEFT_ROCE_PORT': str(judge.free_port())}
    yield from of_device('roce', own,
                         {**roce, **provider(folder, 'daplofa', f'{interface_of(own)} 0')})
    yield dtest('roce, told by a socket', 'dtest', r'DAPL Test Complete\. PASSED', own,
                {**roce, **provider(folder, 'daploscm', 'weft_roce0 1')}, '-b', '65536')


if __name__ == '__main__':
    judge.run_cases(__doc__, cases)
