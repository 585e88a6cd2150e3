"""Network namespaces with tap devices, for programs over weft's own TCP, or RoCE, on such a device.

enter_namespace() puts the calling script into network and process namespaces of its own, so nothing
can collide and nothing outlives the script. A TapSide is a side in the sense of judge.py whose
programs have a tap device there: each is a host of its own behind this machine's kernel, which
routes between them and whoever else is in the namespace.

NotHere is raised, with one line for the user, where this machine cannot do that.
"""

import functools
import os
import pathlib
import socket
import subprocess
import sys

from judge import WEFT, Local, skip_all


class NotHere(Exception):
    """This machine cannot do what the script needs; the message says why."""


TAP_PROBE = ('ip', 'tuntap', 'add', 'dev', 'probe', 'mode', 'tap')


@functools.cache
def own_runtime_folder():
    """Nodes' sockets are named after process ids, which are those of this namespace."""
    if os.path.isdir('/run/weft') or os.access('/run', os.W_OK):
        os.makedirs('/run/weft', exist_ok=True)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=700', 'weft', '/run/weft'], check=True)


def enter_namespace(*probe_words):
    """Starts this script over in namespaces of its own; returns in there.

    probe_words: a command that must work there, without any that makes a tap device.
    """
    if 'WEFT_OWN_NAMESPACE' in os.environ:
        own_runtime_folder()
        return
    words = ['unshare', '--net', '--pid', '--fork', '--kill-child', '--mount-proc']
    if os.geteuid() != 0:
        words += ['--user', '--map-root-user']
    if not probe_words and not os.path.exists('/dev/net/tun'):
        raise NotHere('no /dev/net/tun')
    probe_words = probe_words or TAP_PROBE
    probe = subprocess.run([*words, *probe_words], stderr=subprocess.PIPE, text=True)
    if probe.returncode:
        raise NotHere(f'no network namespace with such a device: {probe.stderr.strip()}')
    os.environ['WEFT_OWN_NAMESPACE'] = '1'
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def route_between_all():
    """Lets hosts behind different devices reach each other, by this machine's routing."""
    pathlib.Path('/proc/sys/net/ipv4/ip_forward').write_text('1')


def ip(*words):
    subprocess.run(['ip', *words], check=True)


class TapSide(Local):
    """Programs under weft with the device weftN: host 10.78.N.2, this machine being 10.78.N.1.

    by_peer: they have the machine's own sockets too, for all other peers.
    roce: the device is RoCE's, and the only one.
    """

    def __init__(self, number, scratch=None, options=(), by_peer=False, roce=False):
        if not os.access(WEFT, os.X_OK):
            skip_all(f'{WEFT} is not built')
        device, net = f'weft{number}', f'10.78.{number}'
        ip('link', 'set', 'lo', 'up')
        ip('tuntap', 'add', 'dev', device, 'mode', 'tap')
        ip('address', 'add', f'{net}.1/24', 'dev', device)
        ip('link', 'set', device, 'up')
        link = f'tap:{device},{net}.2/24,gateway={net}.1'
        link = f'10.78.0.0/16={link};*=socket' if by_peer else link
        options = [*options, '--wire=roce'] if roce else options
        self.roce = roce
        # Root of these namespaces only; there is nobody else in them.
        super().__init__(f'{net}.2', [WEFT, 'run', f'--link={link}', *options],
                         unprivileged=False, scratch=scratch)

    def listens(self, port):
        """No table of the kernel knows: a connection tells, which says nothing and goes again.
        A port of RoCE's connection manager is held in the kernel's table all the same."""
        if self.roce:
            return super().listens(port)
        try:
            socket.create_connection((self.addr, port), timeout=0.5).close()
            return True
        except OSError:
            return False
