#!/usr/bin/env python3
"""A subsystem that a discovery service names at two addresses, the first of which goes away and
comes back: in a network namespace of our own."""

import os
import shutil
import sys

from serving import Node, Skip, case, main, run, subprocess, until

WITHIN = 'WEFT_TEST_WAYS_WITHIN'
FIRST, SECOND = '10.77.9.1', '10.77.9.2'


def address(action):
    run('ip', 'addr', action, f'{FIRST}/32', 'dev', 'lo')


def found(node):
    return [v['name'] for v in node.status()['volumes'] if v['source'] and v['state'] == 'ready']


@case
def where_the_first_address_is_dead_the_next_is_asked():
    if not os.environ.get(WITHIN):
        raise Skip('a namespace of its own needs root, unshare and ip')
    with Node(f'--nvme-tcp={FIRST}:4420', f'--nvme-tcp={SECOND}:4420', 'one=ram:1M'):
        address('del')
        with Node('spare=ram:1M', f'nvme+tcp://{SECOND}:4420/*?interval=1s') as node:
            name, = until(lambda: found(node))
            address('add')
            reads = node.status()['sources'][0]['readings']
            until(lambda: node.status()['sources'][0]['readings'] > reads + 1)
            assert found(node) == [name]
            assert 'removed' not in node.said(), node.said()


def enter():
    """The same once more, within a namespace with both addresses, where that is possible."""
    if os.environ.get(WITHIN) or os.geteuid() != 0 or not shutil.which('unshare'):
        return
    prepare = (f'ip link set lo up && ip addr add {FIRST}/32 dev lo && '
               f'ip addr add {SECOND}/32 dev lo')
    can = subprocess.run(['unshare', '--net', 'sh', '-c', prepare], check=False,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if can.returncode == 0:
        os.environ[WITHIN] = 'yes'
        os.execvp('unshare', ['unshare', '--net', 'sh', '-c', prepare + ' && exec "$0" "$@"',
                              sys.executable, *sys.argv])


enter()
main()
