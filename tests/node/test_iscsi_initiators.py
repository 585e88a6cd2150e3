#!/usr/bin/env python3
"""The node's iSCSI targets judged by initiators that are not weft's: libiscsi's tools, and qemu
over libiscsi."""

import os
import pathlib
import re

import clients
from serving import Iscsi, case, folder, main, need, run, subprocess

UNIT = re.compile(r'Lun:0 +Type:DIRECT_ACCESS')


@case
def discovery_lists_every_volume():
    need('iscsi-ls')
    with Iscsi('a=ram:1M', 'b=ram:2M') as node:
        said = run('iscsi-ls', '-s', node.portal)
        assert [f'Target:{url.split("/")[3]}' in said for url in node.urls] == [True, True], said
        assert len(UNIT.findall(said)) == 2, said


@case
def discovery_leaves_out_what_the_initiator_may_not_use():
    need('iscsi-ls')
    with Iscsi('a=ram:1M', 'b=ram:2M?allow=iqn.2026-11.invalid.judge:me') as node:
        hidden = node.urls[1].split('/')[3]
        assert hidden not in run('iscsi-ls', node.portal)
        assert hidden in run('iscsi-ls', '-i', 'iqn.2026-11.invalid.judge:me', node.portal)


@case
def more_targets_than_one_answer_holds_are_discovered():
    need('iscsi-ls')
    with Iscsi(*(f'v{i}=null:1M' for i in range(100)), '--rta=host') as node:
        assert run('iscsi-ls', node.portal).count('Target:') == 100


@case
def inquiry_tells_of_the_volume():
    need('iscsi-inq', 'iscsi-readcapacity16')
    with Iscsi('disk=ram:64M') as node:
        said = run('iscsi-inq', node.url)
        assert 'Vendor:WEFT' in said and 'DIRECT_ACCESS' in said, said
        pages = run('iscsi-inq', '-e', '1', '-c', '0', node.url)
        for page in ('0x80', '0x83', '0xb0', '0xb1', '0xb2'):
            assert f'Page:{page}' in pages, pages
        uuid = node.status()['volumes'][0]['uuid'].replace('-', '')
        assert f'[{uuid}]' in run('iscsi-inq', '-e', '1', '-c', '128', node.url)
        said = run('iscsi-readcapacity16', node.url)
        assert 'RETURNED LOGICAL BLOCK ADDRESS:131071' in said, said


@case
def qemu_io_reads_what_it_wrote():
    need('qemu-io')
    with Iscsi('disk=ram:16M') as node:
        run('qemu-io', '-f', 'raw', '-c', 'write -P 7 0 4M', '-c', 'read -P 7 0 4M', '-c',
            'write -f -P 9 5M 4k', '-c', 'read -P 9 5M 4k', '-c', 'write -z 64k 64k', '-c',
            'read -P 0 64k 64k', '-c', 'read -P 7 128k 64k', '-c', 'discard 2M 1M', '-c', 'flush',
            node.url)


@case
def qemu_img_round_trip():
    need('qemu-img')
    with folder() as place, Iscsi('disk=ram:16M') as node:
        data = pathlib.Path(place, 'data')
        data.write_bytes(b'weft' * (2 << 20) + bytes(8 << 20))
        run('qemu-img', 'convert', '-n', '-f', 'raw', '-O', 'raw', data, node.url)
        run('qemu-img', 'compare', '-f', 'raw', '-F', 'raw', data, node.url)
        run('qemu-img', 'convert', '-f', 'raw', '-O', 'raw', node.url, f'{place}/back')
        run('cmp', data, f'{place}/back')


@case
def wefts_own_driver_takes_it_for_a_device():
    """A node's volume is another's device: the contract of drivers, and a client behind both."""
    with Iscsi('disk=ram:16M') as node:
        run(pathlib.Path(os.environ['WEFT_BUILD_DIR'], 'tests/test_node_ddm'), node.url)
        clients.qemu_io_writes_zeroes_and_discards(f'disk={node.url}')


@case
def a_volume_that_is_read_only_refuses_writes():
    need('qemu-io')
    with Iscsi('-r', 'disk=ram:1M') as node:
        write = subprocess.run(['qemu-io', '-f', 'raw', '-c', 'write 0 4k', node.url],
                               capture_output=True, text=True, timeout=60)
        assert write.returncode != 0, write
        run('qemu-io', '-r', '-f', 'raw', '-c', 'read -P 0 0 4k', node.url)


main()
