#!/usr/bin/env python3
"""The page and the metrics by the product's own doors, as curl and a collector meet them."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess

from doors import (ANSWER, READ, SOURCE, WEFT, Client, Node, Skip, case, encoded, expect_error,
                   folder, main, process, serving, until, watching, weft)


def curl(address, *words):
    """(fields by their names in small letters, body)."""
    if not shutil.which('curl'):
        raise Skip('no program curl')
    result = subprocess.run(['curl', '-sSi', '--max-time', '20', *words, address], text=True,
                            capture_output=True, check=True)
    head, _, body = result.stdout.partition('\n\n' if '\r' not in result.stdout else '\r\n\r\n')
    lines = head.split('\n')
    parts = (line.partition(': ') for line in lines[1:])
    fields = {name.lower(): value for name, _, value in parts}
    return {'status': int(lines[0].split()[1]), **fields}, body


@case
def every_file_of_the_page_is_at_its_path_and_names_no_other_place():
    with serving('ram:1M') as (_, address):
        for path in (SOURCE / 'http/page').iterdir():
            name = '' if path.name == 'index.html' else path.name
            fields, body = curl(address + name)
            assert fields['status'] == 200 and body == path.read_text(), path
            fields, body = curl(address + name, '-H', f'If-None-Match: {fields["etag"]}')
            assert (fields['status'], body) == (304, ''), fields
            assert set(re.findall(r'https?://[^/"]*', path.read_text())) <= {'http://www.w3.org'}


@case
def the_policy_allows_the_page_itself_alone():
    with serving('ram:1M') as (_, address):
        for path in ('', 'status.json', 'metrics', 'nothing'):
            fields, _ = curl(address + path)
            policy = dict(part.strip().split(' ', 1)
                          for part in fields['content-security-policy'].split(';'))
            assert policy.pop('default-src') == "'none'"
            assert set(policy.values()) == {"'self'", "'none'"}, policy
            assert (fields['x-content-type-options'], fields['referrer-policy'],
                    fields['cross-origin-resource-policy']) == \
                ('nosniff', 'no-referrer', 'same-origin'), fields


@case
def a_node_tells_the_page_what_it_tells_weft_status():
    with serving('ram:1M') as (node, address), Client(node).go() as client:
        client.request(READ, 0, 512)
        assert client.answer(512)[0] == 0
        _, body = curl(address + 'status.json')
        told, = json.loads(body)['processes']
        answer, = told['answers']
        status = node.status()
        assert (told['pid'], told['kind'], told['state']) == (node.process.pid, 'node', 'ok'), told
        assert answer.keys() == status.keys()
        for name in ('volumes', 'clients', 'connections', 'pool'):
            assert answer[name] == status[name], name


@case
def an_event_is_kept_for_who_looks_later():
    with serving('ram:1M') as (node, address):
        os.kill(node.rtas()[0], signal.SIGKILL)
        events = until(lambda: json.loads(curl(address + 'status.json')[1])
                       ['processes'][0]['answers'][0]['events'])
        assert any(re.match(r'RTA ram\b', event['text']) for event in events), events
        assert all(re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', event['time'])
                   for event in events), events


@case
def metrics_alone_have_no_page():
    with Node('--metrics=127.0.0.1:0', 'ram:1M') as node:
        ports = subprocess.run(['ss', '-Hltnp'], text=True, capture_output=True).stdout
        own = re.findall(rf'127\.0\.0\.1:(\d+).*pid={node.process.pid},', ports)
        if len(own) != 1:
            raise Skip('ss does not tell whose sockets listen')
        address = f'http://127.0.0.1:{own[0]}/'
        assert curl(address + 'metrics')[0]['status'] == 200
        assert curl(address)[0]['status'] == curl(address + 'status.json')[0]['status'] == 404


@case
def a_program_has_metrics_though_it_has_no_door():
    with process(encoded(ANSWER)), watching(os.getpid()) as (_, address):
        fields, body = curl(address + 'metrics')
    assert fields['content-type'].startswith('text/plain; version=0.0.4'), fields
    labels = f'{{pid="{os.getpid()}",kind="program",program="a \\"quoted\\\\ name?"}}'
    for row in (f'weft_process_up{labels} 1', f'weft_process_work_total{labels} 9',
                f'weft_process_octets_out_total{labels} 1023'):
        assert row in body.splitlines(), f'no {row} in\n{body}'


@case
def latencies_of_a_program_are_told_by_operation():
    write = {'count': 5, 'sum_ns': 5000000, 'max_ns': 1000000, 'buckets': [[1015807, 5]]}
    more = {'weft_roce0': {'latency': {'sampled_one_in': 16, 'write': write, 'a"b': write}}}
    many = {'latency': {'x' * i: write for i in range(1, 64)}}
    with process(encoded({**ANSWER, **more})), watching(os.getpid()) as (_, address):
        body = curl(address + 'metrics')[1]
    labels = f'pid="{os.getpid()}",kind="program",program="a \\"quoted\\\\ name?",operation='
    for row in (f'count{{{labels}"send"}} 2', f'count{{{labels}"write"}} 5',
                f'sum{{{labels}"write"}} 0.005000000',
                f'bucket{{{labels}"send",le="0.000001023"}} 1',
                f'bucket{{{labels}"write",le="0.001048575"}} 5'):
        assert f'weft_process_latency_seconds_{row}' in body.splitlines(), f'no {row} in\n{body}'
    assert body.count('weft_process_latency_seconds_count{') == 2, body
    with process(encoded({'weft0': many})), watching(os.getpid()) as (_, address):
        assert curl(address + 'metrics')[1].count('latency_seconds_count{') == 16


@case
def latencies_of_a_node_are_told_by_operation_too():
    with serving('ram:1M') as (node, _), watching(node.process.pid) as (_, watch):
        with Client(node) as client:
            client.go()
            client.request(READ, length=4096)
            assert client.answer(4096)[0] == 0
        body = until(lambda: [row for row in curl(watch + 'metrics')[1].splitlines()
                              if row.startswith('weft_process_latency_seconds_count{')])
    assert len(body) == 1 and body[0].endswith('operation="read"} 1'), body


@case
def who_does_not_answer_is_shown_as_such_and_holds_nobody_up():
    pid = os.getpid()
    with contextlib.ExitStack() as processes:
        for i, answer in enumerate((encoded(ANSWER), None, b'nonsense\n')):
            processes.enter_context(process(answer, pid=pid + i))
        _, address = processes.enter_context(watching(pid, pid + 1, pid + 2))
        told = json.loads(curl(address + 'status.json')[1])['processes']
    assert {row['pid']: (row['state'], row['answers'] is not None) for row in told} == {
        pid: ('ok', True), pid + 1: ('no answer', False), pid + 2: ('nonsense', False)}, told


@case
def nobody_is_asked_while_nobody_looks():
    with process(encoded(ANSWER)) as requests, watching(os.getpid()) as (_, address):
        assert not requests, requests
        for _ in range(5):
            curl(address + 'status.json')
        assert 1 <= len(requests) <= 5 and set(requests) == {b'stat\n'}, requests


@case
def a_unix_socket_is_a_door_too_and_goes_with_the_process():
    with folder() as place:
        with subprocess.Popen([WEFT, 'watch', f'--http=unix:{place}/door'], text=True,
                              stdout=subprocess.PIPE) as watch:
            assert watch.stdout.readline() == f'page unix:{place}/door\n'
            fields, _ = curl('http://weft/', '--unix-socket', f'{place}/door')
            assert fields['status'] == 200, fields
            watch.send_signal(signal.SIGTERM)
        assert watch.returncode == 0 and not list(place.iterdir())


@case
def an_address_that_cannot_be_had_is_an_error():
    with watching() as (_, address):
        taken = address.removeprefix('http://').rstrip('/')
        expect_error(weft('watch', f'--http={taken}'), 1, taken, 'Address already in use')
        expect_error(weft('serve', f'--http={taken}', '--nbd=127.0.0.1:0', 'ram:1M'), 1, taken,
                     'no page')
    expect_error(weft('watch', '--http=nonsense'), 1, 'not HOST:PORT, unix:PATH or fd:NAME')


main()
