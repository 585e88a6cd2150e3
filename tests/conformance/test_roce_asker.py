#!/usr/bin/env python3
"""The connection manager of who asks (volume 1, chapter 12, annex A11).

rping's client asks, over IPv4 and IPv6, a host that is no weft and answers what each case wants.
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))

import cases  # noqa: E402
import tapnet  # noqa: E402
from cases import WEFT, case  # noqa: E402
from roce_stranger import (DREP, DREQ, MRA, RC_SEND_ONLY, REJ, REP, REQ, RTU,  # noqa: E402
                           Stranger)

SERVICE_PORT = 7174
GUID = bytes.fromhex('0202030405060708')
OUR_ID, OUR_QP, OUR_PSN = 0x51515151, 0x00abcd, 0xfffffe
LIMIT_S = 60


class Asking:
    """rping's client asks the stranger of a family."""

    def __init__(self, stranger):
        self.stranger = stranger
        words = [WEFT, 'run', '--wire=roce', '--', 'rping', '-c', '-d', '-C', '1',
                 '-a', str(stranger.own), '-p', str(SERVICE_PORT)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)

    def __enter__(self):
        self.req = self.stranger.hear_mad(REQ)
        self.their_id = self.req.word(0)
        self.transaction = self.req.mad[8:16]
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def says(self, words):
        """Before its end, or at it."""
        limit = threading.Timer(LIMIT_S, self.process.kill)
        limit.start()
        said = ''
        for line in self.process.stdout:
            said += line
            if words in line:
                break
        limit.cancel()
        assert words in said, said

    def reject(self, reason, subject=0):
        self.stranger.say_mad(REJ, self.transaction, {
            4: self.their_id.to_bytes(4, 'big'), 8: bytes([subject << 6]),
            10: reason.to_bytes(2, 'big')})

    def reply(self, remote_id=None, **how):
        remote_id = self.their_id if remote_id is None else remote_id
        self.stranger.say_mad(REP, self.transaction, {
            0: OUR_ID.to_bytes(4, 'big') + remote_id.to_bytes(4, 'big'),
            12: OUR_QP.to_bytes(3, 'big'), 20: OUR_PSN.to_bytes(3, 'big'), 24: bytes([1, 1]),
            27: bytes([7 << 5]), 28: GUID}, **how)

    def say_of(self, attribute, more=None):
        ids = OUR_ID.to_bytes(4, 'big') + self.their_id.to_bytes(4, 'big')
        self.stranger.say_mad(attribute, self.transaction, {0: ids, **(more or {})})


def of_both_families(function):
    """A case for each family."""
    for stranger in strangers:
        def bound(stranger=stranger):
            function(stranger)
        bound.__name__ = f'{function.__name__}_over_ipv{stranger.own.version}'
        case(bound)


strangers = []


def a_request_has_the_fields_of_the_figure(stranger):
    """12.6.5, A11."""
    with Asking(stranger) as asking:
        req = asking.req
        assert req.data(8, 8) == struct.pack('>Q', 0x106 << 16 | SERVICE_PORT)
        assert req.word(0) != 0 and req.data(16, 8) != bytes(8)  # id, GUID
        assert req.word(32) >> 8 > 1  # queue pair
        assert req.data(43, 1)[0] & 6 == 0  # RC
        assert req.data(48, 2) == b'\xff\xff'  # P_Key
        assert 1 <= req.data(50, 1)[0] >> 4 <= 5  # path MTU
        assert req.data(56, 16) == stranger.mapped(stranger.peer)
        assert req.data(72, 16) == stranger.mapped(stranger.own)
        assert req.data(93, 1)[0] > 0  # hop limit
        version = stranger.own.version
        header = req.data(140, 36)
        assert header[:2] == bytes([0, version << 4])
        assert header[2:4] != bytes(2)  # port
        places = (16, 32) if version == 4 else (4, 20)
        for at, address in zip(places, (stranger.peer, stranger.own)):
            assert header[at:at + len(address.packed)] == address.packed


def a_rejection_is_told_with_its_reason(stranger):
    """12.6.7"""
    for reason in 1, 3, 6, 10, 12, 28:
        with Asking(stranger) as asking:
            asking.reject(reason)
            asking.says(f'RDMA_CM_EVENT_REJECTED, error {reason}\n')


def who_finds_nobody_listening_asks_again_and_hears_of_it(stranger):
    """A moment later, and not for ever (docs/roce.md)."""
    with Asking(stranger) as asking:
        times = 1
        asking.reject(8)
        for _ in range(5):
            again = stranger.hear_mad(REQ)
            assert again.mad == asking.req.mad
            times += 1
            asking.reject(8)
        asking.says('RDMA_CM_EVENT_REJECTED, error 8\n')
        assert times == 6


def a_request_that_is_not_answered_comes_again(stranger):
    """12.9.7: the same octets; one that is late answers it too."""
    with Asking(stranger) as asking:
        assert stranger.hear_mad(REQ).mad == asking.req.mad
        asking.reject(28)
        asking.says('RDMA_CM_EVENT_REJECTED, error 28\n')


def who_is_asked_for_time_takes_the_reply_later(stranger):
    """12.6.6: so much longer it does not ask again, which it would by then."""
    with Asking(stranger) as asking:
        asking.say_of(MRA, {8: bytes([0]), 9: bytes([23 << 3])})  # of the REQ; 34 s
        time.sleep(2.5)
        asking.reply()
        stranger.hear_nothing_else_until(RTU, REQ)


