#!/usr/bin/env python3
"""What a node counts, as its socket and /metrics tell it: every number, and no other."""

import re
import tempfile
import urllib.request

from nbd_client import READ, TRIM, WRITE, ZEROES, Client
from serving import Node, case, free_port, main, os, signal, until, weft

OPERATIONS = 'read', 'write', 'flush', 'trim', 'write zeroes', 'extents', 'profile', 'compare', \
    'compare and write', 'or write'
COMPLETIONS = ('ok', 'retry', 'malformed', 'range', 'unsupported', 'read only', 'no space', 'media',
               'transfer', 'timed out', 'no volume', 'internal', 'reserved', 'miscompare',
               'standby')
RTA = ('name state pid since_ms restarts failures why confinement requests results in_flight '
       'waiting replays retransmissions duplicates violations lent memory refusals resubmissions '
       'buffers_held octets_held turns').split()
RDMA = ('connections accepted rejected broken stalled malformed_capsules capsules in_capsule '
        'fetched delivered oneshots invalidates descriptors bad_transfers').split()
TCP = ('accepted refused malformed stalled digest_errors octets_in_capsules octets_asked '
       'octets_sent').split()
ISCSI = ('accepted sessions refused unproven malformed stalled digest_errors rejects '
         'octets_immediate octets_asked octets_sent commands errors refusals').split()
ISCSI_RDMA = ('connections accepted rejected sessions refused unproven malformed unlent broken '
              'stalled rejects pdus oneshots closes fetched delivered descriptors bad_transfers '
              'commands errors refusals').split()
NVME = 'sessions controllers queues refused commands errors expired transfers_bad'.split()


def of(names, **numbers):
    """Zero but for some."""
    return {name: numbers.get(name.replace(' ', '_'), 0) for name in names}


def some_of_each(node, client):
    for command, length, data in ((WRITE, 4096, bytes(4096)), (TRIM, 512, b''), (ZEROES, 1024, b''),
                                  (READ, 512, b''), (READ, 512, b'')):
        client.request(command, 0, length, data=data)
        assert client.answer(length if command == READ else 0)[0] == 0
    os.kill(node.rtas()[0], signal.SIGKILL)
    client.request(TRIM, 0, 512)
    assert client.answer()[0] == 0
    client.request(READ, 1 << 20, 1)  # beyond the end
    assert client.answer()[0] != 0


DONE = of(OPERATIONS, read=3, write=1, trim=2, write_zeroes=1)
MOVED = of(OPERATIONS, read=1024, write=4096, trim=1024, write_zeroes=1024)
ENDED = of(COMPLETIONS, ok=6, range=1)


def looks_like_a_histogram(h):
    assert list(h) == ['count', 'sum_ns', 'p50_ns', 'p90_ns', 'p99_ns', 'p999_ns', 'max_ns',
                       'buckets'], h
    assert 0 < h['p50_ns'] <= h['p90_ns'] <= h['p99_ns'] <= h['p999_ns'] <= h['max_ns'], h
    bounds, counts = zip(*h['buckets'])
    assert list(bounds) == sorted(set(bounds)) and bounds[-1] == h['max_ns'] and all(counts), h
    assert sum(counts) == h['count'] and h['max_ns'] <= h['sum_ns'] <= h['count'] * h['max_ns'], h


