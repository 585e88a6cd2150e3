"""6: the client of chapter 4 in Python. Its server does not notice."""

import struct
import sys

from pyverbs.cm_enums import RDMA_PS_TCP
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.enums import IBV_QPT_RC, IBV_WC_SUCCESS
from pyverbs.enums import IBV_SEND_SIGNALED as SIGNALED
from pyverbs.qp import QPCap, QPInitAttr

OFFER = struct.Struct('!QI')  # address, R_Key
TEXT = b'written by a snake\0'


def connect(host):
    where = AddrInfo(dst=host, dst_service='7471', port_space=RDMA_PS_TCP)
    queues = QPInitAttr(qp_type=IBV_QPT_RC, cap=QPCap(4, 4, 1, 1))
    client = CMID(creator=where, qp_init_attr=queues)
    offer = client.reg_msgs(OFFER.size)
    client.post_recv(offer, OFFER.size)  # before the connection: nothing can come too early
    client.connect()
    client.get_recv_comp()
    return client, *OFFER.unpack(offer.read(OFFER.size, 0))


def succeeded(client):
    assert client.get_send_comp().status == IBV_WC_SUCCESS


def main():
    client, address, rkey = connect(sys.argv[1])
    source = client.reg_msgs(64)
    source.write(TEXT, len(TEXT))
    client.post_write(source, len(TEXT), address, rkey, SIGNALED)
    succeeded(client)

    sink = client.reg_write(64)
    client.post_read(sink, len(TEXT), address, rkey, SIGNALED)
    succeeded(client)
    print('read back:', sink.read(len(TEXT), 0).rstrip(b'\0').decode())

    word = client.reg_msgs(16)
    word.write(b'look, Python\0', 13)
    client.post_send(word, SIGNALED)
    succeeded(client)


main()
