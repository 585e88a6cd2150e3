#!/usr/bin/env python3
"""RTAs that are killed: clients see latency, no errors, and no acknowledged write is lost."""

import threading
import time

from serving import (LIMIT, Node, Skip, case, count, folder, main, need, os, pathlib, run, signal,
                     subprocess, until, weft)


def kill_rtas(node):
    for pid in node.rtas():
        os.kill(pid, signal.SIGKILL)


def make_file(place, size):
    path = pathlib.Path(place, 'disk.img')
    with path.open('wb') as file:
        file.truncate(size)
    return path


def fio(node, *words):
    return ['fio', '--name=judge', '--ioengine=nbd', f'--uri={node.uri()}', '--bs=4k-64k',
            '--iodepth=16', '--size=32M', '--verify=crc32c', '--verify_fatal=1',
            '--verify_backlog=128', '--verify_state_save=0', '--randrepeat=0', '--minimal', *words]


@case
def fio_verifies_while_rtas_are_killed():
    """Each of the volumes in its turn; in `make soak` for a minute, once every second."""
    need('fio')
    seconds = count(4, 60)
    with folder() as place:
        for volume in (make_file(place, 32 << 20), 'ram:32M'):
            with Node(volume) as node:
                load = subprocess.Popen(
                    fio(node, '--rw=randwrite', '--time_based', f'--runtime={seconds}',
                        '--io_size=100G'), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                deadline = time.monotonic() + seconds
                while time.monotonic() < deadline and load.poll() is None:
                    time.sleep(1)
                    kill_rtas(node)
                _, said = load.communicate(timeout=seconds + 60)
                assert load.returncode == 0, f'{volume}: {said.decode()}'
                restarts = node.status()['rtas'][0]['restarts']
                assert restarts >= seconds // 2, f'{volume}: only {restarts} restarts'


def says_waiting(path):
    with path.open('rb') as file:
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except BlockingIOError:
            pass
        except OSError as error:
            raise Skip(f'{path}: no RWF_NOWAIT in this file system: {error}')


@case
def what_the_page_cache_has_is_read_without_the_rta():
    """Not past a filter, nor past direct=on; and by each process of an RTA anew."""
    need('qemu-io')
    with folder() as place:
        file = make_file(place, 1 << 20)
        says_waiting(file)

        def window_reads(node, kills):
            for pattern in range(1, 4):
                file.read_bytes()  # into the page cache
                run('qemu-io', '-f', 'raw', '-c', 'read -P 0 128k 4k', '-c',
                    f'write -P {pattern} 4k 64k', '-c', f'read -P {pattern} 4k 64k', node.uri())
                if kills:
                    kill_rtas(node)
            return node.status()['volumes'][0]['window_reads']

        with Node(file) as node:
            assert window_reads(node, kills=False) == 6
            descriptors = len(os.listdir(f'/proc/{node.process.pid}/fd'))
            assert window_reads(node, kills=True) == 12
            run('qemu-io', '-f', 'raw', '-c', 'read -P 3 4k 64k', node.uri())
            # Who has gone is let go of when the node comes to it.
            until(lambda: len(os.listdir(f'/proc/{node.process.pid}/fd')) <= descriptors)
        for other in (f'file:{file}?direct=on', f'log+file:{file}', 'ram:1M'):
            with Node(other) as node:
                assert window_reads(node, kills=False) == 0, other


@case
def one_rta_with_two_volumes_comes_back_with_both():
    need('qemu-io')
    with folder() as place, Node('--rta=one', make_file(place, 1 << 20), 'ram:1M') as node:
        assert len(node.rtas()) == 1
        for volume in ('disk.img', 'ram'):
            run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', node.uri(volume))
        kill_rtas(node)
        for volume in ('disk.img', 'ram'):
            run('qemu-io', '-f', 'raw', '-c', 'read -P 5 0 64k', node.uri(volume))


@case
def a_hanging_device_that_was_removed_keeps_no_other_volume_from_coming_back():
    need('qemu-io')
    with Node('--rta=one', 'a=delay+ram:1M?delay.read=1000s', 'b=ram:1M') as node:
        run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', node.uri('b'))
        client = subprocess.Popen(['qemu-io', '-f', 'raw', '-c', 'read 0 4k', node.uri('a')],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: node.status()['rtas'][0]['in_flight'] > 0)
        assert weft('rescan', '--remove=a', node.process.pid).returncode == 0
        kill_rtas(node)
        run('qemu-io', '-f', 'raw', '-c', 'read -P 5 0 64k', node.uri('b'))
        assert client.wait(20) != 0
        assert [volume['name'] for volume in node.status()['volumes']] == ['b']


@case
def a_file_that_took_the_place_of_another_is_not_served_in_its_stead():
    """Its successor finds another file under the path. When the old one is back, it goes on."""
    need('qemu-io')
    with folder() as place:
        path = make_file(place, 1 << 20)
        old, new = pathlib.Path(place, 'old'), pathlib.Path(place, 'new')
        new.write_bytes(b'n' * (1 << 20))
        with Node(path) as node:
            run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', node.uri())
            path.rename(old)
            new.rename(path)
            run('qemu-io', '-f', 'raw', '-c', 'read -P 5 0 64k', node.uri())  # as long as it lives
            kill_rtas(node)
            why = until(lambda: node.status()['volumes'][0].get('why'))
            assert 'another device is there now' in why, why
            assert f'volume disk.img: not opened: {why}\n' in node.said(), node.said()
            assert path.read_bytes() == b'n' * (1 << 20)
            old.rename(path)
            run('qemu-io', '-f', 'raw', '-c', 'read -P 5 0 64k', node.uri())
            assert not node.status()['volumes'][0].get('why')


def kill_amid_writes(node, size):
    """Kills a client, and then the RTA, with the client's writes in flight. Were there any?"""
    writes = [word for at in range(0, size, 4 << 20)
              for word in ('-c', f'aio_write -P 1 {at} 4M')]
    load = subprocess.Popen(['qemu-io', '-f', 'raw', *writes, '-c', 'aio_flush', node.uri()],
                            stdout=subprocess.DEVNULL)
    until(lambda: node.status()['rtas'][0]['in_flight'] >= 4 or load.poll() is not None, LIMIT)
    load.kill()
    load.wait()
    kill_rtas(node)
    return until(lambda: node.status()['rtas'][0]['state'] == 'ready', LIMIT) and \
        node.status()['rtas'][0]['replays'] > 0


@case
def io_of_a_killed_process_does_not_overwrite_what_comes_after():
    """SIGKILL with many O_DIRECT writes in flight, then overlapping writes: these must stay."""
    need('qemu-io')
    size = count(96, 384) << 20
    places = range(0, size, 16 << 20)
    with folder() as place:
        path = make_file(place, size)
        with Node(f'file:{path}?direct=on', '--pool=256M') as node:
            for _ in range(20):
                if kill_amid_writes(node, size):
                    break
            else:
                raise Skip('the disk is too fast for a write to be caught in flight')
            for at in places:
                run('qemu-io', '-f', 'raw', '-c', f'write -P 2 {at} 64k', node.uri())
            time.sleep(count(0.5, 3))  # for what the kernel might still do
        # Whatever the dead client's writes came to, ours were begun after them and acknowledged.
        with path.open('rb') as file:
            for at in places:
                file.seek(at)
                assert set(file.read(64 << 10)) == {2}, at


@case
def an_acknowledged_write_outlives_the_process_that_made_it():
    need('qemu-io')
    with folder() as place:
        path = make_file(place, 4 << 20)
        with Node(path) as node:
            for number in range(1, count(10, 20)):
                run('qemu-io', '-f', 'raw', '-c', f'write -P {number} 1M 64k', node.uri())
                kill_rtas(node)
                run('qemu-io', '-f', 'raw', '-c', f'read -P {number} 1M 64k', node.uri())


@case
def a_stopped_rta_delays_and_loses_nothing():
    need('qemu-io')
    with Node('ram:1M') as node:
        rta, = node.rtas()
        os.kill(rta, signal.SIGSTOP)
        timer = threading.Timer(1, os.kill, (rta, signal.SIGCONT))
        timer.start()
        run('qemu-io', '-f', 'raw', '-c', 'write -P 5 0 64k', '-c', 'read -P 5 0 64k', node.uri())
        timer.join()
        assert node.status()['rtas'][0]['restarts'] == 0


@case
def an_idle_node_does_not_wake():
    need('nbdinfo')
    with Node('ram:1M') as node:
        run('nbdinfo', node.uri())
        pids = [node.process.pid, *node.rtas()]

        def switches(pid):
            text = pathlib.Path(f'/proc/{pid}/status').read_text()
            return int(text.split('\nvoluntary_ctxt_switches:')[1].split()[0])

        def nobody_wakes():
            before = [switches(pid) for pid in pids]
            time.sleep(1)
            return [switches(pid) for pid in pids] == before
        until(nobody_wakes)


@case
def rtas_end_with_a_host_that_is_killed():
    with Node('ram:1M', 'null:1M') as node:
        rtas = node.rtas()
        assert len(rtas) == 2
        node.process.kill()
        node.process.wait()

        def gone():
            return all(not os.path.exists(f'/proc/{pid}') or
                       pathlib.Path(f'/proc/{pid}/stat').read_text().split()[2] == 'Z'
                       for pid in rtas)
        until(gone)


@case
def a_restarted_node_serves_the_same_volume():
    with folder() as place:
        path = make_file(place, 1 << 20)
        uuids = []
        for _ in range(2):
            with Node(path) as node:
                uuids.append(node.status()['volumes'][0]['uuid'])
        assert uuids[0] == uuids[1], uuids


main()