@case
def status_tells_every_number():
    with Node('ram:1M') as node, Client(node).go() as client:
        some_of_each(node, client)
        found = until(lambda: node.status() if node.status()['rtas'][0]['state'] == 'ready'
                      else None)
        volume, = found['volumes']
        told = {name: volume.pop(name) for name in ('uuid', 'uri', 'uris', 'latency', 'waits',
                                                   'window_reads', 'nqn', 'target')}
        assert told['nqn'] == f'nqn.2014-08.org.nvmexpress:uuid:{told["uuid"]}', told
        assert told['target'] == f'iqn.2026-11.invalid.weft:uuid:{told["uuid"]}', told
        assert told['window_reads'] == 0, told
        assert told['uris'] == [told['uri']] == [node.uri('ram')], told
        assert found['latency_by_driver'] == {'ram': told['latency']}, found
        assert {name: h['count'] for name, h in told['latency'].items()} == \
            {name: count for name, count in DONE.items() if count}, told
        for histogram in told['latency'].values():
            looks_like_a_histogram(histogram)
        assert volume == {
            'name': 'ram', 'state': 'ready', 'why': '', 'source': '', 'rta': 'ram',
            'driver': 'ram', 'nsid': 1, 'lun': 0, 'size': 1 << 20, 'block_size': 512,
            'read_only': False, 'iops': 0, 'bps': 0, 'throttled': 0, 'connections': 1,
            'operations': DONE, 'octets': MOVED, 'completions': ENDED}, volume
        client, = found['clients']
        assert client.pop('address'), found
        assert client.pop('connection') > 0 and client == {
            'identity': '', 'volume': 'ram', 'requests': 7, 'failed': 1, 'octets_in': 4096,
            'octets_out': 1024, 'in_flight': 0}, client
        rta, = found['rtas']
        assert list(rta) == RTA and [rta['pid']] == node.rtas(), rta
        assert {name: rta[name] for name in ('name', 'state', 'restarts', 'requests', 'results',
                                             'in_flight', 'refusals', 'violations')} == {
            'name': 'ram', 'state': 'ready', 'restarts': 1, 'requests': 7, 'results': 7,
            'in_flight': 0, 'refusals': 1, 'violations': 0}, rta
        assert rta['turns'] > 0 and rta['since_ms'] < 60000, rta
        assert found['nbd'] == {'accepted': 1, 'established': 1, 'refused': 0, 'malformed': 0,
                                'stalled': 0, 'requests': 7, 'errors': 1}, found['nbd']
        assert found['sources'] == [] and 'mdns' not in found, found
        assert all(list(event) == ['time', 'text'] and
                   re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', event['time'])
                   for event in found['events']), found['events']
        assert any('ram' in event['text'] for event in found['events']), found['events']
        assert (found['pid'], found['connections'], found['pool'], found['pool_taken']) == \
            (node.process.pid, 1, 64 << 20, 0), found


def metrics(port):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=60) as answer:
        text = answer.read().decode()
    kinds = dict(re.findall(r'^# TYPE (\w+) (\w+)$', text, re.M))
    helped = re.findall(r'^# HELP (\w+) \S', text, re.M)
    assert list(kinds) == helped, (kinds, helped)
    rows = dict(line.rsplit(' ', 1) for line in text.splitlines() if line[0] != '#')
    histograms = {name for name, kind in kinds.items() if kind == 'histogram'}
    assert {family_of(row, histograms) for row in rows} == set(kinds), (rows, kinds)
    return kinds, rows


def family_of(row, histograms):
    name = row.partition('{')[0]
    part = re.fullmatch(r'(\w+)_(bucket|sum|count)', name)
    return part[1] if part and part[1] in histograms else name


def take_histograms(rows, name):
    """{labels: ([(le, count), ...], sum, count)}, taken out of the rows."""
    found = {}
    for row in [row for row in rows if family_of(row, {name}) == name]:
        value, labels = rows.pop(row), row[row.index('{') + 1:-1]
        labels, _, bound = labels.partition(',le=')
        buckets, numbers = found.setdefault(labels, ([], {}))
        if bound:
            buckets.append((float(bound.strip('"')), int(value)))
        else:
            numbers[row.partition('{')[0]] = float(value)
    return {labels: (buckets, numbers[f'{name}_sum'], numbers[f'{name}_count'])
            for labels, (buckets, numbers) in found.items()}


