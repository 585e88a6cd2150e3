#!/usr/bin/python3
"""Runs rdma-core's own pyverbs tests one by one and prints what became of each.

    pyverbs_runner.py FOLDER DEVICE ADDR [TEST ...]      run these, or all
    pyverbs_runner.py FOLDER DEVICE ADDR --list          print their names

The test files are untouched. One function of their base class is replaced: it looks up the
device's address in /sys/class/infiniband, which only a kernel driver can fill; here it is ADDR, or,
for the word `gid`, the address that its first GID stands for. DEVICE is a name, and behind a colon
the index of the GID that the tests use, 0 without it.

Output: `run TEST` before a test, `end TEST OUTCOME REASON` after it; OUTCOME is pass, skip, fail or
error. A test that ends the process, or is ended by its alarm, has no second line.
"""

import ipaddress
import signal
import sys
import unittest

TEST_LIMIT_S = 20


class OneLineResult(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        print(f'run {test.id()}', flush=True)
        signal.alarm(TEST_LIMIT_S)

    def tell(self, test, outcome, reason=''):
        signal.alarm(0)
        last_line = ([''] + str(reason).strip().splitlines())[-1]
        print(f'end {test.id()} {outcome} {last_line}', flush=True)

    def addSuccess(self, test):
        self.tell(test, 'pass')

    def addSkip(self, test, reason):
        self.tell(test, 'skip', reason)

    def addFailure(self, test, err):
        self.tell(test, 'fail', err[1])

    def addError(self, test, err):
        self.tell(test, 'error', f'{err[0].__name__}: {err[1]}')


def address_of_gid(device):
    from pyverbs.device import Context
    with Context(name=device) as context:
        gid = ipaddress.IPv6Address(context.query_gid(port_num=1, index=0).gid)
    return str(gid.ipv4_mapped or gid)


def main():
    folder, device, addr, *wanted = sys.argv[1:]
    device, _, gid_index = device.partition(':')
    sys.path[:0] = [folder, f'{folder}/tests']
    from args_parser import parser
    sys.argv[1:] = ['--dev', device, '--port', '1', '--gid', gid_index or '0']
    parser.parse_args()
    # The same object for both names under which the files import it.
    import tests
    sys.modules['tests.args_parser'] = sys.modules['args_parser']
    from tests.base import RDMATestCase

    def address_of(self, dev, port, idx):
        own = address_of_gid(dev) if addr == 'gid' else addr
        self.args.append([dev, port, idx, own, None])
    RDMATestCase._get_ip_mac = address_of

    suite = {}
    for module in tests.__test_modules__:
        for case in unittest.defaultTestLoader.loadTestsFromModule(module):
            suite.update((test.id(), test) for test in case)
    if wanted == ['--list']:
        print('\n'.join(suite))
        return
    result = OneLineResult()
    for name in wanted or suite:
        suite[name].run(result)


if __name__ == '__main__':
    main()
