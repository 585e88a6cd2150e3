#!/usr/bin/env python3
"""weft draw: records of what programs posted and what came of it, beside the packets."""

import json
import pathlib
import struct
import subprocess

from cases import Skip, case, expect, main, scratch, weft
from drawn import (ALLOTMENT, LIMIT_S, PORT, capture_of_weft, draw, draw_records, enter_namespace,
                   of, rping, run_pair)
import wire

RECORD = 0x80776674
HOLE_OPENED, HOLE_CLOSED = 10, 11  # kinds of them


def captures_with_records(folder, wire_name='iwarp', **env):
    """Those of the client and of the server."""
    client, server = pathlib.Path(folder, 'client.pcapng'), pathlib.Path(folder, 'server.pcapng')
    rping(3000, wire_name=wire_name, server={**env, 'WEFT_PCAP': str(server)},
          client={**env, 'WEFT_PCAP': str(client)})
    return client, server


def blocks_of(path):
    """[(type, body)] of a pcapng file."""
    octets, at, blocks = path.read_bytes(), 0, []
    while at < len(octets):
        kind, size = struct.unpack_from('<II', octets, at)
        blocks.append((kind, octets[at + 8:at + size - 4]))
        at += size
    return blocks


def write_blocks(path, blocks):
    path.write_bytes(b''.join(struct.pack('<II', kind, len(body) + 12) + body +
                              struct.pack('<I', len(body) + 12) for kind, body in blocks))


def assert_posts_and_completions_of_both(wire_name, **env):
    with scratch() as folder:
        client, server = captures_with_records(folder, wire_name, **env)
        _, events, spans, records = draw_records([client, server])
        for side in (0, 1):
            own = [record for record in records if record.side == side]
            posts, done = of(own, 'post'), of(own, 'completion')
            assert len(posts) >= 6 and of(own, 'receive'), [record.title for record in own]
            assert len([one for one in done if ' receive ' not in one.title and
                        'failed' not in one.classes]) == len(posts)
            assert len([s for s in of(spans, 'work') if s.side == side]) == len(posts)
        reads = [record.title for record in of(records, 'post') if 'post Read' in record.title]
        assert len(reads) == len(of(events, 'request')) == len(of(spans, 'context')) == 3, reads


@case
def posts_and_completions_of_both_ends_stand_beside_the_packets():
    assert_posts_and_completions_of_both('iwarp')


@case
def with_wefts_own_tcp_too():
    assert_posts_and_completions_of_both('iwarp', WEFT_LINK='udp')


@case
def with_packets_of_roce_too():
    assert_posts_and_completions_of_both('roce')


def is_listening_by_tcp(_):
    """Somebody is, at PORT, by the kernel's TCP."""
    rows = (line.split() for name in ('tcp', 'tcp6')
            for line in pathlib.Path('/proc/net', name).read_text().splitlines()[1:])
    return any(row[1].endswith(f':{PORT:04X}') and row[3] == '0A' for row in rows)


def captures_of_datagrams(folder):
    """As captures_with_records, of four datagrams each way."""
    client, server = pathlib.Path(folder, 'client.pcapng'), pathlib.Path(folder, 'server.pcapng')
    words = ['ibv_ud_pingpong', '-g', 0, '-p', PORT, '-n', 4]
    run_pair(words, [*words, '127.0.0.1'], wire_name='roce', listens=is_listening_by_tcp,
             server={'WEFT_PCAP': str(server)}, client={'WEFT_PCAP': str(client)})
    return client, server


@case
def datagrams_stand_between_the_work_requests_of_both_ends():
    with scratch() as folder:
        client, server = captures_of_datagrams(folder)
        _, events, spans, records = draw_records([client, server])
        assert [event.side for event in of(events, 'send')] == [0, 1] * 4
        for side in (0, 1):
            own = [record.title for record in records if record.side == side]
            assert len([title for title in own if 'post Send' in title]) == 4, own
            assert len([title for title in own if 'completion Send' in title]) == 4, own
            assert len([title for title in own if 'completion receive' in title]) == 4, own
            assert any('receives' in title for title in own), own
        assert len(of(spans, 'work')) == 8 and not [s for s in spans if 'no completion' in s.desc]
        assert {record.side for record in draw_records([client])[3]} == {0}


@case
def datagrams_have_no_start_that_a_capture_could_lack():
    with scratch() as folder:
        path = captures_of_datagrams(folder)[0]
        assert 'before the capture' not in weft('draw', '-l', path).stdout
        picture = weft('draw', path).stdout
        assert 'start-up' not in picture and 'RoCE UD' in picture


@case
def of_one_end_alone_there_is_one_side():
    with scratch() as folder:
        client, server = captures_with_records(folder)
        for path, side in ((client, 0), (server, 1)):
            assert {record.side for record in draw_records([path])[3]} == {side}


