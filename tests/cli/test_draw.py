#!/usr/bin/env python3
"""weft draw: what stands in its pictures, compared with what tshark sees in the same captures, and
what captures that are cut, broken or of something else get."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET

from cases import WEFT, Skip, case, expect, expect_error, main, scratch, weft
from drawn import (ALLOTMENT, PORT, SVG, capture_of_weft, draw, enter_namespace, of, read_pcap,
                   rping, run_pair, tcpdump, write_pcap)
import recut
import wire

LONG, LONG_PARTS = 50000, 4  # octets of a ping, and of how many allotments


def assert_as_tshark_counts(capture):
    if not wire.has_tshark():
        raise Skip('no tshark')
    # tshark is sure of an FPDU only where it begins a segment.
    recut_capture = capture.with_suffix('.recut')
    recut.recut(capture, recut_capture, [PORT])
    seen = wire.dissect(recut_capture, PORT)
    _, events, _ = draw(capture)
    drawn = [sum(event.fpdus for event in events if event.side == side) for side in (0, 1)]
    assert seen.to_server.fpdus > 5
    assert drawn == [seen.to_server.fpdus, seen.to_client.fpdus], f'{drawn}, not {seen}'


# --- what is drawn --------------------------------------------------------------------------------

@case
def an_arrow_for_each_fpdu_of_wefts_own_capture():
    with scratch() as folder:
        assert_as_tshark_counts(capture_of_weft(folder))


@case
def an_arrow_for_each_fpdu_of_tcpdump():
    with scratch() as folder:
        path = pathlib.Path(folder, 'lo.pcap')
        with tcpdump(path):
            rping(3000)
        assert_as_tshark_counts(path)


@case
def an_arrow_for_each_fpdu_with_markers():
    with scratch() as folder:
        path = capture_of_weft(folder, WEFT_MARKERS='on')
        _, events, _ = draw(path)
        assert not of(events, 'trouble'), [event.title for event in of(events, 'trouble')]
        assert len(of(events, 'write')) == 3 and len(of(events, 'response')) == 3


@case
def wefts_own_tcp_is_found_in_datagrams():
    with scratch() as folder:
        own, seen = pathlib.Path(folder, 'own.pcap'), pathlib.Path(folder, 'lo.pcap')
        with tcpdump(seen, 'udp'):
            rping(9000, server={'WEFT_LINK': 'udp'},
                  client={'WEFT_LINK': 'udp', 'WEFT_PCAP': str(own)})
        titles = [[event.title for event in draw(path)[1] if event.fpdus] for path in (own, seen)]
        assert titles[0] == titles[1] and len(titles[0]) > 15, titles


@case
def the_start_up_says_what_was_agreed():
    with scratch() as folder:
        root, events, _ = draw(capture_of_weft(folder))
        titles = [event.title for event in of(events, 'start')]
        assert titles[:2] == ['SYN', 'SYN ACK'], titles
        assert 'MPA Request' in titles[2] and 'MPA Reply' in titles[3], titles
        assert "agreed: MPA revision 2, CRC" in root.find(f'{SVG}desc').text
        assert [event.title for event in of(events, 'end')] == ['FIN', 'FIN']


@case
def divided_reads_stand_in_one_lane_for_each_context():
    with scratch() as folder:
        env = {'WEFT_READ_ALLOTMENT': str(ALLOTMENT), 'WEFT_READ_PRESSURE': 'off'}
        one = capture_of_weft(folder, 'one.pcap', LONG, **env, WEFT_READ_CONTEXTS='1')
        _, events, spans = draw(one)
        reads = of(spans, 'read')
        assert [read.title for read in reads] == [f'Read {number}.{part}' for number in (1, 2, 3)
                                                  for part in range(1, LONG_PARTS + 1)]
        assert {read.side for read in reads} == {1} and len({read.x for read in reads}) == 1
        assert all(a.bottom <= b.top for a, b in zip(reads, reads[1:])), reads
        assert len(of(events, 'request')) == 3 * LONG_PARTS


@case
def two_queue_pairs_stand_in_the_lane_of_one_context():
    env = {'WEFT_READ_ALLOTMENT': str(ALLOTMENT), 'WEFT_READ_PRESSURE': 'off',
           'WEFT_READ_CONTEXTS': '1'}
    words = ['ib_read_bw', '-R', '-F', '-s', 4 * ALLOTMENT, '-n', 5, '-q', 2, '-p', PORT]
    with scratch() as folder:
        path = pathlib.Path(folder, 'reads.pcap')
        run_pair(words, [*words, '127.0.0.1'], server=env, client={**env, 'WEFT_PCAP': str(path)})
        found = json.loads(weft('draw', '-j', path).stdout)['connections']
        numbers = sorted(one['number'] for one in sorted(found, key=lambda it: -it['octets'])[:2])
        _, events, spans = draw(path, f'--connection={numbers[0]},{numbers[1]}')
        reads = of(spans, 'read')
        assert len({read.x for read in reads}) == 1, 'one context, one lane'
        assert all(a.bottom <= b.top for a, b in zip(reads, reads[1:])), reads
        turns = [event.title[:3] for event in of(events, 'request')]
        assert len(turns) == len(reads) == 2 * 5 * 4 and len(set(turns)) == 2, turns


@case
def a_late_segment_opens_and_closes_a_hole():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        plain = draw(pathlib.Path(folder, 'weft.pcap'))[1]
        first, second = [event.packet for event in plain if event.fpdus and event.side == 0][3:5]
        assert not of(plain, 'early')
        moved = packets.pop(first - 1)
        packets.insert(second - 1, moved)  # behind what was sent after it
        path = pathlib.Path(folder, 'late.pcap')
        write_pcap(path, head, packets)
        _, events, spans = draw(path)
        early, late = of(events, 'early'), of(events, 'late')
        assert [event.side for event in early + late] == [0, 0], (early, late)
        hole, = of(spans, 'hole')
        assert hole.side == 1 and hole.title == 'hole, 1 early', hole
        assert hole.top == early[0].y + 9 and hole.bottom == late[0].y + 9, (hole, early, late)
        assert sum(event.fpdus for event in events) == sum(event.fpdus for event in plain)


@case
def what_the_peer_acknowledges_had_come_and_was_not_captured():
    with scratch() as folder:
        path = pathlib.Path(folder, 'lo.pcap')
        with tcpdump(path):
            rping(3000, client={'WEFT_CRC': 'off'}, server={'WEFT_CRC': 'off'})
            rping(3000)
        head, packets = read_pcap(path)
        for number in 1, 2:
            plain = draw(path, '-c', number)[1]
            lost = of(plain, 'write')[0].packet
            holed = pathlib.Path(folder, 'holed.pcap')
            write_pcap(holed, head, packets[:lost - 1] + packets[lost:])
            _, events, spans = draw(holed, '-c', number)
            assert [span.title for span in of(spans, 'hole')] == ['not captured'], spans
            assert len(of(events, 'write')) == 2 and not of(events, 'early'), events
            assert sum(event.fpdus for event in events) == sum(e.fpdus for e in plain) - 1
            assert not of(plain, 'trouble') and not of(events, 'trouble')


@case
def what_came_again_is_no_second_message():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        plain = draw(pathlib.Path(folder, 'weft.pcap'))[1]
        again = [event.packet for event in plain if event.fpdus][4]
        path = pathlib.Path(folder, 'again.pcap')
        write_pcap(path, head, packets[:again + 3] + [packets[again - 1]] + packets[again + 3:])
        _, events, spans = draw(path)
        assert len(of(events, 'again')) == 1 and not of(spans, 'hole')
        assert sum(event.fpdus for event in events) == sum(event.fpdus for event in plain)


@case
def of_what_was_not_captured_whole_the_headers_are_told():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        path = pathlib.Path(folder, 'short.pcap')
        write_pcap(path, head, [(record[:8] + struct.pack('<I', min(len(octets), 120))
                                 + record[12:], octets[:120]) for record, octets in packets])
        _, events, _ = draw(path)
        assert len(of(events, 'write')) == 3, [event.title for event in events]
        assert all('cut' in event.classes for event in of(events, 'write'))


@case
def a_capture_that_began_later_is_followed_from_there():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        path = pathlib.Path(folder, 'later.pcap')
        write_pcap(path, head, packets[12:])
        assert not json.loads(weft('draw', '--json', path).stdout)['connections'][0]['has_start']
        _, events, _ = draw(path)
        assert len(of(events, 'write')) == 2 and not of(events, 'trouble'), events


@case
def a_wrong_crc_is_shown_with_its_packet():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        plain = draw(pathlib.Path(folder, 'weft.pcap'))[1]
        bad = of(plain, 'write')[1].packet
        record, octets = packets[bad - 1]
        packets[bad - 1] = record, octets[:-20] + bytes([octets[-20] ^ 1]) + octets[-19:]
        path = pathlib.Path(folder, 'crc.pcap')
        write_pcap(path, head, packets)
        trouble, = of(draw(path)[1], 'trouble')
        assert trouble.packet == bad and 'CRC' in trouble.title, trouble
        assert len(of(draw(path)[1], 'write')) == 2  # and the stream is found again


@case
def roce_has_its_manager_its_psns_and_its_reads():
    with scratch() as folder:
        path = pathlib.Path(folder, 'roce.pcap')
        with tcpdump(path, 'udp'):
            rping(20000, wire_name='roce')
        found = json.loads(weft('draw', '--json', path).stdout)['connections']
        assert [one['wire'] for one in found] == ['RoCE RC'], found
        _, events, spans = draw(path)
        words = [event.title.split(' ·')[0] for event in events]
        assert words[:3] == ['REQ', 'REP', 'RTU'], words
        # Who has no processor for long is asked again, by a packet of a Send that is over, too; and
        # an acknowledgement may leave behind all else.
        assert len(of(events, 'again')) < 5, [event.title for event in of(events, 'again')]
        once = [word for word, event in zip(words, events)
                if word != 'ACK' and 'again' not in event.classes]
        assert once[-2:] == ['DREQ', 'DREP'], words
        assert len(of(spans, 'read')) == 3 and not of(events, 'trouble')
        assert not of(events, 'early')
        # Packets of 4096 octets, whether or not the kernel joined them before they were captured.
        for name, count in (('write', 15), ('response', 15)):
            titles = [event.title for event in of(events, name)]
            assert len({re.search(r'PSN (\d+)', title)[1] for title in titles}) == count, titles


@case
def a_lost_packet_of_roce_is_a_hole():
    with scratch() as folder:
        path = pathlib.Path(folder, 'roce.pcap')
        with tcpdump(path, 'udp'):
            rping(64, wire_name='roce')
        head, packets = read_pcap(path)
        sends = [event for event in of(draw(path)[1], 'send') if event.side == 0]
        lost = packets.pop(sends[1].packet - 1)
        packets.insert(sends[2].packet - 1, lost)
        write_pcap(path, head, packets)
        _, events, spans = draw(path)
        assert [event.side for event in of(events, 'early') + of(events, 'late')] == [0, 0]
        assert [hole.side for hole in of(spans, 'hole')] == [1]


# --- how it is drawn ------------------------------------------------------------------------------

def boxes_of(root):
    """(left, right, baseline at the left, at the right) of the labels of arrows."""
    for text in root.iter(f'{SVG}text'):
        turn = re.match(r'rotate\((-?[\d.]+) (\d+) (\d+)\)', text.get('transform') or '')
        if turn and turn[1] != '-90':
            half = len(text.text) * 10.5 * 0.6 / 2
            rise = half * float(turn[1]) * 3.1416 / 180
            x, y = float(text.get('x')), float(text.get('y'))
            yield x - half, x + half, y - rise, y + rise


@case
def labels_do_not_meet_and_stay_between_the_lines():
    with scratch() as folder:
        root, _, _ = draw(capture_of_weft(folder))
        lines = [float(re.match(r'M(\d+)', path.get('d'))[1]) for path in root.iter(f'{SVG}path')
                 if path.get('class') == 'line']
        before = None
        for box in boxes_of(root):
            assert lines[0] < box[0] and box[1] < lines[1], box
            if before:
                assert box[2] - before[2] > 10 and box[3] - before[3] > 10, (before, box)
            before = box
        assert before


@case
def each_arrow_and_bar_has_a_title_and_a_description():
    with scratch() as folder:
        root, events, spans = draw(capture_of_weft(folder))
        assert events and all(event.title and event.desc for event in events)
        assert all(span.title and span.desc for span in spans)
        assert root.get('role') and root.get('aria-labelledby') == 'picture-title picture-desc'


@case
def long_messages_fold_unless_told_otherwise():
    with scratch() as folder:
        path = pathlib.Path(folder, 'small.pcap')
        subprocess.run(['ip', 'link', 'set', 'lo', 'mtu', '1500'], check=True)
        rping(20000, client={'WEFT_PCAP': str(path), 'WEFT_LINK': 'udp'},
              server={'WEFT_LINK': 'udp'})
        subprocess.run(['ip', 'link', 'set', 'lo', 'mtu', '65536'], check=True)
        whole = [event.fpdus for event in draw(path)[1]]
        result = weft('draw', path, '--max-events=20000')
        rows = [int(group.get('data-fpdus')) for group in ET.fromstring(result.stdout).iter()
                if group.get('data-fpdus')]
        assert sum(rows) == sum(whole) and len(rows) < len(whole) / 2 and max(rows) > 5, rows


@case
def a_page_needs_nothing_from_outside():
    with scratch() as folder:
        page = pathlib.Path(folder, 'life.html')
        expect(weft('draw', capture_of_weft(folder), '-o', page, '--title=<b>&"'), 0)
        text = page.read_text()
        assert text.startswith('<!DOCTYPE html>') and '<h1>&lt;b&gt;&amp;&quot;</h1>' in text
        assert "default-src 'none'" in text and '<svg ' in text and '<?xml' not in text
        outside = set(re.findall(r'https?://[^"\']*', text)) - {'http://www.w3.org/2000/svg'}
        assert not outside and 'src=' not in text.replace('-src ', ''), outside


# --- what is chosen, and what is left out ---------------------------------------------------------

@case
def bounds_leave_out_and_say_so():
    with scratch() as folder:
        path = capture_of_weft(folder)
        everything = draw(path)[1]
        few = weft('draw', path, '--max-events=7').stdout
        assert few.count('class="e ') == 7
        assert f'Left out behind: {len(everything) - 7} more events (--max-events).' in few
        middle = draw(path, '--from=#12', '--to=#20')[1]
        assert middle == [] or {event.packet for event in middle} <= set(range(12, 21))
        assert [event.title for event in middle] == [event.title for event in everything
                                                     if 12 <= event.packet <= 20]
        assert draw(path, '--to=0')[1][0].title == 'SYN'
        assert len(draw(path, '--from=1000s')[1]) == 0


@case
def connections_are_listed_and_chosen():
    with scratch() as folder:
        path = pathlib.Path(folder, 'lo.pcap')
        with tcpdump(path):
            rping(100)
            rping(9000)
        listed = json.loads(weft('draw', '-j', path).stdout)
        first, second = listed['connections']
        assert (first['number'], second['number'], listed['choice']) == (1, 2, 2), listed
        assert first['responder'] == f'127.0.0.1:{PORT}' and first['has_start']
        result = weft('draw', path)
        assert 'connection 2 of 2 is drawn' in result.stderr and '9000' in result.stdout
        assert '9000' not in weft('draw', path, '-c', '1').stdout
        both = draw(path, '-c', '1,2')[1]
        assert {event.title[:4] for event in both} == {'[1] ', '[2] '}
        expect_error(weft('draw', path, '-c', '3'), 1, 'no such connection', 'number 3')
        assert '*    2  iWARP' in weft('draw', '-l', path).stdout


@case
def a_pipe_is_as_good_as_a_file():
    with scratch() as folder:
        path = capture_of_weft(folder)
        piped = subprocess.run(f'cat {path} | {WEFT} draw - --title=x', shell=True, text=True,
                               capture_output=True)
        assert piped.returncode == 0 and piped.stderr == ''
        assert piped.stdout == weft('draw', path, '--title=x').stdout


def cost_of(*words):
    """Of a command: (seconds of processor time, peak memory in MiB)."""
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


@case
def a_long_capture_takes_no_more_memory_and_little_time():
    with scratch() as folder:
        short = capture_of_weft(folder, 'short.pcap', 60000)
        long = pathlib.Path(folder, 'long.pcap')
        rping(60000, 1500, client={'WEFT_PCAP': str(long)})
        assert long.stat().st_size > 150 * 10**6 > 100 * short.stat().st_size
        for words in ((), ('--tail',), ('--list',)):
            _, few = cost_of(WEFT, 'draw', *words, short)
            time, memory = cost_of(WEFT, 'draw', *words, long)
            assert memory < few + 2, f'{words}: {memory} MiB, of a short one {few}'
            yardstick, _ = cost_of('md5sum', long)
            assert time < 8 * yardstick, f'{words}: {time} s, where md5sum takes {yardstick}'


@case
def formats_of_other_programs_are_read():
    if not shutil.which('editcap'):
        raise Skip('no editcap')
    with scratch() as folder:
        path = capture_of_weft(folder)
        titles = [event.title for event in draw(path)[1]]
        for form in ('pcapng', 'pcap', 'nsecpcap'):
            other = pathlib.Path(folder, form)
            subprocess.run(['editcap', '-F', form, path, other], check=True,
                           stderr=subprocess.DEVNULL)
            assert [event.title for event in draw(other)[1]] == titles, form


# --- what bad captures get ------------------------------------------------------------------------

@case
def a_cut_capture_is_drawn_up_to_there():
    with scratch() as folder:
        path = capture_of_weft(folder)
        octets = path.read_bytes()
        cut = pathlib.Path(folder, 'cut.pcap')
        cut.write_bytes(octets[:-30])
        count = len(read_pcap(path)[1])
        result = weft('draw', cut)
        expect(result, 1, None, f'ends inside packet {count}')
        assert 'MPA Request' in result.stdout
        assert json.loads(weft('draw', '-j', cut).stdout)['is_cut']


@case
def a_broken_capture_names_the_packet_once():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        broken = pathlib.Path(folder, 'broken.pcap')
        packets[14] = packets[14][0][:8] + b'\xff' * 8, packets[14][1]
        write_pcap(broken, head, packets)
        result = weft('draw', broken)
        expect(result, 1, None, 'capture broken', 'packet 15', 'more than a mebibyte')
        assert result.stderr.count('packet 15') == 1 and 'MPA Request' in result.stdout


@case
def packets_that_cannot_be_read_are_counted_and_the_first_named():
    with scratch() as folder:
        head, packets = read_pcap(capture_of_weft(folder))
        record, octets = packets[7]
        packets[7] = record, octets[:10] + b'\0\0' + octets[12:]  # the header's checksum
        path = pathlib.Path(folder, 'checksum.pcap')
        write_pcap(path, head, packets)
        result = weft('draw', path)
        expect(result, 0, None, f'1 of {len(packets)} packets were passed over', 'packet 8',
               'checksum')


@case
def what_is_no_capture_or_has_no_rdma_is_refused():
    with scratch() as folder:
        text, plain = pathlib.Path(folder, 'text'), pathlib.Path(folder, 'plain.pcap')
        text.write_text('nothing of the kind, whatever its name is')
        expect_error(weft('draw', text), 1, 'not a capture', 'neither pcap nor pcapng')
        text.write_bytes(b'')
        expect_error(weft('draw', text), 1, 'not a capture')
        expect_error(weft('draw', pathlib.Path(folder, 'none')), 1, 'no capture', 'No such file')
        write_pcap(plain, read_pcap(capture_of_weft(folder))[0], [])
        expect_error(weft('draw', plain), 1, 'nothing to draw', 'none of its 0 packets')


@case
def a_wrong_command_line_is_explained():
    for words, said in ((['draw'], 'one capture, or two of the same, not 0'),
                        (['draw', 'x', '--max-events=0'], 'must be 1 to 20000'),
                        (['draw', 'x', '--from=soon'], 'a time or a #packet'),
                        (['draw', 'x', '-c', '1,2,3,4,5'], 'one to four numbers'),
                        (['draw', 'x', '--roce-port=0'], 'must be 1 to 65535'),
                        (['draw', 'x', '--bogus'], 'no option --bogus')):
        expect(weft(*words), 2, '', said)
    with scratch() as folder:
        expect_error(weft('draw', capture_of_weft(folder), '-o', '/nowhere/x.svg'), 1,
                     'no picture', 'No such file')


enter_namespace()
main()
