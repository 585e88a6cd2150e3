"""An image as an OCI layout: a folder of blobs, each called after its SHA-256.

OCI Image Format Specification 1.1: image-layout.md, manifest.md, config.md.
"""

import datetime
import hashlib
import json
import pathlib

import tarball

MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
CONFIG = 'application/vnd.oci.image.config.v1+json'
LAYER = 'application/vnd.oci.image.layer.v1.tar+gzip'
INDEX = 'application/vnd.oci.image.index.v1+json'


def _digest(octets):
    return 'sha256:' + hashlib.sha256(octets).hexdigest()


def _as_json(value):
    return json.dumps(value, indent=2, sort_keys=True).encode() + b'\n'


class Layout:
    """One image of several layers, the lowest first."""

    def __init__(self, folder, epoch_s):
        self.folder = pathlib.Path(folder)
        self.epoch_s = epoch_s
        self.layers = []
        self.diff_ids = []
        (self.folder / 'blobs/sha256').mkdir(parents=True)

    def _blob(self, octets, media_type):
        digest = _digest(octets)
        (self.folder / 'blobs' / digest.replace(':', '/')).write_bytes(octets)
        return {'mediaType': media_type, 'digest': digest, 'size': len(octets)}

    def add_layer(self, folder, inside=''):
        """What is in `folder`, at the place `inside` of the image."""
        octets = tarball.packed(folder, inside, self.epoch_s)
        self.diff_ids.append(_digest(octets))
        self.layers.append(self._blob(tarball.zipped(octets, self.epoch_s), LAYER))

    def finish(self, tag, architecture, config):
        """`config` is how a container starts: Env, Entrypoint, User and so on."""
        created = datetime.datetime.fromtimestamp(self.epoch_s, datetime.timezone.utc)
        image = {'architecture': architecture, 'os': 'linux',
                 'created': created.strftime('%Y-%m-%dT%H:%M:%SZ'), 'config': config,
                 'rootfs': {'type': 'layers', 'diff_ids': self.diff_ids}}
        manifest = {'schemaVersion': 2, 'mediaType': MANIFEST, 'layers': self.layers,
                    'config': self._blob(_as_json(image), CONFIG)}
        entry = self._blob(_as_json(manifest), MANIFEST)
        entry['annotations'] = {'org.opencontainers.image.ref.name': tag}
        index = {'schemaVersion': 2, 'mediaType': INDEX, 'manifests': [entry]}
        (self.folder / 'index.json').write_bytes(_as_json(index))
        (self.folder / 'oci-layout').write_bytes(_as_json({'imageLayoutVersion': '1.0.0'}))
