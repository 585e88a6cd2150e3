"""A Ceph cluster of one monitor and one OSD on 127.0.0.1, for the tests of the driver rbd. Its
daemons are children of the test and end with it; no service manager, no keys, no manager daemon."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import uuid

from serving import Skip, free_port, until

PROGRAMS = ('ceph', 'ceph-mon', 'ceph-osd', 'monmaptool', 'rbd', 'rados')
LIMIT = 60

CONF = '''
[global]
fsid = {fsid}
mon_host = {monitor}
public_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
auth_allow_insecure_global_id_reclaim = true
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
run_dir = {place}
log_file = {place}/$name.log
mon_cluster_log_file = {place}/cluster.log
[mon]
mon_data = {place}/mon
mon_data_avail_crit = 1
paxos_propose_interval = 0.05
paxos_min_wait = 0.02
admin_socket = {place}/$name.socket
[osd]
osd_data = {place}/osd
osd_objectstore = {store}
memstore_device_bytes = {size}
bluestore_block_size = {size}
bluestore_block_create = true
osd_memory_target = 939524096
osd_op_num_shards = 2
osd_op_num_threads_per_shard = 1
osd_max_markdown_count = 1000
osd_heartbeat_grace = 600
admin_socket = {place}/$name.socket
'''


class Cluster:
    """It runs while the object is entered; `conf` names its configuration. What its store in a file
    (bluestore) has acknowledged outlives a killed OSD; memory (memstore) is faster."""

    def __init__(self, store='bluestore', size=4 << 30):
        self.store, self.size = store, size
        self.daemons = {}

    def __enter__(self):
        path = os.environ['PATH'] + ':/usr/sbin:/sbin'
        missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
        if missing:
            raise Skip(f'no {", ".join(missing)} (tools/packages.sh ceph)')
        self.folder = tempfile.TemporaryDirectory(prefix='weft-ceph.')
        self.place = pathlib.Path(self.folder.name)
        self.conf = self.place / 'ceph.conf'
        self.env = {**os.environ, 'PATH': path, 'CEPH_CONF': str(self.conf)}
        self.env.pop('CEPH_ARGS', None)
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in list(self.daemons):
            self.kill(name)
        self.folder.cleanup()

    def _make(self):
        fsid, osd = uuid.uuid4(), uuid.uuid4()
        addresses = f'[v2:127.0.0.1:{free_port()},v1:127.0.0.1:{free_port()}]'
        self.conf.write_text(CONF.format(fsid=fsid, monitor=addresses, place=self.place,
                                         store=self.store, size=self.size))
        monmap = self.place / 'monmap'
        for name in ('mon', 'osd'):
            (self.place / name).mkdir()
        self.run('monmaptool', '--create', '--fsid', fsid, '--addv', 'a', addresses, monmap)
        self.run('ceph-mon', '--mkfs', '-i', 'a', '--monmap', monmap)
        self.start('mon')
        self.tell(f'osd new {osd}', 'osd crush add osd.0 1.0 root=default host=one')
        self.run('ceph-osd', '-i', '0', '--mkfs', '--osd-uuid', osd)
        self.start('osd')
        self.tell('osd pool create rbd 8', 'osd pool application enable rbd rbd')

    def run(self, *words, limit=LIMIT, status=0):
        result = subprocess.run([str(word) for word in words], env=self.env, text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=limit)
        assert status is None or result.returncode == status, \
            f'{words}: status {result.returncode}\n{result.stdout}{result.stderr}'
        return result.stdout

    def tell(self, *commands):
        """What its administrator says, all of it by one process."""
        result = subprocess.run(['ceph'], env=self.env, input='\n'.join(commands) + '\n',
                                text=True, capture_output=True, timeout=LIMIT)
        assert 'Error' not in result.stderr, f'{commands}: {result.stderr}'
        return result.stdout

    def rbd(self, *words, **options):
        return self.run('rbd', *words, **options)

    def start(self, name):
        word = {'mon': ['ceph-mon', '-i', 'a'], 'osd': ['ceph-osd', '-i', '0']}[name]
        with open(self.place / f'{name}.said', 'ab') as said:
            self.daemons[name] = subprocess.Popen([*word, '-f'], env=self.env, stdout=said,
                                                  stderr=said, stdin=subprocess.DEVNULL)

    def kill(self, name):
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def signal(self, name, number):
        self.daemons[name].send_signal(number)

    def image(self, name, size='64M'):
        """A new image; its URI."""
        self.rbd('create', '--size', size, f'rbd/{name}')
        return self.uri(name)

    def uri(self, name, *parameters):
        return f'rbd:rbd/{name}?' + '&'.join([f'conf={self.conf}', *parameters])