@case
def metrics_tell_the_same():
    port = free_port()
    with Node('ram:1M', f'--metrics=127.0.0.1:{port}') as node, Client(node).go() as client:
        some_of_each(node, client)
        until(lambda: node.status()['rtas'][0]['state'] == 'ready')
        kinds, rows = metrics(port)
        found = node.status()
    assert {kind for kind in kinds.values()} == {'counter', 'gauge', 'histogram'}
    assert all((kind == 'counter') == name.endswith('_total') for name, kind in kinds.items())
    wanted = {'weft_rta_up{rta="ram"}': 1, 'weft_rta_restarts_total{rta="ram"}': 1,
              'weft_rta_in_flight{rta="ram"}': 0, 'weft_rta_retransmissions_total{rta="ram"}': 0,
              'weft_volume_connections{volume="ram"}': 1, 'weft_pool_octets': 64 << 20,
              'weft_volume_window_reads_total{volume="ram"}': 0, 'weft_pool_taken_octets': 0,
              'weft_volume_throttled_total{volume="ram"}': 0}
    for label, name, numbers in (('operation', 'operations', DONE), ('operation', 'octets', MOVED),
                                 ('completion', 'completions', ENDED)):
        for what, number in numbers.items():
            wanted[f'weft_volume_{name}_total{{volume="ram",{label}="{what}"}}'] = number
    for tts in 'nbd', 'nvme':
        for name, number in found[tts].items():
            kind = 'now' if (tts, name) == ('nvme', 'sessions') else 'total'
            wanted[f'weft_tts_{kind}{{tts="{tts}",figure="{name}"}}'] = number
    rows = {row: number for row, number in rows.items() if not row.startswith('weft_http_')}
    latency = take_histograms(rows, 'weft_volume_latency_seconds')
    replays = rows.pop('weft_rta_replays_total{rta="ram"}')
    assert replays in ('0', '1'), replays
    done = {f'volume="ram",driver="ram",operation="{name}"': count
            for name, count in DONE.items() if count}
    assert {labels: count for labels, (_, _, count) in latency.items()} == done, latency
    for buckets, total, count in latency.values():
        bounds, counts = zip(*buckets)
        assert list(bounds) == sorted(set(bounds)) and bounds[-1] == float('inf'), bounds
        assert list(counts) == sorted(counts) and counts[-1] == count, counts
        assert 0 < total < 60, total
    assert rows == {row: str(number) for row, number in wanted.items()}, rows


@case
def what_the_page_cache_has_takes_its_time_too():
    """It begins and ends in one turn of the loop, in file systems that say what would wait."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(1 << 16))
        file.flush()
        with Node(file.name) as node, Client(node).go() as client:
            for _ in range(5):
                client.request(READ, 0, 512)
                assert client.answer(512)[0] == 0
            volume, = node.status()['volumes']
    looks_like_a_histogram(volume['latency']['read'])


@case
def each_protocol_has_its_numbers():
    with Node('--nvme-rdma=127.0.0.1:0', '--nvme-tcp=127.0.0.1:0', '--iscsi=127.0.0.1:0',
              '--iscsi-rdma=127.0.0.1:0', 'ram:1M') as node:
        found = node.status()
        assert found['iscsi'] == of(ISCSI) and found['iscsi_rdma'] == of(ISCSI_RDMA), found
        assert found['nvme_tcp'] == of(TCP) and found['nvme_rdma'] == of(RDMA), found
        assert found['nvme'] == of(NVME), found
        uri, = (uri for uri in found['volumes'][0]['uris'] if uri.startswith('nvme+rdma'))
        assert weft('info', uri).returncode == 0
        assert weft('info', uri.replace('uuid:', 'uuid:0')).returncode == 1
        found = until(lambda: node.status() if node.status()['nvme_rdma']['connections'] == 0
                      else None)
        rdma, nvme = found['nvme_rdma'], found['nvme']
        assert (rdma['accepted'], rdma['rejected'], rdma['fetched']) == (3, 0, 3 * 1024), rdma
        assert rdma['capsules'] == nvme['commands'], found
        assert rdma['delivered'] // 4096 == 6, found  # pages of Identify, and a log behind them
        assert nvme == of(NVME, controllers=1, queues=2, refused=1, errors=1,
                          commands=nvme['commands']), nvme
        assert re.search(r' at 127\.0\.0\.1:\d+ is refused "nqn\.', node.said()), node.said()


main()
