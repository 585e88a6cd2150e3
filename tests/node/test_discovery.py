#!/usr/bin/env python3
"""What portals and discovery services have, as volumes: what comes and goes, who hears of it, and
what those may do who mean harm or are not there."""

import contextlib
import os
import re
import struct
import time

import nvme_host as nvme
from iscsi_host import Initiator
from nvme_host import session, sqe
from portals import MIB, PREFIX, Hostile, Tgt, name
from serving import (Iscsi, Node, Nvme, case, expect, expect_error, folder, free_port, main, need,
                     pathlib, run, signal, until, weft)

SPARE = 'spare=ram:1M'  # a node that finds nothing has a volume to speak of all the same


def states(node):
    return {volume['name']: volume['state'] for volume in node.status()['volumes']}


def found(node):
    """The names of the volumes that are served and that a source has."""
    return sorted(v['name'] for v in node.status()['volumes']
                  if v['source'] and v['state'] == 'ready')


def source(node):
    the_source, = node.status()['sources']
    return the_source


def asker(node):
    """The process that asks."""
    for pid in node.rtas():
        with contextlib.suppress(OSError):
            if pathlib.Path(f'/proc/{pid}/comm').read_text().strip() == 'weft-discovery':
                return pid
    return None


def image(path, size=MIB):
    with open(path, 'wb') as out:
        out.truncate(size)


# ---- portals


@case
def units_of_a_portals_targets_are_volumes():
    need('nbdinfo', 'qemu-io')
    with Tgt() as portal:
        portal.target(1, 'one', 1, 2)
        portal.target(2, 'two', 3)
        with Node(SPARE, portal.uri()) as node:
            names = [name('one', 1), name('one', 2), name('two', 3)]
            until(lambda: found(node) == names)
            assert run('nbdinfo', '--size', node.uri(names[2])).strip() == str(3 * MIB)
            run('qemu-io', '-f', 'raw', '-c', 'write -P 7 4k 8k', node.uri(names[0]))
            disk = pathlib.Path(portal.place.name, 'disk-1-1').read_bytes()
            assert disk[4096:12288] == b'\7' * 8192 and disk[:4096] == bytes(4096)
            assert {v['source'] for v in node.status()['volumes'] if v['name'] != 'spare'} \
                == {portal.uri()}
            shown = weft('status', node.process.pid).stdout
            assert f'source: {portal.uri()}' in shown, shown
            assert source(node)['volumes'] == 3 and source(node)['failures'] == 0


@case
def a_pattern_is_of_names_of_targets():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        portal.target(2, 'two', 1)
        with Node(SPARE, portal.uri('*:t*')) as node:
            until(lambda: found(node) == [name('two', 1)])


@case
def a_unit_comes_and_goes_with_a_rescan_and_clients_are_told():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        with Nvme(portal.uri('*', 'interval=3600s')) as node, \
                session(node.address, nvme.DISCOVERY, 0) as (admin,):
            admin.feature(0xb, 1 << 31)
            admin.capsule(sqe(nvme.AER, 20))
            portal.unit(1, 2)
            expect(weft('rescan', node.process.pid), 0, f'{name("one", 2)}: added\n')
            until(lambda: found(node) == [name('one', 1), name('one', 2)])
            said = admin.answer()
            assert (said.status, said.result, said.cid) == (0, 0x0070f002, 20)
            portal.unit_gone(1, 2)
            expect(weft('rescan', node.process.pid), 0, f'{name("one", 2)}: removed\n')
            until(lambda: found(node) == [name('one', 1)])
            expect(weft('rescan', node.process.pid), 0, '')
            assert f'volume {name("one", 2)}: added' in node.said(), node.said()
            os.kill(node.process.pid, signal.SIGHUP)
            until(lambda: source(node)['readings'] >= 5)


@case
def initiators_of_iscsi_are_told_too():
    unit_attention = 6, 0x3f, 0x0e  # REPORTED LUNS DATA HAS CHANGED
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        ours = f'{PREFIX}ours'
        with Iscsi(portal.uri('*', 'interval=3600s', f'target={ours}')) as node, \
                Initiator(node.address) as host:
            assert isinstance(host.login(ours), dict)
            for lun, change in ((1, portal.unit), (0, portal.unit_gone)):
                host.ready()
                change(1, 2)
                assert weft('rescan', node.process.pid).returncode == 0
                until(lambda lun=lun: len(found(node)) == lun + 1)
                said = host.ask([0])
                assert said.status == 2 and said.sense == unit_attention, (lun, said.data)


