#!/usr/bin/env python3
"""Limits of a volume, iops= and bps=: by ratios of what fio and clients get side by side."""

import json
import time

import iscsi_host
import nvme_host
from nbd_client import READ, Client
from serving import Iscsi, Node, Nvme, case, expect, folder, main, need, subprocess, until, weft

SECONDS = 1.5


def fio(node, volume, block, depth, jobs=1):
    """A fio that reads the volume; it runs until it is waited for."""
    return subprocess.Popen(
        ['fio', '--name=judge', '--ioengine=nbd', f'--uri={node.uri(volume)}', '--rw=randread',
         f'--bs={block}', f'--iodepth={depth}', '--size=16M', f'--runtime={SECONDS}s',
         '--time_based', '--output-format=json', f'--numjobs={jobs}', '--group_reporting'],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def reads(process):
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return json.loads(said[said.index('{'):])['jobs'][0]['read']


def volume(node, name):
    return next(v for v in node.status()['volumes'] if v['name'] == name)


def is_about(ratio, expected):
    return expected * 0.55 <= ratio <= expected * 1.8  # a busy machine takes some of the time


@case
def requests_a_second_are_those_of_all_clients_together():
    need('fio')
    with Node('a=ram:16M?iops=60', 'b=ram:16M?iops=240') as node:
        one, two = fio(node, 'a', '4k', 8), fio(node, 'b', '4k', 8, jobs=3)
        slow, fast = reads(one)['iops'], reads(two)['iops']
        assert is_about(fast / slow, 4), (fast, slow)
        found = volume(node, 'a')
        assert (found['iops'], found['bps']) == (60, 0) and found['throttled'] > 0, found
        said = weft('status', node.process.pid).stdout
        assert 'limit: 240 requests and any octets a second;' in said, said


@case
def octets_a_second_are_counted_in_requests_of_any_length():
    need('fio')
    with Node('a=ram:16M?bps=2M', 'b=ram:16M?bps=2M') as node:
        one, two = fio(node, 'a', '4k', 8), fio(node, 'b', '64k', 8)
        small, large = reads(one), reads(two)
        assert is_about(large['bw_bytes'] / small['bw_bytes'], 1), (small, large)
        assert small['iops'] > 5 * large['iops'], (small, large)
        said = weft('status', node.process.pid).stdout
        assert 'limit: any requests and 2M octets a second;' in said, said


def answered(client, seconds):
    """Reads, one after the other."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        client.request(READ, 0, 512)
        assert client.take(16 + 512)[:4] == bytes.fromhex('67446698')
        count += 1
    return count


@case
def a_limited_volume_does_not_slow_others():
    with Node('a=ram:1M?iops=20', 'b=ram:1M') as node:
        with Client(node).go(b'a') as limited, Client(node).go(b'b') as free:
            for cookie in range(100):
                limited.request(READ, 0, 512, cookie=cookie)
            until(lambda: volume(node, 'a')['throttled'] >= 90)
            before = volume(node, 'a')['operations']['read']
            beside = answered(free, 1)
            after = volume(node, 'a')['operations']['read']
            assert after < 100, 'nothing waited while the other one was measured'
            assert beside > 5 * (after - before), (beside, before, after)


@case
def a_rescan_changes_the_limit_of_those_who_are_connected():
    with folder() as place:
        file = place / 'node.ini'
        text = '[volume a]\nuri = ram:1M\niops = 10\n'
        file.write_text(text)
        with Node(f'--config={file}') as node, Client(node).go(b'a') as client:
            slow = answered(client, 1)
            file.write_text(text.replace('iops = 10', 'bps = 1G'))
            expect(weft('rescan', node.process.pid), 0, 'a: another rate\n')
            fast = answered(client, 1)
            assert fast > 4 * slow, (fast, slow)
            found = volume(node, 'a')
            assert (found['iops'], found['bps']) == (0, 1 << 30), found


@case
def a_node_that_stops_answers_those_who_wait():
    with Node('a=ram:1M?iops=1') as node, Client(node).go(b'a') as client:
        for cookie in range(50):
            client.request(READ, 0, 512, cookie=cookie)
        until(lambda: volume(node, 'a')['throttled'] >= 48)
        node.process.terminate()
        client.take(50 * (16 + 512))


# Who leaves has asked for as much as the volume gives in 50 seconds.

@case
def what_an_nbd_client_waited_for_ends_with_it():
    with Node('a=ram:1M?iops=1') as node:
        with Client(node).go(b'a') as client:
            for cookie in range(50):
                client.request(READ, 0, 512, cookie=cookie)
            until(lambda: volume(node, 'a')['throttled'] >= 48)
        until(lambda: node.status()['connections'] == 0)
        assert volume(node, 'a')['completions']['transfer'] >= 48


@case
def a_host_that_comes_back_does_not_wait_for_what_it_waited_for():
    with Nvme('a=ram:1M?iops=1') as node:
        with nvme_host.session(node.address, node.nqn) as (_, queue):
            for cid in range(50):
                read = nvme_host.rw(nvme_host.READ, 0, 1, nvme_host.transport(512), cid=cid)
                queue.capsule(read)
            until(lambda: volume(node, 'a')['throttled'] >= 48)
        begin = time.monotonic()
        with nvme_host.session(node.address, node.nqn):
            assert time.monotonic() - begin < 20


@case
def what_an_initiator_waited_for_ends_with_it():
    with Iscsi('a=ram:1M?iops=1') as node:
        with iscsi_host.Initiator(node.address) as initiator:
            initiator.login(node.target)
            initiator.ready()
            for _ in range(50):
                initiator.command([0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, iscsi_host.READ)
            until(lambda: volume(node, 'a')['throttled'] >= 48)
        until(lambda: node.status()['connections'] == 0)


@case
def a_limit_that_cannot_be_is_refused():
    for word, why in (('iops=0', 'iops=0: it must be 1 to'), ('iops=fast', 'iops=fast'),
                      ('bps=0', 'bps=0: it must be octets'), ('bps=-1', 'bps=-1')):
        expect(weft('serve', f'ram:1M?{word}'), 2, '', why)


main()
