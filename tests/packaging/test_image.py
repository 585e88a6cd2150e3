#!/usr/bin/env python3
"""The container image: what its parts say of each other is so, and it runs with next to nothing."""

import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

from unpacked import SOURCE, Skip, case, made, main, scratch, skip_all

EPOCH = {'SOURCE_DATE_EPOCH': '1700000000'}
ALL = scratch()
# Both ends in one container; rping's server is there when the first client gets through.
PING = '''
    weft run rping -s -a 127.0.0.1 -p 17471 -C 3 & server=$!
    for try in 1 2 3 4 5 6 7 8 9 10; do
        weft run rping -c -v -a 127.0.0.1 -p 17471 -C 3 && break
        sleep 0.3
    done
    wait $server'''


@functools.cache
def archive():
    return made(ALL.name, env={**os.environ, **EPOCH})[0]


def image(folder):
    result = subprocess.run([SOURCE / 'tools/image', '--dist', archive(), '--into', folder],
                            text=True, capture_output=True, timeout=120,
                            env={**os.environ, **EPOCH})
    assert result.returncode == 0, result.stderr
    return pathlib.Path(folder)


@functools.cache
def layout():
    """Made once for all cases."""
    return image(f'{ALL.name}/layout')


def blob(digest):
    return layout() / 'blobs' / digest.replace(':', '/')


def parts():
    """The manifest and the configuration."""
    index = json.loads((layout() / 'index.json').read_text())
    manifest = json.loads(blob(index['manifests'][0]['digest']).read_text())
    return manifest, json.loads(blob(manifest['config']['digest']).read_text())


@functools.cache
def root():
    """What a container's root directory is: the layers, one on the other."""
    place = pathlib.Path(ALL.name, 'root')
    for layer in parts()[0]['layers']:
        with tarfile.open(blob(layer['digest'])) as tar:
            tar.extractall(place)
    return place


def contained(uid, *words):
    """In a container: no capability, no network but its own, nothing writable, this user."""
    bwrap = ['bwrap', '--ro-bind', root(), '/', '--proc', '/proc', '--dev', '/dev', '--unshare-all',
             '--cap-drop', 'ALL', '--uid', str(uid), '--gid', str(uid), '--clearenv']
    for setting in parts()[1]['config']['Env']:
        bwrap += ['--setenv', *setting.split('=', 1)]
    result = subprocess.run([*bwrap, *words], text=True, capture_output=True, timeout=60)
    if result.stderr.startswith('bwrap: '):
        raise Skip(result.stderr.strip())
    return result


@case
def every_blob_is_called_after_what_is_in_it():
    blobs = list((layout() / 'blobs/sha256').iterdir())
    assert len(blobs) == 4
    for path in blobs:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, path


@case
def the_configuration_names_the_layers_as_they_are_unpacked():
    manifest, config = parts()
    for layer, diff_id in zip(manifest['layers'], config['rootfs']['diff_ids'], strict=True):
        assert blob(layer['digest']).stat().st_size == layer['size']
        unzipped = subprocess.run(['gzip', '-dc', blob(layer['digest'])], capture_output=True,
                                  check=True).stdout
        assert f'sha256:{hashlib.sha256(unzipped).hexdigest()}' == diff_id


@case
def two_images_of_one_tarball_are_the_same():
    with scratch() as folder:
        again = image(f'{folder}/layout')
        assert (again / 'index.json').read_bytes() == (layout() / 'index.json').read_bytes()


@case
def tools_of_others_read_it():
    if shutil.which('skopeo') is None:
        raise Skip('no skopeo here')
    result = subprocess.run(['skopeo', 'inspect', f'oci:{layout()}'], text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)['Architecture'] == parts()[1]['architecture']


@case
def programs_run_in_it_as_anybody_without_capabilities():
    for uid in (0, 12345):
        result = contained(uid, 'sh', '-c', PING)
        assert result.returncode == 0, result.stderr
        assert result.stdout.count('ping data: rdma-ping-') == 3, result.stdout


@case
def it_starts_as_nobody_with_the_command():
    config = parts()[1]['config']
    assert config['User'] == '65534:65534'
    result = contained(65534, *config['Entrypoint'], '--version')
    assert result.returncode == 0 and result.stdout.startswith('weft '), result.stderr


@case
def a_folder_that_is_there_is_not_touched():
    with scratch() as folder:
        result = subprocess.run([SOURCE / 'tools/image', '--dist', archive(), '--into', folder],
                                text=True, capture_output=True, timeout=60)
        assert result.returncode == 1 and 'it is there already' in result.stderr, result.stderr
        assert not list(pathlib.Path(folder).iterdir())


for tool in ('patchelf', 'bwrap', 'busybox', 'rping'):
    if shutil.which(tool) is None:
        skip_all(f'no {tool} here (tools/packages.sh demo dist image)')
main()