@case
def a_portal_is_asked_again_and_again():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        with Node(portal.uri('*', 'interval=1s')) as node:
            portal.unit(1, 2)
            until(lambda: found(node) == [name('one', 1), name('one', 2)])


@case
def a_portal_that_is_away_leaves_its_volumes_as_they_are():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        with Node(SPARE, portal.uri('*', 'interval=1s')) as node:
            portal.end()
            until(lambda: source(node)['state'] == 'waiting')
            expect_error(weft('rescan', node.process.pid), 1, f'127.0.0.1:{portal.port}')
            assert name('one', 1) in states(node)
            said = f'iscsi://127.0.0.1:{portal.port}: it cannot be connected to: '
            until(lambda: source(node)['failures'] >= 3)
            assert node.said().count(said) == 1, node.said()
            portal.begin()
            portal.target(1, 'one', 1, 2)
            until(lambda: found(node) == [name('one', 1), name('one', 2)], limit=40)
            assert 'it answers again' in node.said() and source(node)['why'] == ''


@case
def a_target_that_refuses_keeps_the_volumes_that_it_had():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        portal.target(2, 'two', 1)
        with Node(portal.uri('*', 'interval=3600s')) as node:
            both = sorted(states(node))
            portal.lock(2)
            portal.unit(1, 2)
            expect(weft('rescan', node.process.pid), 0, f'{name("one", 2)}: added\n')
            assert sorted(states(node)) == sorted([*both, name('one', 2)])
            assert source(node)['unasked'] == 1, source(node)
            assert f'the first: {PREFIX}two: ' in node.said(), node.said()


@case
def a_node_starts_though_its_portal_is_not_there():
    with Node(SPARE, f'iscsi://127.0.0.1:{free_port()}/*') as node:
        assert states(node) == {'spare': 'ready'}
        assert source(node)['state'] == 'waiting' and source(node)['why']


@case
def a_node_of_ours_with_secrets_is_a_portal_too():
    with folder() as place:
        secrets = place / 'secrets'
        secrets.touch(0o600)
        secrets.write_text('[initiator judge]\nname = judge\nsecret = 0123456789abcdef\n')
        target = f'target={PREFIX}several'
        with Iscsi(f'--iscsi-secrets={secrets}', f'a=ram:1M?{target}&lun=0',
                   f'b=ram:2M?{target}&lun=3') as portal:
            port = portal.address[1]
            rest = f'127.0.0.1:{port}/*?interval=3600s'
            with Node(SPARE, f'iscsi://judge%250123456789abcdef@{rest}') as node:
                until(lambda: found(node) == [name('several', 0), name('several', 3)])
            with Node(SPARE, f'iscsi://{rest}') as node:
                assert 'it refuses the login' in source(node)['why'], source(node)


@case
def a_node_that_finds_itself_serves_nothing_twice():
    for option, scheme in (('iscsi', 'iscsi'), ('nvme-tcp', 'nvme+tcp')):
        port = free_port()
        uri = f'{scheme}://127.0.0.1:{port}/*?interval=1s'
        with Node(f'--{option}=127.0.0.1:{port}', SPARE, uri) as node:
            until(lambda: source(node)['readings'] >= 2)
            assert states(node) == {'spare': 'ready'}, states(node)
            assert (source(node)['volumes'], source(node)['own']) == (0, 1), source(node)
            assert node.said().count("1 volumes there are this node's own") == 1, node.said()


@case
def nodes_that_serve_each_other_serve_each_volume_once():
    for option, scheme in (('iscsi', 'iscsi'), ('nvme-tcp', 'nvme+tcp')):
        ports = [free_port() for _ in range(3)]
        with folder() as place, contextlib.ExitStack() as stack:
            nodes = []
            for i, port in enumerate(ports):
                image(place / f'disk{i}')
                uri = f'{scheme}://127.0.0.1:{ports[(i + 1) % 3]}/*?interval=3600s'
                nodes.append(stack.enter_context(
                    Node(f'--{option}=127.0.0.1:{port}', place / f'disk{i}', uri)))
            for node in nodes * 2:  # each volume has been around more than once
                assert weft('rescan', node.process.pid).returncode == 0
            assert [len(found(node)) for node in nodes] == [2, 2, 2], list(map(states, nodes))
            assert [source(node)['own'] for node in nodes] == [1, 1, 1]


