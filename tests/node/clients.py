"""What the distribution's NBD clients are asked to do to a volume, whatever drives it."""

from serving import captive, count, need, pathlib, run


def nbdcopy_round_trip(place, volume, size, *words):
    """Data of `size` octets to the volume and back."""
    need('nbdcopy')
    data = pathlib.Path(place, 'data')
    data.write_bytes(bytes(range(256)) * (size >> 8))
    captive(f'nbdcopy {data} "$uri" && nbdcopy "$uri" {place}/back', *words, volume)
    run('cmp', '-n', size, data, pathlib.Path(place, 'back'))


def qemu_io_writes_zeroes_and_discards(volume, *words, keeps_data=True):
    """At least 4 MiB, in blocks of 4096 octets at most."""
    need('qemu-io')
    reads = '-c "read -P 7 4k 4k" ' if keeps_data else ''
    captive('qemu-io -f raw -c "write -P 7 0 128k" ' + reads + '-c "write -z 4k 64k" '
            '-c "write -z -u 1M 64k" -c "discard 2M 1M" -c "write -f -P 9 3M 4k" -c flush '
            '-c "read -P 0 8k 4k" "$uri" >&2', *words, volume)


def qemu_img_round_trip(place, volume, size, *words):
    need('qemu-img')
    data = pathlib.Path(place, 'data')
    data.write_bytes(b'weft' * (size >> 3) + bytes(size >> 1))
    captive(f'qemu-img convert -n -f raw -O raw {data} "$uri" && '
            f'qemu-img compare -f raw -F raw {data} "$uri" >&2 && '
            f'qemu-img convert -f raw -O qcow2 "$uri" {place}/copy.qcow2 && '
            f'qemu-img compare -f raw -F qcow2 {data} {place}/copy.qcow2 >&2', *words, volume)


def fio_words(block='4k-64k', size='16M'):
    """fio writing at random and verifying; the volume's URI is to follow as --uri=."""
    return ['fio', '--name=judge', '--ioengine=nbd', '--rw=randwrite', f'--bs={block}',
            '--iodepth=16', f'--size={size}', '--verify=crc32c', '--verify_fatal=1',
            '--verify_state_save=0', '--randrepeat=0', '--minimal']


def fio_verifies(volume, *words):
    need('fio')
    command = ' '.join(fio_words()) + f' --io_size={count(16, 256)}M --uri="$uri" >&2'
    captive(command, *words, volume)
