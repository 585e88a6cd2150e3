"""What the scripts about `weft draw` share: captures of programs on weft, and pictures as lists of
what stands in them."""

import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import time
import xml.etree.ElementTree as ET

from cases import WEFT, Skip, skip_all, tapnet, weft

SVG = '{http://www.w3.org/2000/svg}'
PORT = 7471
LIMIT_S = 60
ALLOTMENT = 16384


# --- making captures ------------------------------------------------------------------------------

@contextlib.contextmanager
def tcpdump(path, what='ip'):
    """Captures on the loopback device while the body runs, UDP at least."""
    if not shutil.which('tcpdump') or os.geteuid() != 0:
        raise Skip('needs tcpdump, and root')
    with open(path, 'wb') as file:
        # At once means a ring of packets of the longest length: room for 900 of them.
        words = ['tcpdump', '-i', 'lo', '-s', '70000', '-B', '65536', '-U', '--immediate-mode',
                 '-w', '-', what]
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr:
            if 'listening on' in line:
                break
        yield
        knock(path, process)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def knock(path, process):
    """Packets are written in their order: when this one has been, all before it have."""
    word = f'that was all of {path}'.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(word, ('127.0.0.1', 9))
    deadline = time.monotonic() + LIMIT_S
    while word not in path.read_bytes():
        assert process.poll() is None and time.monotonic() < deadline, 'tcpdump writes no more'
        time.sleep(0.05)


def rping(size, count=3, wire_name='iwarp', **env):
    # Ports of RoCE are those of TCP, where iWARP's connections linger.
    port = PORT if wire_name == 'iwarp' else PORT + 1
    words = ['rping', '-a', '127.0.0.1', '-p', port, '-C', count, '-S', size]
    run_pair([*words, '-s'], [*words, '-c'], wire_name=wire_name, **env)


def run_pair(server_words, client_words, server=None, client=None, wire_name='iwarp',
             listens=None):
    """A program as server and client, each with variables of its own. The client begins when
    `listens` says so of the server's process."""
    listens = listens or is_listening
    if not shutil.which(server_words[0]):
        raise Skip(f'no {server_words[0]}')
    clean = {name: value for name, value in os.environ.items() if not name.startswith('WEFT_')}
    clean['WEFT_LOCAL'] = 'off'  # tcpdump sees what is on the wire
    prefix = [WEFT, 'run', '-q', f'--wire={wire_name}']
    serving = subprocess.Popen([*prefix, *map(str, server_words)],
                               env={**clean, **(server or {})}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not listens(serving.pid):
            assert serving.poll() is None, f'the server ended: {serving.stderr.read()}'
            assert time.monotonic() < deadline, 'the server does not listen'
            time.sleep(0.02)
        subprocess.run([*prefix, *map(str, client_words)], env={**clean, **(client or {})},
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=LIMIT_S)
        serving.wait(LIMIT_S)
    finally:
        serving.kill()
        serving.wait()
        serving.stderr.close()


def is_listening(pid):
    """RoCE's listeners have names (link/datagram/serve.c), those of iWARP are counted."""
    if f'@weft-roce.{os.geteuid()}.4791.serves.' in pathlib.Path('/proc/net/unix').read_text():
        return True
    said = weft('stat', '--json', pid).stdout
    return any(one['state'] == 'listening' for device in json.loads(said or '[]')
               for one in device.get('connections', []))


def read_pcap(path):
    """(the file's header, its packets: (record header, octets))."""
    octets = pathlib.Path(path).read_bytes()
    packets, at = [], 24
    while at < len(octets):
        captured, = struct.unpack_from('<I', octets, at + 8)
        packets.append((octets[at:at + 16], octets[at + 16:at + 16 + captured]))
        at += 16 + captured
    return octets[:24], packets


def write_pcap(path, head, packets):
    pathlib.Path(path).write_bytes(head + b''.join(map(b''.join, packets)))


def capture_of_weft(folder, name='weft.pcap', size=3000, **env):
    path = pathlib.Path(folder, name)
    rping(size, server=env, client={**env, 'WEFT_PCAP': str(path)})
    return path


# --- reading pictures -----------------------------------------------------------------------------

Event = collections.namedtuple('Event', 'classes packet side fpdus title desc y')
Record = collections.namedtuple('Record', 'classes number side title desc')
Span = collections.namedtuple('Span', 'classes side title desc top bottom x')


def draw(capture, *words, status=0):
    """The picture: (its root, its events, its spans)."""
    return draw_records([capture], *words, status=status)[:3]


def draw_records(captures, *words, status=0):
    """The picture, and its records of what no packet shows."""
    result = weft('draw', *captures, '--unfolded', '--max-events=20000', *words)
    assert result.returncode == status, result.stderr
    root = ET.fromstring(result.stdout)
    events, spans, records = [], [], []
    for group in root.iter(f'{SVG}g'):
        classes = (group.get('class') or '').split()
        if 'data-record' in group.keys():
            records.append(Record(set(classes), int(group.get('data-record')),
                                  int(group.get('data-side')), group.find(f'{SVG}title').text,
                                  group.find(f'{SVG}desc').text))
        elif 'e' in classes:
            path = group.find(f'{SVG}path').get('d')
            events.append(Event(set(classes), int(group.get('data-packet')),
                                int(group.get('data-side')), int(group.get('data-fpdus')),
                                group.find(f'{SVG}title').text, group.find(f'{SVG}desc').text,
                                int(re.match(r'M-?\d+ (\d+)', path)[1])))
        elif 's' in classes:
            bar = group.find(f'{SVG}rect')
            top = int(bar.get('y')) if bar is not None else 0
            spans.append(Span(set(classes), int(group.get('data-side')),
                              group.find(f'{SVG}title').text, group.find(f'{SVG}desc').text, top,
                              top + int(bar.get('height')) if bar is not None else 0,
                              int(bar.get('x')) if bar is not None else 0))
    return root, events, spans, records


def of(things, name):
    return [thing for thing in things if name in thing.classes]


def enter_namespace():
    """A network of this test's own, or the end: where there can be none, all is skipped."""
    try:
        tapnet.enter_namespace('ip', 'link', 'set', 'lo', 'up')
    except tapnet.NotHere as why:
        skip_all(str(why))
    tapnet.ip('link', 'set', 'lo', 'up')