@case
def what_is_served_by_the_name_that_it_has_elsewhere_stays():
    nqn = 'nqn.2026-11.invalid:one'
    with Nvme(f'disk=ram:2M?nqn={nqn}') as target:
        uri = f'nvme+tcp://127.0.0.1:{target.address[1]}/*?interval=1s&nqn={nqn}'
        with Node(uri) as node:
            until(lambda: source(node)['readings'] >= 3)
            assert len(found(node)) == 1 and source(node)['own'] == 0, source(node)
            assert 'removed' not in node.said(), node.said()


# ---- those who mean harm


def targets(count, form='TargetName=iqn.x:{}\0'):
    return lambda port: b''.join(
        form.format(i, f'127.0.0.1:{port},1').encode('latin-1') for i in range(count))


@contextlib.contextmanager
def hostile(answer, *parameters, **options):
    with Hostile(b'', **options) as portal:
        portal.answer = answer(portal.port) if answer else b''
        with Node(SPARE, portal.uri('interval=1s', *parameters)) as node:
            yield portal, node
            assert states(node)['spare'] == 'ready'
            assert weft('info', node.uri('spare')).returncode == 0


@case
def ten_thousand_targets_are_no_more_volumes_than_are_wanted():
    with hostile(targets(10000), 'most=5', units=1) as (portal, node):
        until(lambda: source(node)['readings'] > 0)
        assert source(node)['volumes'] == 5, source(node)
        assert source(node)['left_out'] == 9995, source(node)
        assert node.said().count('9995 targets or volumes are left out') == 1, node.said()
        assert len(states(node)) == 6 and portal.logins < 100


@case
def names_that_no_volume_can_have_are_left_out_and_counted():
    form = 'TargetName=iqn.\x1b[2J\n{}/?x=%41&\xff\0TargetAddress={}\0'
    with hostile(targets(7, form), units=1) as (_, node):
        until(lambda: source(node)['readings'] > 1)
        assert source(node)['volumes'] == 0 and source(node)['left_out'] == 7, source(node)
        assert states(node) == {'spare': 'ready'}
        assert node.said().count('7 targets or volumes are left out') == 1, node.said()
        assert '\x1b' not in node.said()


@case
def a_target_of_many_units_is_bounded_too():
    with hostile(targets(1), 'most=3', units=2000) as (_, node):
        until(lambda: source(node)['readings'] > 0)
        assert source(node)['volumes'] == 3, source(node)


def endless(text_session, request):
    while True:
        text_session.send(0x24, 0, request, b'TargetName=iqn.2026-11.invalid.endless:x\0' * 20000)


@case
def text_without_an_end_costs_the_asking_process_alone():
    with hostile(lambda port: endless) as (_, node):
        until(lambda: source(node)['failures'] > 0, limit=60)
        assert source(node)['volumes'] == 0


@case
def silence_is_a_failure_in_the_end():
    with hostile(None, is_silent=True) as (_, node):
        until(lambda: source(node)['failures'] > 0, limit=60)
        assert source(node)['why'], source(node)


@case
def what_is_no_iscsi_is_a_failure():
    def nonsense(text_session, request):
        text_session.peer.sendall(os.urandom(65536))
        text_session.peer.close()
    with hostile(lambda port: nonsense) as (_, node):
        until(lambda: source(node)['failures'] > 1, limit=60)


# ---- the process that asks


@case
def the_process_that_asks_may_die():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        with Node(portal.uri('*', 'interval=1s')) as node:
            first = asker(node)
            os.kill(first, signal.SIGKILL)
            until(lambda: asker(node) not in (None, first))
            until(lambda: source(node)['why'] == '' and source(node)['state'] == 'read')
            assert found(node) == [name('one', 1)]
            assert 'it cannot be asked: its process was ended by signal 9' in node.said()
            assert 'removed' not in node.said()


@case
def the_process_that_asks_is_confined_and_ends_with_the_node():
    with Tgt() as portal:
        portal.target(1, 'one', 1)
        with Node(portal.uri()) as node:
            pid = asker(node)
            status = pathlib.Path(f'/proc/{pid}/status').read_text()
            facts = dict(re.findall(r'^(\w+):\s+(\S+)$', status, re.M))
            assert facts['NoNewPrivs'] == '1' and facts['Seccomp'] == '2', facts
            assert int(facts['CapEff'], 16) == int(facts['CapPrm'], 16) == 0, facts
            assert int(facts['Seccomp_filters']) >= 2, facts
            node.process.kill()
            until(lambda: not os.path.exists(f'/proc/{pid}'))


