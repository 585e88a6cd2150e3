#!/usr/bin/env python3
"""Reservations of a volume as its clients meet them: who asks for one over one protocol is obeyed
over all of them."""

import struct

import nbd_client as nbd
from iscsi_host import WRITE, Initiator
from serving import Iscsi, case, main

GOOD, CONFLICT = 0, 0x18
REGISTER, RESERVE, RELEASE, CLEAR, PREEMPT = range(5)
WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS = 1, 3
BLOCK = bytes(512)


def reserve_out(host, action, kind=0, key=0, new_key=0, flags=0):
    """The status of a PERSISTENT RESERVE OUT."""
    data = struct.pack('>QQIBBH', key, new_key, 0, flags, 0, 0)
    return host.ask([0x5f, action, kind, 0, 0, *len(data).to_bytes(4, 'big')], len(data), WRITE,
                    data=data).status


def initiator(node, isid=b'\x80weft0'):
    host = Initiator(node.address)
    assert isinstance(host.login(node.target, isid=isid), dict)
    return host.ready()


def nbd_write(client):
    client.request(nbd.WRITE, 0, 512, data=BLOCK)
    return client.answer()[0]


def nbd_read(client):
    client.request(nbd.READ, 0, 512)
    return client.answer(512)[0]


@case
def an_nbd_client_obeys_what_an_initiator_has_reserved():
    with Iscsi('disk=ram:1M') as node, initiator(node) as host, nbd.Client(node) as client:
        client.go(b'disk')
        assert reserve_out(host, REGISTER, new_key=7) == GOOD
        assert nbd_write(client) == 0
        assert reserve_out(host, RESERVE, WRITE_EXCLUSIVE, 7) == GOOD
        assert (nbd_write(client), nbd_read(client)) == (nbd.EPERM, 0)
        assert reserve_out(host, RELEASE, WRITE_EXCLUSIVE, 7) == GOOD
        assert reserve_out(host, RESERVE, EXCLUSIVE_ACCESS, 7) == GOOD
        assert (nbd_write(client), nbd_read(client)) == (nbd.EPERM, nbd.EPERM)
        refused = node.status()['volumes'][0]['completions']['reserved']
        assert refused == 3, refused
        assert reserve_out(host, CLEAR, key=7) == GOOD
        assert (nbd_write(client), nbd_read(client)) == (0, 0)


@case
def a_reservation_of_six_octets_ends_with_its_session():
    with Iscsi('disk=ram:1M') as node, nbd.Client(node) as client:
        client.go(b'disk')
        with initiator(node) as host:
            assert host.ask([0x16]).status == GOOD
            assert nbd_read(client) == nbd.EPERM
            assert host.ask([0x17]).status == GOOD
            assert nbd_read(client) == 0
            assert host.ask([0x16]).status == GOOD
        with initiator(node) as host:  # that it is let in says that the former session has ended
            assert host.ask([0x16]).status == GOOD


main()
