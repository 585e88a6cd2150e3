#!/usr/bin/env python3
"""One volume over several protocols at once: what each client writes all of them read, while the
driver is killed."""

import contextlib
import hashlib

from serving import Node, case, count, main, need, os, signal, subprocess, until

DOORS = ('nvme-tcp', 'iscsi', 'nvme-rdma')
PART = 8  # MiB of each client


def writer(uri, number):
    """It writes and verifies a part of the volume of its own."""
    return subprocess.Popen(
        ['fio', '--name=judge', '--ioengine=nbd', f'--uri={uri}', f'--offset={number * PART}M',
         f'--size={PART}M', f'--io_size={count(16, 256)}M', '--rw=randwrite', '--bs=4k-64k',
         '--iodepth=8', f'--randseed={number + 1}', '--verify=crc32c', '--verify_fatal=1',
         '--verify_backlog=64', '--verify_state_save=0', '--minimal'],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def digest(uri):
    """Of all that a client sees."""
    return hashlib.sha256(subprocess.run(['nbdcopy', uri, '-'], stdout=subprocess.PIPE, check=True,
                                         timeout=60).stdout).hexdigest()


@case
def four_protocols_write_one_volume_and_read_what_all_have_written():
    need('fio', 'nbdcopy')
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node(*(f'--{door}=127.0.0.1:0' for door in DOORS),
                                        f'ram:{PART * (len(DOORS) + 1)}M'))
        others = [uri for uri in node.status()['volumes'][0]['uris'] if not uri.startswith('nbd')]
        assert len(others) == len(DOORS), others
        uris = [node.uri(), *(stack.enter_context(Node(uri)).uri() for uri in others)]
        loads = [writer(uri, number) for number, uri in enumerate(uris)]
        for _ in range(count(3, 30)):
            before = node.status()['volumes'][0]['operations'].get('write', 0)
            until(lambda n=before: node.status()['volumes'][0]['operations'].get('write', 0) > n or
                  all(load.poll() is not None for load in loads))
            os.kill(node.rtas()[0], signal.SIGKILL)
            until(lambda: node.status()['volumes'][0]['state'] == 'ready' and node.rtas())
        for load in loads:
            _, said = load.communicate(timeout=120)
            assert load.returncode == 0, said
        found = {digest(uri) for uri in uris}
        assert len(found) == 1, found


if __name__ == '__main__':
    main()
