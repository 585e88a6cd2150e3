#!/usr/bin/env python3
"""The iSCSI targets against initiators that do not keep to the protocol, and those that do so
oddly. What real ones make of them is in test_iscsi_initiators.py and test_iscsi_suite.py."""

import contextlib
import struct
import time

import iscsi_host as iscsi
from iscsi_host import NO_TAG, READ, WRITE, Initiator
from serving import Iscsi, case, folder, main, until

ILLEGAL, ABORTED, ATTENTION = 5, 0xb, 6


@contextlib.contextmanager
def session(node, *keys, limit=10, isid=b'\x80weft0'):
    with Initiator(node.address, limit) as initiator:
        agreed = initiator.login(node.target, *keys, isid=isid)
        assert isinstance(agreed, dict), hex(agreed)
        initiator.agreed = agreed
        yield initiator.ready()


def on_node(*words):
    """A case with a node, which must serve afterwards too."""
    def wrap(function):
        def run():
            with Iscsi(*words or ['disk=ram:1M']) as node:
                function(node)
                with session(node, isid=b'\x80after') as host:
                    assert len(host.read(0, 1)) == 512
        run.__name__ = function.__name__
        return case(run)
    return wrap


def refused(node, send):
    """The status that a login ends with; None: the connection just ends."""
    with Initiator(node.address) as host:
        send(host)
        try:
            said = host.receive()
        except (EOFError, ConnectionError):
            return None
        assert host.is_closed()
        return struct.unpack_from('>H', said.header, 36)[0]


@on_node()
def an_initiator_reads_what_it_wrote_whatever_was_agreed(node):
    pattern = bytes(range(256)) * 64
    for digest in 'None', 'CRC32C':
        for immediate in 'Yes', 'No':
            for r2t in 'Yes', 'No':
                keys = [('HeaderDigest', digest), ('DataDigest', digest),
                        ('ImmediateData', immediate), ('InitialR2T', r2t),
                        ('FirstBurstLength', 4096), ('MaxBurstLength', 4096),
                        ('MaxRecvDataSegmentLength', 8192)]
                with session(node, *keys) as host:
                    assert host.agreed['ImmediateData'] == immediate, host.agreed
                    assert host.agreed['InitialR2T'] == r2t, host.agreed
                    first = pattern[:1024] if immediate == 'Yes' else b''
                    tag = host.write_begin(8, 32, data=first, final=r2t == 'Yes')
                    done = len(first)
                    if r2t == 'No':
                        host.data_out(tag, NO_TAG, done, pattern[done:4096])
                        done = 4096
                    while done < len(pattern):
                        asked = host.receive()
                        assert asked.opcode == iscsi.R2T and asked.word(40) == done, asked.opcode
                        end = done + asked.word(44)
                        assert end - done <= 4096
                        host.data_out(tag, asked.ttt, done, pattern[done:end])
                        done = end
                    assert host.receive().status == 0
                    parts, got = [], b''
                    host.command([0x28, 0, 0, 0, 0, 8, 0, 0, 32], len(pattern), READ)
                    while len(got) < len(pattern):
                        parts.append(host.receive())
                        assert parts[-1].word(40) == len(got)
                        got += parts[-1].data
                    assert got == pattern and [part.flags & 1 for part in parts] == [0, 0, 0, 1]


@on_node(*(f'v{i}=null:1M' for i in range(80)), '--rta=host')
def a_list_of_targets_comes_in_parts(node):
    with Initiator(node.address) as host:
        host.login('', ('MaxRecvDataSegmentLength', 1024))
        text, tag = b'', NO_TAG
        while True:
            host.send(iscsi.TEXT, iscsi.FINAL, 7, b'SendTargets=All\0' if tag == NO_TAG else b'',
                      struct.pack('>II', tag, host.number()))
            said = host.receive()
            assert said.opcode == iscsi.TEXT_RESPONSE and len(said.data) <= 1024
            text, tag = text + said.data, said.ttt
            if said.flags & iscsi.FINAL:
                break
        assert text.count(b'TargetName=') == 80 and tag == NO_TAG


def text(host, data, tag=NO_TAG):
    host.send(iscsi.TEXT, iscsi.FINAL, 7, data, struct.pack('>II', tag, host.number()))
    return host.receive()


