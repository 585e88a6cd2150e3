#!/usr/bin/env python3
"""Many clients and many volumes: none of them can keep an RTA from coming back."""

import json
import time

from crowd import Crowd
from serving import Node, case, main, os, signal, until, weft

CLIENTS = 240


def status(node):
    return json.loads(weft('status', '--json', node.process.pid).stdout)[0]


def kill_rtas(node):
    for pid in node.rtas():
        os.kill(pid, signal.SIGKILL)


def restarts(node):
    return sum(rta['restarts'] for rta in status(node)['rtas'])


def comes_back(node, crowd, deaths=3):
    """The RTAs die with every client's write in their hands; all are answered, and rightly so.
    It takes no longer than to start them did, but for noise and the back-off."""
    quiet = max(crowd.round() for _ in range(3))
    for _ in range(deaths):
        crowd.ask()
        kill_rtas(node)
        begin = time.monotonic()
        crowd.wait()
        took = time.monotonic() - begin
        print(f'# {len(crowd.members)} clients: start {node.start_seconds:.3f} s, '
              f'a round {quiet:.3f} s, with a death {took:.3f} s')
        assert took < 5 + 10 * quiet + 4 * node.start_seconds, f'{took} s'


@case
def a_crowd_of_clients_outlives_its_rta():
    with Node('ram:1M') as node, Crowd(node, CLIENTS) as crowd:
        comes_back(node, crowd)
        assert restarts(node) == 3


@case
def as_many_volumes_as_there_may_be_come_back():
    """256 of them, with an RTA each, and with one for all."""
    volumes = [f'v{i}' for i in range(256)]
    for how in ('each', 'one'):
        words = [f'{name}=ram:1M' for name in volumes]
        with Node(f'--rta={how}', *words) as node, Crowd(node, CLIENTS, volumes) as crowd:
            assert len(node.rtas()) == (256 if how == 'each' else 1)
            comes_back(node, crowd, deaths=2)
            until(lambda: all(v['state'] == 'ready' for v in status(node)['volumes']))


@case
def in_the_host_itself_a_crowd_is_served_too():
    volumes = [f'v{i}' for i in range(256)]
    words = [f'{name}=ram:1M' for name in volumes]
    with Node('--rta=host', *words) as node, Crowd(node, CLIENTS, volumes) as crowd:
        crowd.round()
        assert node.rtas() == [] and restarts(node) == 0


@case
def a_crowd_that_leaves_at_once_harms_no_rta():
    with Node('ram:1M') as node:
        for _ in range(3):
            with Crowd(node, CLIENTS) as crowd:
                crowd.round()
        with Crowd(node, 1) as crowd:
            crowd.round()
        assert restarts(node) == 0, node.said()


@case
def clients_that_come_and_go_harm_no_rta():
    """Ten thousand, some of which have asked for the volume and some not."""
    with Node('ram:1M') as node:
        for _ in range(10000 // CLIENTS + 1):
            with Crowd(node, CLIENTS):
                pass
        with Crowd(node, 1) as crowd:
            crowd.round()
        assert restarts(node) == 0, node.said()


main()
