#!/usr/bin/env python3
"""A node that a service manager starts: sockets that are passed to it, and what it tells of itself.

systemd's own systemd-socket-activate plays the manager where it is installed; for what that does
not do, this script passes sockets by the same protocol.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request

from serving import WEFT, case, expect_error, folder, main, need, run, until

# Puts the descriptors where the protocol has them, says for which process they are, and becomes it.
BEGIN = '''import os, sys
fds = [os.dup(int(fd)) for fd in sys.argv[1].split(",") if fd]
fds = [os.dup2(fd, 100 + n) for n, fd in enumerate(fds)]
for n, fd in enumerate(fds): os.dup2(fd, 3 + n, inheritable=True)
os.environ.update(LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=sys.argv[2],
                  LISTEN_PID=sys.argv[3] or str(os.getpid()))
os.closerange(100, 120)
os.execv(sys.argv[4], sys.argv[4:])'''


def command(sockets, *words, pid=''):
    """A node that has these sockets, pairs of a name and a socket, and descriptors to hand on."""
    fds = [s.fileno() for _, s in sockets]
    return ([sys.executable, '-c', BEGIN, ','.join(map(str, fds)),
             ':'.join(name for name, _ in sockets), pid, WEFT, 'serve', *words], fds)


@contextlib.contextmanager
def node(sockets, *words, **environment):
    line, fds = command(sockets, *words)
    process = subprocess.Popen(line, pass_fds=fds, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **environment})
    try:
        first = process.stdout.readline()
        assert first.startswith('volume '), first
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        process.stdout.close()
    assert process.returncode == 0, process.returncode


def refused(sockets, *words, pid=''):
    line, fds = command(sockets, *words, 'ram:1M', pid=pid)
    return subprocess.run(line, pass_fds=fds, capture_output=True, text=True, timeout=60)


def listener(place):
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(place))
    s.listen()
    return s


def size(path):
    return run('nbdinfo', '--size', f'nbd+unix:///?socket={path}').strip()


@case
def a_client_whose_connection_starts_the_node_is_served():
    need('systemd-socket-activate', 'nbdinfo')
    with folder() as place:
        path = place / 'socket'
        process = subprocess.Popen(
            ['systemd-socket-activate', f'--listen={path}', '--fdname=nbd',
             WEFT, 'serve', '--quiet', '--nbd=fd:nbd', 'ram:3M'], stderr=subprocess.DEVNULL)
        try:
            until(path.exists)
            assert size(path) == str(3 << 20)
        finally:
            process.terminate()
            process.wait(20)
        assert process.returncode == 0, process.returncode


@case
def a_client_that_starts_a_node_itself_names_no_socket():
    need('nbdinfo')
    said = run('nbdinfo', '--size', '--', '[', str(WEFT), 'serve', '--quiet', '--nbd=fd:unknown',
               'ram:3M', ']')
    assert said.strip() == str(3 << 20), said


@case
def clients_wait_at_a_passed_socket_for_the_next_node():
    need('nbdinfo')
    with folder() as place:
        path = place / 'socket'
        with listener(path) as s:
            with node([('nbd', s)], '--nbd=fd:nbd', 'ram:1M'):
                assert size(path) == str(1 << 20)
            assert path.exists()
            early = subprocess.Popen(['nbdinfo', '--size', f'nbd+unix:///?socket={path}'],
                                     stdout=subprocess.PIPE, text=True)
            with node([('nbd', s)], '--nbd=fd:nbd', 'ram:2M'):
                assert early.communicate(timeout=20)[0].strip() == str(2 << 20)


@case
def every_socket_goes_to_the_option_that_has_its_name():
    with socket.create_server(('127.0.0.1', 0)) as page, \
            socket.create_server(('127.0.0.1', 0)) as counters, folder() as place, \
            listener(place / 'socket') as clients:
        with node([('counters', counters), ('clients', clients), ('page', page)],
                  '--metrics=fd:counters', '--nbd=fd:clients', '--http=fd:page', 'ram:1M'):
            said = {name: urllib.request.urlopen(
                'http://127.0.0.1:{}/{}'.format(s.getsockname()[1], path), timeout=20).read()
                for name, s, path in (('page', page, ''), ('counters', counters, 'metrics'))}
            assert b'<html' in said['page'] and b'weft_pool_octets' in said['counters']


@case
def processes_of_rtas_do_not_have_what_was_passed():
    with folder() as place, listener(place / 'socket') as s:
        inode = f'socket:[{os.fstat(s.fileno()).st_ino}]'
        # The first numbers are those of what an RTA is given.
        with node([('other', s)] * 9, f'--nbd=unix:{place}/own', 'ram:1M') as process:
            def has_it(pid):
                return inode in (os.readlink(f'/proc/{pid}/fd/{fd}')
                                 for fd in os.listdir(f'/proc/{pid}/fd'))
            with open(f'/proc/{process.pid}/task/{process.pid}/children') as children:
                rtas = children.read().split()
            assert has_it(process.pid) and rtas and not any(map(has_it, rtas))


@case
def what_was_not_passed_is_refused_by_name():
    with folder() as place, listener(place / 'socket') as s, socket.socket() as deaf, \
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as packets:
        packets.bind(str(place / 'packets'))
        packets.listen()
        expect_error(refused([('a', s)], '--nbd=fd:nbd'), 1, 'fd:nbd: 0 sockets of this name',
                     'FileDescriptorName=nbd')
        expect_error(refused([('nbd', s), ('nbd', s)], '--nbd=fd:nbd'), 1, '2 sockets of this name')
        expect_error(refused([('nbd', s)], '--nbd=fd:nbd', pid='1'), 1, '0 sockets of this name')
        for other in deaf, packets:
            expect_error(refused([('nbd', other)], '--nbd=fd:nbd'), 1,
                         'no stream socket that listens')
        expect_error(refused([('nvme', s)], '--nvme-rdma=fd:nvme'), 1, 'cannot be passed here')


@case
def the_manager_hears_of_the_start_and_of_the_end():
    for name in ('file', 'abstract'):
        with folder() as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(place / 'notify') if name == 'file' else f'\0{place}/notify')
            manager.settimeout(20)
            address = manager.getsockname()
            with node([], f'--nbd=unix:{place}/socket', 'a=ram:1M', 'b=ram:1M',
                      NOTIFY_SOCKET=address if name == 'file' else '@' + address[1:].decode()):
                assert manager.recv(4096) == b'READY=1\nSTATUS=serving 2 volumes by nbd'
            assert manager.recv(4096).startswith(b'STOPPING=1\n')


@case
def a_node_that_cannot_serve_is_not_ready():
    with folder() as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(place / 'notify'))
        said = subprocess.run([WEFT, 'serve', f'--nbd=unix:{place}/none/socket', 'ram:1M'],
                              capture_output=True, text=True, timeout=60,
                              env={**os.environ, 'NOTIFY_SOCKET': manager.getsockname()})
        expect_error(said, 1, 'No such file')
        manager.setblocking(False)
        heard = []
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.append(manager.recv(4096))
        assert heard and not any(b'READY' in word for word in heard), heard


main()