@case
def a_capture_of_another_name_has_no_records():
    with scratch() as folder:
        path = capture_of_weft(folder)
        assert path.read_bytes()[:4] == b'\x4d\x3c\xb2\xa1' and not draw_records([path])[3]


@case
def the_bar_of_a_context_goes_from_one_queue_pair_to_the_other():
    with scratch() as folder:
        path = pathlib.Path(folder, 'two.pcapng')
        limits = {'WEFT_READ_CONTEXTS': '1', 'WEFT_READ_ALLOTMENT': str(ALLOTMENT),
                  'WEFT_READ_PRESSURE': 'off'}
        words = ['ib_read_bw', '-R', '-F', '-s', 65536, '-n', 100, '-q', 2, '-p', PORT]
        run_pair(words, [*words, '127.0.0.1'], server=limits,
                 client={**limits, 'WEFT_PCAP': str(path)})
        listed = json.loads(weft('draw', '-j', path).stdout)['connections']
        two = ','.join(str(one['number'])
                       for one in sorted(listed, key=lambda one: -one['octets'])[:2])
        spans = [span for span in draw(path, '-c', two)[2] if 'context' in span.classes]
        taken = [span for span in spans if 'taken from it' in span.desc]
        assert len(spans) > 10 and taken, [span.desc for span in spans]
        assert len({span.x for span in spans}) == 1, 'side by side, though there is one context'


def captures_with_holes(folder):
    """As captures_with_records, where some of what the client sends comes late."""
    client, server = pathlib.Path(folder, 'client.pcapng'), pathlib.Path(folder, 'server.pcapng')
    subprocess.run(['ip', 'link', 'set', 'lo', 'mtu', '1500'], check=True)
    try:
        rping(16000, 20, server={'WEFT_LINK': 'udp', 'WEFT_PCAP': str(server)},
              client={'WEFT_LINK': 'udp', 'WEFT_PCAP': str(client),
                      'WEFT_FAULT': 'seed=5,reorder=12%,side=out'})
    finally:
        subprocess.run(['ip', 'link', 'set', 'lo', 'mtu', '65536'], check=True)
    return client, server


def holes_in(path):
    """Records of holes that opened, and that closed."""
    kinds = [body[5] for kind, body in blocks_of(path) if kind == RECORD]
    return kinds.count(HOLE_OPENED), kinds.count(HOLE_CLOSED)


@case
def holes_are_drawn_by_the_word_of_the_end_that_misses_something():
    with scratch() as folder:
        client, server = captures_with_holes(folder)
        opened, closed = holes_in(server)
        assert opened == closed > 5 and holes_in(client) == (0, 0), (opened, closed)
        for captures in ([server], [client, server]):
            holes = of(draw_records(captures)[2], 'hole')
            assert len(holes) == opened and {hole.side for hole in holes} == {1}, holes
            assert all('as this end recorded it; when it closed' in hole.desc for hole in holes)
        assert any(not hole.title.endswith(' 0') for hole in holes), 'nothing was held back'
        seen = of(draw_records([client])[2], 'hole')  # in the order in which it left
        assert seen and not any('recorded it' in hole.desc for hole in seen), seen


@case
def strangers_pass_over_the_records():
    if not wire.has_tshark():
        raise Skip('no tshark')
    with scratch() as folder:
        client, _ = captures_with_records(folder)
        blocks = blocks_of(client)
        bare = client.with_name('bare.pcapng')
        write_blocks(bare, [block for block in blocks if block[0] != RECORD])
        said = []
        for path in (client, bare):
            words = ['tshark', '-r', path, '-V']
            result = subprocess.run(list(map(str, words)), capture_output=True, text=True,
                                    timeout=LIMIT_S)
            complaints = [line for line in result.stderr.splitlines() if 'Running as' not in line]
            assert result.returncode == 0 and not complaints, complaints
            said.append(result.stdout)
        assert len(blocks) > len(blocks_of(bare)) + 20
        assert said[0] == said[1] and 'iwarp_ddp_rdmap' in said[0]


@case
def a_wrong_record_is_named_by_its_number():
    with scratch() as folder:
        client, _ = captures_with_records(folder)
        blocks = blocks_of(client)
        at = [i for i, block in enumerate(blocks) if block[0] == RECORD]
        for offset, octet, why in ((4, 2, 'of a version'), (5, 99, 'of a kind'),
                                   (5, 1, 'its length is not')):
            body = bytearray(blocks[at[4]][1])
            body[offset] = octet
            wrong = client.with_name('wrong.pcapng')
            write_blocks(wrong, [*blocks[:at[4]], (RECORD, bytes(body)), *blocks[at[4] + 1:]])
            expect(weft('draw', wrong), 0, None, f'1 of {len(at)} records were passed over',
                   'record 5', why)
        cut = client.with_name('cut.pcapng')
        write_blocks(cut, blocks[:at[4] + 1])
        cut.write_bytes(cut.read_bytes()[:-7])
        expect(weft('draw', cut), 1, None, 'ends inside record 5')


enter_namespace()
main()