@on_node()
def what_a_login_has_agreed_on_stays(node):
    with session(node) as host:
        said = text(host, b'HeaderDigest=CRC32C\0DataDigest=CRC32C\0MaxBurstLength=512\0'
                          b'ImmediateData=No\0MaxRecvDataSegmentLength=1024\0Colour=red\0').data
        assert said.split(b'\0')[:4] == [b'HeaderDigest=Reject', b'DataDigest=Reject',
                                         b'MaxBurstLength=Reject', b'ImmediateData=Reject'], said
        assert b'MaxRecvDataSegmentLength=' in said and b'Colour=NotUnderstood' in said, said
        assert host.read(3, 1) == bytes(512)


@on_node(*(f'v{i}=null:1M' for i in range(20)), '--rta=host')
def of_an_answer_that_there_is_not_no_more_is_told(node):
    with Initiator(node.address) as host:
        host.login('', ('MaxRecvDataSegmentLength', 1024))
        tag = text(host, b'SendTargets=All\0').ttt
        assert tag != NO_TAG
        for data, other in ((b'', tag + 1), (b'SendTargets=All\0nonsense', NO_TAG), (b'', tag)):
            assert text(host, data, other).opcode == iscsi.REJECT, (data, other)
        assert b'TargetName=' in text(host, b'SendTargets=All\0').data


@on_node()
def a_login_that_makes_no_sense_is_refused(node):
    name, target = ('InitiatorName', iscsi.NAME), ('TargetName', node.target)
    for status, flags, keys in (
            (0x0207, 0x87, []), (0x0207, 0x87, [name]), (0x0203, 0x87, [name, ('TargetName', 'x')]),
            (0x0209, 0x87, [name, target, ('SessionType', 'Odd')]),
            (0x0201, 0x81, [name, target, ('AuthMethod', 'KRB5')]),
            (0x0200, 0x87, [name, target, ('MaxBurstLength', '99999999999')]),
            (0x0200, 0x87, [name, target, ('InitialR2T', 'Perhaps')]),
            (0x020b, 0x84, [name, target]), (0x020b, 0x8e, [name, target])):
        got = refused(node, lambda host: host.login_send(flags, keys))
        assert got == status, (hex(status), got)
    assert refused(node, lambda host: host.login_send(0x87, [], data=b'no pair')) == 0x0200
    assert refused(node, lambda host: host.login_send(0x87, [name, target], tsih=9)) == 0x020a
    assert refused(node, lambda host: host.login_send(0x87, [name], version=3)) == 0x0205
    with Initiator(node.address) as host:  # of many parts, which never end
        for _ in range(3):
            host.login_send(0x44, [], data=b'a=' + b'b' * 8000)
        statuses = [struct.unpack_from('>H', host.receive().header, 36)[0] for _ in range(3)]
        assert statuses == [0, 0, 0x0200] and host.is_closed(), statuses


@on_node()
def who_has_not_logged_in_gets_nothing(node):
    for opcode in (iscsi.COMMAND, iscsi.NOP_OUT, iscsi.TEXT, iscsi.DATA_OUT, 0x3f):
        assert refused(node, lambda host: host.send(opcode, iscsi.FINAL, 1)) is None
    assert refused(node, lambda host: host.send(0x40 | iscsi.LOGIN, 0x87, 1,
                                                data_len=0xffffff)) is None
    assert node.status()['iscsi']['malformed'] == 6


@on_node('disk=ram:1M')
def a_login_that_takes_its_time_is_ended(node):
    with Initiator(node.address, 20) as host:
        begin = time.monotonic()
        host.socket.sendall(b'\x43')
        assert host.is_closed() and 5 < time.monotonic() - begin < 18


