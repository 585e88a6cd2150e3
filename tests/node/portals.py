"""Portals of iSCSI for the tests of discovery: Debian's tgt, and one of ours that means harm."""

import contextlib
import pathlib
import shutil
import socket
import struct
import tempfile
import threading

from serving import LIMIT, Skip, free_port, os, subprocess, until

PATH = os.environ['PATH'] + ':/usr/sbin:/sbin'
PREFIX = 'iqn.2026-11.invalid.judge:'
MIB = 1 << 20


class Tgt:
    """tgtd as a portal: targets by number and name, with units that are files."""

    def __enter__(self):
        if not shutil.which('tgtd', path=PATH) or not shutil.which('tgtadm', path=PATH):
            raise Skip('no tgtd (package tgt)')
        self.place = tempfile.TemporaryDirectory(prefix='weft-tgt.')
        self.port = free_port()
        self.env = {**os.environ, 'PATH': PATH,
                    'TGT_IPC_SOCKET': str(pathlib.Path(self.place.name, 'control'))}
        self.begin()
        return self

    def __exit__(self, *_):
        self.end()
        self.place.cleanup()

    def begin(self):
        self.process = subprocess.Popen(
            ['tgtd', '-f', '-C', '2', '--iscsi', f'portal=127.0.0.1:{self.port}'], env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(self.is_there)
        except BaseException:
            self.__exit__()
            raise

    def end(self):
        self.process.kill()  # it does not listen to less
        self.process.wait()

    def is_there(self):
        if self.process.poll() is not None:
            raise Skip('tgtd does not run here')
        return self.ask('--mode', 'target', '--op', 'show').returncode == 0

    def ask(self, *words):
        return subprocess.run(['tgtadm', '-C', '2', '--lld', 'iscsi', *map(str, words)],
                              env=self.env, stdin=subprocess.DEVNULL, timeout=LIMIT, text=True,
                              capture_output=True)

    def tell(self, *words):
        said = self.ask(*words)
        assert said.returncode == 0, f'tgtadm {words}: {said.stderr}'

    def target(self, number, name, *luns):
        self.tell('--op', 'new', '--mode', 'target', '--tid', number, '-T', PREFIX + name)
        for lun in luns:
            self.unit(number, lun)
        self.tell('--op', 'bind', '--mode', 'target', '--tid', number, '-I', 'ALL')

    def unit(self, target, lun):
        disk = pathlib.Path(self.place.name, f'disk-{target}-{lun}')
        if not disk.exists():
            with disk.open('wb') as out:
                out.truncate(lun * MIB)
        self.tell('--op', 'new', '--mode', 'logicalunit', '--tid', target, '--lun', lun,
                  '-b', disk, '--bstype', 'rdwr')

    def unit_gone(self, target, lun):
        self.tell('--op', 'delete', '--mode', 'logicalunit', '--tid', target, '--lun', lun)

    def lock(self, target):
        """Who logs in from now on needs a password."""
        account = ['--mode', 'account', '--user', 'judge']
        self.tell('--op', 'new', *account, '--password', 'secretsecret')
        self.tell('--op', 'bind', *account, '--tid', target)

    def uri(self, pattern='*', *parameters):
        tail = '?' + '&'.join(parameters) if parameters else ''
        return f'iscsi://127.0.0.1:{self.port}/{pattern}{tail}'


def name(target, lun):
    """What the volume of a unit is called."""
    return f'{PREFIX}{target}-lun{lun}'.replace(':', '_')


LOGIN, TEXT, LOGOUT, COMMAND = 0x03, 0x04, 0x06, 0x01
REPORT_LUNS, INQUIRY = 0xa0, 0x12


class Hostile:
    """A portal that answers discovery with whatever octets it is given. Its targets refuse the
    login, or have so many units, of which all are said to be disks."""

    def __init__(self, answer, units=0, is_silent=False, session=None):
        self.answer, self.units, self.is_silent = answer, units, is_silent
        self.session = session or Session
        self.logins = 0

    def __enter__(self):
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                threading.Thread(target=self.speak, args=(peer,), daemon=True).start()

    def speak(self, peer):
        with contextlib.suppress(OSError, EOFError, struct.error), peer:
            self.session(self, peer).run()

    def uri(self, *parameters):
        tail = '?' + '&'.join(parameters) if parameters else ''
        return f'iscsi://127.0.0.1:{self.port}/*{tail}'


class Session:
    """One connection, by RFC 7143."""

    def __init__(self, portal, peer):
        self.portal, self.peer, self.number = portal, peer, 0
        self.is_discovery = True

    def receive(self, count):
        data = b''
        while len(data) < count:
            part = self.peer.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def send(self, opcode, flags, request, data=b'', at_8=bytes(8), tail=b''):
        """Opcode, flags, length, the request's task tag, StatSN, ExpCmdSN, MaxCmdSN."""
        window = struct.unpack_from('>I', request, 24)[0] + (request[0] & 0x40 == 0)
        head = (bytes([opcode, flags, 0, 0]) + struct.pack('>I', len(data)) + at_8
                + request[16:20] + b'\xff' * 4
                + struct.pack('>III', self.number, window, window + 64) + tail)
        self.number += 1
        self.peer.sendall(head.ljust(48, b'\0') + data + bytes(-len(data) % 4))

    def run(self):
        takes = {LOGIN: self.login, TEXT: self.text, LOGOUT: self.logout, COMMAND: self.command}
        while True:
            request = self.receive(48)
            data = self.receive((int.from_bytes(request[5:8], 'big') + 3) // 4 * 4)
            if self.portal.is_silent:
                continue
            takes[request[0] & 0x3f](request, data)

    def login(self, request, data):
        if b'SessionType=' in data:
            self.is_discovery = b'SessionType=Discovery' in data
            self.portal.logins += 1
        is_refused = not self.is_discovery and self.portal.units == 0
        self.send(0x23, request[1], request, b'' if is_refused else b'HeaderDigest=None\0',
                  at_8=request[8:14] + b'\0\1', tail=b'\2\0' if is_refused else b'\0\0')

    def text(self, request, data):
        if callable(self.portal.answer):
            self.portal.answer(self, request)
        else:
            self.send(0x24, 0x80, request, self.portal.answer)

    def logout(self, request, data):
        self.send(0x26, 0x80, request)

    def command(self, request, data):
        count = min(self.portal.units, 2000)
        luns = struct.pack('>II', 8 * count, 0) + b''.join(
            struct.pack('>H6x', lun) for lun in range(count))
        disk = bytes([0, 0, 6, 2, 31]).ljust(36, b' ')
        data = {REPORT_LUNS: luns, INQUIRY: disk}.get(request[32], b'')
        length, = struct.unpack_from('>I', request, 20)
        self.send(0x25, 0x81, request, data[:length])