# ---- discovery services


@contextlib.contextmanager
def service(place, *words):
    """A node whose folder is served over NVMe/TCP; the URI of its discovery service."""
    with Nvme(f'{place}/', *words) as node:
        yield node, f'nvme+tcp://127.0.0.1:{node.address[1]}/'


@case
def what_a_discovery_service_tells_of_comes_and_goes_at_once():
    need('nbdinfo')
    with folder() as place:
        image(place / 'a')
        with service(place) as (_, uri), Node(uri + '*?interval=3600s') as node:
            a, = until(lambda: found(node))
            assert a.endswith('-ns1')
            image(place / 'b', 2 * MIB)
            until(lambda: len(found(node)) == 2)
            b, = set(found(node)) - {a}
            assert run('nbdinfo', '--size', node.uri(b)).strip() == str(2 * MIB)
            os.unlink(place / 'b')
            until(lambda: found(node) == [a])
            assert f'volume {b}: added' in node.said() and f'volume {b}: removed' in node.said()


@case
def a_discovery_service_over_rdma_is_one_too():
    with folder() as place:
        image(place / 'a')
        port = free_port()
        with Node(f'--nvme-rdma=127.0.0.1:{port}', f'{place}/'), \
                Node(f'nvme+rdma://127.0.0.1:{port}/*?interval=3600s') as node:
            a, = until(lambda: found(node))
            image(place / 'b', 2 * MIB)
            until(lambda: len(found(node)) == 2)
            os.unlink(place / 'b')
            until(lambda: found(node) == [a])


@case
def each_namespace_of_a_subsystem_is_a_volume():
    with folder() as place:
        image(place / 'a'), image(place / 'b')
        nqn = 'nqn.2026-11.invalid:several'
        with Nvme(f'{place}/?nqn={nqn}') as target:
            uri = f'nvme+tcp://127.0.0.1:{target.address[1]}/*:sev*?interval=1s'
            with Node(uri) as node:
                stem = nqn.replace(':', '_')
                until(lambda: found(node) == [f'{stem}-ns1', f'{stem}-ns2'])
                image(place / 'c')  # which the log does not show
                until(lambda: f'{stem}-ns3' in found(node))


@case
def a_discovery_service_that_ends_leaves_its_volumes_as_they_are():
    with folder() as place:
        image(place / 'a')
        port = free_port()
        words = (f'--nvme-tcp=127.0.0.1:{port}', f'{place}/')
        target = Node(*words)
        with target, Node(SPARE, f'nvme+tcp://127.0.0.1:{port}/*?interval=1s') as node:
            a, = until(lambda: found(node))
            target.__exit__()
            until(lambda: source(node)['failures'] > 0)
            assert a in states(node)
            with Node(*words):
                until(lambda: source(node)['why'] == '', limit=40)
                until(lambda: found(node) == [a], limit=40)


# ---- what an operator writes


@case
def mistakes_are_refused_by_name():
    for uri, why in (('iscsi://host/iqn*/1', 'the pattern is of names of targets'),
                     ('iscsi:///*', 'there is no host'),
                     ('iscsi://host/*?interval=10ms', 'interval must be 1s to 86400s'),
                     ('iscsi://host/*?most=0', 'most must be 1 to 1024 volumes'),
                     ('iscsi://host/*?colour=red', 'there is no parameter colour'),
                     ('nvme+tcp://me@host/*', 'NVMe has no users'),
                     ('nvme+tcp://host/*?nsid=3', 'not of all that'),
                     ('blue+iscsi://host/*', 'there is no filter blue')):
        result = weft('serve', uri)
        assert result.returncode == 2 and why in result.stderr, (uri, result.stderr)
    with Node('--allow-add', SPARE) as node:
        expect_error(weft('rescan', '--add=iscsi://host/*', node.process.pid), 1,
                     'a pattern stands on the command line')


@case
def a_password_is_shown_to_nobody():
    with Node(SPARE, f'iscsi://me%25secretsecret@127.0.0.1:{free_port()}/*') as node:
        assert 'secretsecret' not in str(node.status()) + node.said()
        arguments = [pathlib.Path(f'/proc/{pid}/cmdline').read_bytes() for pid in node.rtas()]
        assert not any(b'secretsecret' in words for words in arguments)
        assert source(node)['uri'].startswith('iscsi://127.0.0.1:')


main()
