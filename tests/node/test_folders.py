#!/usr/bin/env python3
"""Folders of images as volumes: what comes and goes, and who hears of it."""

import contextlib
import os
import re
import struct
import time

import nvme_host as nvme
from nvme_host import session, sqe
from serving import Node, Nvme, case, expect, expect_error, folder, main, need, run, until, weft

MIB = 1 << 20


def image(path, size=MIB):
    """Written to its end."""
    with open(path, 'wb') as out:
        out.truncate(size)
    return path


def states(node):
    return {volume['name']: volume['state'] for volume in node.status()['volumes']}


def exports(node):
    return re.findall('export="(.*)":', run('nbdinfo', '--list', node.uri()))


@case
def what_comes_and_goes_is_served_and_said():
    need('nbdinfo')
    with folder() as place:
        image(place / 'a.img'), image(place / 'b.img')
        with Node(f'{place}/') as node:
            assert exports(node) == ['a.img', 'b.img']
            image(place / 'c.img', 2 * MIB)
            until(lambda: states(node).get('c.img') == 'ready')
            assert run('nbdinfo', '--size', node.uri('c.img')).strip() == str(2 * MIB)
            os.rename(place / 'a.img', place / 'd.img')
            os.unlink(place / 'b.img')
            until(lambda: states(node) == {'c.img': 'ready', 'd.img': 'ready'})
            assert sorted(exports(node)) == ['c.img', 'd.img']
            until(lambda: len(node.rtas()) == 2)
            for words in ('c.img: added', 'd.img: added', 'a.img: removed', 'b.img: removed'):
                assert f'volume {words}' in node.said(), node.said()


@case
def a_file_that_grows_is_as_large_as_it_is():
    with folder() as place:
        image(place / 'a.img')
        with Node(f'{place}/') as node:
            with open(place / 'a.img', 'r+b') as out:
                out.truncate(3 * MIB)
            until(lambda: node.status()['volumes'][0]['size'] == 3 * MIB)


@case
def a_file_that_is_being_written_is_waited_for():
    with folder() as place, Node('ram=ram:1M', f'{place}/') as node:
        with open(place / 'a.img', 'wb') as out:
            out.truncate(MIB)
            time.sleep(0.6)  # three times as long as it takes to be looked at
            assert 'a.img' not in states(node)
        until(lambda: states(node).get('a.img') == 'ready')
        os.link(place / 'a.img', place / 'b.img')  # this one is there at once
        until(lambda: 'b.img' in states(node))


@case
def discovery_controllers_tell_of_it():
    with folder() as place:
        image(place / 'a.img')
        with Nvme(f'glob:{place}/*.img') as node:
            with session(node.address, nvme.DISCOVERY, 0) as (admin,):
                admin.feature(0xb, 1 << 31)
                admin.capsule(sqe(nvme.AER, 20))
                image(place / 'note.txt')
                image(place / 'b.img')
                said = admin.answer()
                assert (said.status, said.result, said.cid) == (0, 0x0070f002, 20)
                until(lambda: states(node) == {'a.img': 'ready', 'b.img': 'ready'})
                assert struct.unpack_from('<Q', admin.log(0x70, 4096).data, 8) == (2,)


@case
def a_file_that_cannot_be_opened_keeps_no_other_from_being_served():
    with folder() as place:
        image(place / 'a.img'), image(place / 'b.img')
        with Node(place / 'a.img') as other, Node(f'{place}/') as node:
            assert states(node) == {'a.img': 'failed', 'b.img': 'ready'}
            assert 'volume a.img: not opened: ' in node.said(), node.said()
            other.process.terminate()
            until(lambda: states(node)['a.img'] == 'ready')
        expect_error(weft('serve', f'--nbd=unix:{place}/socket', place), 1, 'Is a directory',
                     'end it with /')


@case
def a_folder_may_be_empty():
    with folder() as place:
        file = place / 'node.ini'
        os.mkdir(place / 'images')
        file.write_text(f'[volume kept]\nuri = ram:1M\n'
                        f'[volume any]\nuri = {place}/images/\nread-only = yes\n')
        with Node(f'--config={file}') as node:
            assert list(states(node)) == ['kept']
            image(place / 'images' / 'a')
            until(lambda: states(node) == {'kept': 'ready', 'a': 'ready'})
            assert [volume['read_only'] for volume in node.status()['volumes']] == [False, True]


@case
def a_rescan_looks_where_nothing_was_told():
    with folder() as place, folder() as elsewhere:
        image(place / 'a.img')
        os.symlink(elsewhere / 'target', place / 'b.img')
        with Node('--allow-add', f'glob:{place}/*.img') as node:
            assert list(states(node)) == ['a.img']
            image(elsewhere / 'target')
            expect(weft('rescan', node.process.pid), 0, 'b.img: added\n')
            os.unlink(elsewhere / 'target')
            expect(weft('rescan', node.process.pid), 0, 'b.img: removed\n')
            expect(weft('rescan', node.process.pid), 0, '')
            expect_error(weft('rescan', f'--add=glob:{place}/*', node.process.pid), 1,
                         'a pattern stands on the command line')


@case
def several_volumes_have_no_identity_in_common():
    with folder() as place:
        file = place / 'node.ini'
        file.write_text(f'[volume any]\nuri = {place}/\n'
                        'uuid = 6f4d1c1e-8e0f-4c5b-9d0a-5a0b1f0d7f11\n')
        expect_error(weft('serve', f'--config={file}'), 1,
                     'several volumes cannot have one identity')


main()