def a_reply_is_answered_by_an_rtu_and_data(stranger):
    """12.6.9; the first packet has the PSN that the reply says, and goes to its queue pair."""
    with Asking(stranger) as asking:
        asking.reply()
        rtu = stranger.hear_mad(RTU)
        assert rtu.word(0) == asking.their_id and rtu.word(4) == OUR_ID
        assert rtu.mad[8:16] == asking.transaction
        data = stranger.hear(lambda packet: packet.dest_qp == OUR_QP)
        assert data.opcode == RC_SEND_ONLY and data.psn == OUR_PSN


def a_reply_that_comes_again_is_answered_again(stranger):
    with Asking(stranger) as asking:
        asking.reply()
        rtu = stranger.hear_mad(RTU)
        asking.reply()
        assert stranger.hear_mad(RTU).mad == rtu.mad


def a_reply_for_another_is_rejected(stranger):
    """12.9.8.3: REJ 6; the connection that asked goes on."""
    with Asking(stranger) as asking:
        asking.reply(remote_id=asking.their_id ^ 1)
        rej = stranger.hear_nothing_else_until(REJ, RTU)
        assert rej.data(10, 2) == b'\0\6' and rej.data(8, 1)[0] >> 6 == 1
        asking.reply()
        stranger.hear_mad(RTU)


def a_reply_whose_icrc_is_wrong_is_dropped(stranger):
    """All 32 bits of it over IPv6; over IPv4, whose identification is not known, 16."""
    with Asking(stranger) as asking:
        if stranger.own.version == 6:
            asking.reply(icrc_change=1)
        asking.reject(28)
        asking.says('RDMA_CM_EVENT_REJECTED, error 28\n')


def a_dreq_is_answered_and_told(stranger):
    """12.6.10, 12.6.11"""
    with Asking(stranger) as asking:
        asking.reply()
        stranger.hear_mad(RTU)
        asking.say_of(DREQ, {8: asking.req.data(32, 3)})
        drep = stranger.hear_mad(DREP)
        assert drep.word(0) == asking.their_id and drep.word(4) == OUR_ID
        asking.says('DISCONNECT')


def an_established_connection_that_is_rejected_hears_so(stranger):
    """12.6.7, as Linux' cm_rej_handler has it."""
    with Asking(stranger) as asking:
        asking.reply()
        stranger.hear_mad(RTU)
        asking.say_of(REJ, {8: bytes([2 << 6]), 10: (28).to_bytes(2, 'big')})
        asking.says('RDMA_CM_EVENT_REJECTED, error 28\n')


def a_rejection_of_a_copy_of_the_request_ends_nothing(stranger):
    """Behind the reply: Linux' cm_acquire_rejected_id."""
    with Asking(stranger) as asking:
        asking.reply()
        stranger.hear_mad(RTU)
        asking.reject(10)
        asking.say_of(DREQ, {8: asking.req.data(32, 3)})
        stranger.hear_mad(DREP)
        asking.says('DISCONNECT')


def a_dreq_before_any_reply_ends_the_request(stranger):
    """As the rejection would that Linux says there: the reply was lost (docs/roce.md)."""
    with Asking(stranger) as asking:
        asking.say_of(DREQ, {8: asking.req.data(32, 3)})
        drep = stranger.hear_mad(DREP)
        assert drep.word(0) == asking.their_id and drep.word(4) == OUR_ID
        asking.says('RDMA_CM_EVENT_REJECTED, error 28\n')


def who_ends_is_answered(stranger):
    """rping's client ends when its message is not taken: a DREQ for the reply's queue pair."""
    with Asking(stranger) as asking:
        asking.reply()
        data = stranger.hear(lambda packet: packet.dest_qp == OUR_QP)
        nak_of_access = 0x62 << 24 | 1
        their_qp = int.from_bytes(asking.req.data(32, 3), 'big')
        stranger.say(struct.pack('>BBHIII', 0x11, 0, 0xffff, their_qp, data.psn, nak_of_access))
        dreq = stranger.hear_mad(DREQ)
        assert dreq.word(0) == asking.their_id and dreq.word(4) == OUR_ID
        assert dreq.word(8) >> 8 == OUR_QP
        ids = OUR_ID.to_bytes(4, 'big') + asking.their_id.to_bytes(4, 'big')
        stranger.say_mad(DREP, dreq.mad[8:16], {0: ids})
        asking.says('')


FUNCTIONS = [
    a_request_has_the_fields_of_the_figure,
    a_rejection_is_told_with_its_reason,
    who_finds_nobody_listening_asks_again_and_hears_of_it,
    a_request_that_is_not_answered_comes_again,
    who_is_asked_for_time_takes_the_reply_later,
    a_reply_is_answered_by_an_rtu_and_data,
    a_reply_that_comes_again_is_answered_again,
    a_reply_for_another_is_rejected,
    a_reply_whose_icrc_is_wrong_is_dropped,
    a_dreq_is_answered_and_told,
    an_established_connection_that_is_rejected_hears_so,
    a_rejection_of_a_copy_of_the_request_ends_nothing,
    a_dreq_before_any_reply_ends_the_request,
    who_ends_is_answered,
]


def open_strangers():
    """Two hosts behind two devices of this namespace, one for each family."""
    for name, net, own, peer in (('stranger4', '/24', '10.9.0.2', '10.9.0.1'),
                                 ('stranger6', '/64', 'fd09::2', 'fd09::1')):
        strangers.append(Stranger(name, own, peer))
        tapnet.ip('address', 'add', peer + net, 'dev', name, *(['nodad'] if ':' in peer else []))
        tapnet.ip('link', 'set', name, 'up')
    tapnet.ip('link', 'set', 'lo', 'up')


def main():
    if shutil.which('rping') is None:
        cases.skip_all('rping is not installed')
    try:
        tapnet.enter_namespace()
    except tapnet.NotHere as why:
        cases.skip_all(str(why))
    open_strangers()
    for function in FUNCTIONS:
        of_both_families(function)
    cases.main()


if __name__ == '__main__':
    main()
