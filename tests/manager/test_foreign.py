#!/usr/bin/env python3
"""The manager on devices that are not weft's, on the distribution's libibverbs.

They live in a virtual machine: the kernel's siw (iWARP, one segment in a read), and its rxe
(InfiniBand's reliable transport).

The program is that of test_rnic.c, linked with the system's libraries; both its ends are in one
process of the guest, connected over the guest's own address.

    test_foreign.py [--only DEVICE]
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'siw'))

import vm  # noqa: E402  (found by the line above)
from judge import BUILD, Tap, skip_all  # noqa: E402

PROGRAM = BUILD / 'tests/manager/manager-rnic'
LIMIT_S = 200


def run_on(guest, device, tap):
    """The program's own cases, as cases of this script."""
    guest.use_device(device)
    env = {'WEFT_TEST_ADDR': guest.addr, 'CMOCKA_MESSAGE_OUTPUT': 'TAP'}
    process = guest.start([PROGRAM], env, LIMIT_S)
    status = process.wait(LIMIT_S + 5)
    output = process.output()
    seen = re.findall(r'^(not ok|ok) \d+ - (\w+)', output, re.M)
    tap.note('\n'.join(re.findall(r'^# (\w+: transfers of .*)$', output, re.M)))
    faulty = status != 0 or not seen
    for verdict, name in seen:
        tap.report(f'{device}: {name}', [] if verdict == 'ok' else ['see below'])
    tap.report(f'{device}: the program ends well',
               [f'status {status}', *output.splitlines()[-40:]] if faulty else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--only', choices=vm.DEVICES)
    options = parser.parse_args()
    if not os.access(PROGRAM, os.X_OK):
        skip_all(f'{PROGRAM} is not built')
    vm.enter()
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-foreign.') as scratch:
        guest = vm.Guest(pathlib.Path(scratch), [*vm.GUEST_PROGRAMS, PROGRAM])
        try:
            for device in [options.only] if options.only else vm.DEVICES:
                run_on(guest, device, tap)
        except (OSError, RuntimeError) as why:
            tap.report('the guest lives', [str(why), *guest.console_text().splitlines()[-20:]])
        finally:
            guest.end()
    sys.exit(tap.finish())


if __name__ == '__main__':
    main()