@on_node()
def lengths_that_cannot_be_end_the_connection_or_the_command(node):
    with session(node) as host:
        host.send(iscsi.NOP_OUT, iscsi.FINAL, 5, data_len=(256 << 10) + 1,
                  fields=struct.pack('>II', NO_TAG, host.number()))
        assert host.is_closed()
    with session(node) as host:
        host.send(iscsi.COMMAND, 0xa0, 5, data_len=0xffffff)
        assert host.is_closed()
    with session(node) as host:  # more with the command than was said, and agreed
        tag = host.write_begin(0, 1, data=bytes(1024))
        said = host.receive()
        assert said.opcode == iscsi.REJECT and said.header[2] == 4, said.opcode
        assert len(host.read(0, 1)) == 512
        tag = host.write_begin(0, 8)
        asked = host.receive()
        host.data_out(tag, asked.ttt, 512, bytes(512))  # not where it was asked for
        assert host.receive().opcode == iscsi.REJECT
        said = host.receive()
        assert said.status == 2 and said.sense[0] == ABORTED, said.sense
        host.data_out(99, 63, 0, bytes(512))  # a task that is none
        host.data_out(99, 1 << 20, 0, bytes(512))
        assert len(host.read(0, 1)) == 512


@on_node()
def what_is_beyond_the_end_is_refused(node):
    with session(node) as host:
        said = host.ask([0x28, 0, 0, 0, 8, 0, 0, 0, 1], 512, READ)
        assert said.sense == (ILLEGAL, 0x21, 0), said.sense
        said = host.ask([0x8a, 0, *[255] * 8, 255, 255, 255, 255], 512, WRITE, data=bytes(512))
        assert said.sense == (ILLEGAL, 0x21, 0), said.sense
        said = host.ask([0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, READ)
        assert said.status == 0
        assert host.ask([0xff]).sense == (ILLEGAL, 0x20, 0)


@on_node()
def a_wrong_digest_costs_the_command_or_the_connection(node):
    digests = [('HeaderDigest', 'CRC32C'), ('DataDigest', 'CRC32C')]
    with session(node, *digests) as host:
        right = iscsi.crc32c
        tag = host.write_begin(0, 1)
        asked = host.receive()
        header = struct.pack('>BBHIQIIIIIII', iscsi.DATA_OUT, 0x80, 0, 512, 0, tag, asked.ttt, 0, 0,
                             0, 0, 0).ljust(48, b'\0')
        host.socket.sendall(header + right(header) + bytes(512) + b'bad!')
        assert host.receive().opcode == iscsi.REJECT
        said = host.receive()
        assert said.status == 2 and said.sense == (ABORTED, 0x47, 5), said.sense
        host.socket.sendall(header + b'bad!')
        assert host.is_closed()
    assert node.status()['iscsi']['digest_errors'] == 2


@on_node()
def numbers_beyond_the_window_are_ignored(node):
    with session(node) as host:
        host.command([0], cmdsn=host.cmdsn + 1000)
        host.command([0], cmdsn=host.cmdsn - 1)
        assert host.ask([0]).itt == host.itt


@on_node()
def a_ping_comes_back(node):
    with session(node) as host:
        host.send(0x40 | iscsi.NOP_OUT, iscsi.FINAL, 77, b'ping',
                  struct.pack('>II', NO_TAG, host.cmdsn))
        said = host.receive()
        assert (said.opcode, said.itt, said.data) == (iscsi.NOP_IN, 77, b'ping')


@on_node()
def each_answer_has_the_next_status_number(node):
    """RFC 7143 section 4.2.2.1: all that end something; an R2T only says which is next."""
    def number(said, opcode):
        assert said.opcode == opcode, said.opcode
        return said.word(24)

    with session(node) as host:
        at = number(host.ask([0]), iscsi.RESPONSE)
        for tag in 77, 78:
            host.send(0x40 | iscsi.NOP_OUT, iscsi.FINAL, tag, b'',
                      struct.pack('>II', NO_TAG, host.cmdsn))
            at += 1
            assert number(host.receive(), iscsi.NOP_IN) == at
        host.send(0x40 | iscsi.TASK, 0x81, 79, fields=struct.pack('>II', 999, host.cmdsn))
        assert number(host.receive(), iscsi.TASK_RESPONSE) == at + 1
        host.send(0x40 | iscsi.TEXT, iscsi.FINAL, 80, b'SendTargets=\0',
                  struct.pack('>II', NO_TAG, host.cmdsn))
        assert number(host.receive(), iscsi.TEXT_RESPONSE) == at + 2
        tag = host.write_begin(0, 1)
        asked = host.receive()
        assert number(asked, iscsi.R2T) == at + 3
        host.data_out(tag, asked.ttt, 0, bytes(512))
        assert number(host.receive(), iscsi.RESPONSE) == at + 3
        host.send(0x40 | iscsi.LOGOUT, 0x80, 81, fields=struct.pack('>II', 0, host.cmdsn))
        assert number(host.receive(), iscsi.LOGOUT_RESPONSE) == at + 4


@on_node('delay+ram:1M?delay.read=300ms')
def an_aborted_task_is_not_answered(node):
    with session(node) as host:
        tag = host.command([0x28, 0, 0, 0, 0, 0, 0, 0, 1], 512, READ)
        host.send(0x40 | iscsi.TASK, 0x81, 78, fields=struct.pack('>II', tag, host.cmdsn))
        said = host.receive()
        assert (said.opcode, said.itt, said.header[2]) == (iscsi.TASK_RESPONSE, 78, 0)
        assert host.ask([0]).itt == host.itt
        host.send(0x40 | iscsi.TASK, 0x81, 79, fields=struct.pack('>II', 999, host.cmdsn))
        assert host.receive().header[2] == 1  # there is none


@on_node()
def a_reset_ends_what_waits_for_data_and_is_told_to_all(node):
    with session(node) as host, session(node, isid=b'\x80weft1') as other:
        host.write_begin(0, 8)
        assert host.receive().opcode == iscsi.R2T
        other.send(0x40 | iscsi.TASK, 0x85, 78, fields=struct.pack('>II', 0, other.cmdsn))
        assert other.receive().header[2] == 0
        assert host.ask([0]).sense == (ATTENTION, 0x29, 3)
        assert host.ask([0]).status == 0


@on_node()
def a_task_set_is_that_of_all_initiators(node):
    """CLEAR TASK SET (RFC 7143 section 11.5.1, SAM-5 section 7.5)."""
    with session(node) as host, session(node, isid=b'\x80weft1') as other:
        host.write_begin(0, 8)
        assert host.receive().opcode == iscsi.R2T
        other.send(0x40 | iscsi.TASK, 0x84, 78, fields=struct.pack('>II', 0, other.cmdsn))
        assert other.receive().header[2] == 0
        assert host.ask([0]).sense == (ATTENTION, 0x2f, 0)
        assert host.ask([0]).status == other.ask([0]).status == 0


@on_node()
def a_session_that_comes_back_ends_its_former_self(node):
    with session(node) as first:
        with session(node) as second:
            assert first.is_closed()
            assert len(second.read(0, 1)) == 512
        with session(node, isid=b'\x80weft1') as third, session(node) as fourth:
            assert len(third.read(0, 1)) == len(fourth.read(0, 1)) == 512


@case
def who_holds_memory_and_does_not_get_on_is_ended():
    with folder() as place:
        config = place / 'node.conf'
        config.write_text('[node]\npatience = 1s\n[volume disk]\nuri = ram:16M\n')
        with Iscsi(f'--config={config}') as node:
            with session(node, limit=20) as host:
                host.write_begin(0, 8)
                assert host.receive().opcode == iscsi.R2T
                assert host.is_closed()  # the data do not come
            with session(node, limit=20) as host:
                for _ in range(60):
                    host.command([0x28, 0, 0, 0, 0, 0, 0, 0x10, 0], 2 << 20, READ)
                until(lambda: node.status()['iscsi']['stalled'] == 2)  # nothing is read
            until(lambda: node.status()['pool_taken'] == 0)


@on_node()
def pings_whose_answers_are_not_read_stop_what_is_read(node):
    with session(node, limit=1) as host:
        ping = struct.pack('>BBHIQI', 0x40, 0x80, 0, 8192, 0, 1) + struct.pack('>II', NO_TAG, 1)
        try:
            for _ in range(20000):
                host.socket.sendall(ping.ljust(48, b'\0') + bytes(8192))
            raise AssertionError('160 MB of pings were taken')
        except TimeoutError:
            pass


@case
def initiators_hear_that_the_node_stops():
    with Iscsi('disk=ram:1M') as node, session(node) as host:
        node.process.terminate()
        said = host.receive()
        assert said.opcode == iscsi.ASYNC and said.header[36] == 3, said.opcode
        assert host.is_closed()


main()
