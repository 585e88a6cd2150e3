#!/usr/bin/env python3
"""CHAP (RFC 7143 section 12.1): who logs in proves that it knows a secret, the target too if it is
asked; what is said otherwise is refused, counted and said."""

import base64
import hashlib
import os
import struct

from iscsi_host import NAME, Initiator
from serving import Iscsi, case, expect_error, folder, main, need, run, subprocess, until, weft

SECRET, OTHER_SECRET, TARGET_SECRET = 'a-secret-of-one', 'a-secret-of-two', 'a-secret-of-the-node'
FILE = f'''
[initiator one]
name = one
secret = {SECRET}
[initiator two]
name = two
secret = {OTHER_SECRET}
initiator = iqn.2026-11.test:two
[target]
name = node
secret = {TARGET_SECRET}
'''
HASHES = {'5': hashlib.md5, '7': hashlib.sha256, '8': hashlib.sha3_256}
INITIATOR_ERROR, UNPROVEN, FORBIDDEN = 0x0200, 0x0201, 0x0202
SECURITY, IN_OPERATIONAL, TO_OPERATIONAL, TO_FULL, FULL_AT_ONCE = 0x00, 0x04, 0x81, 0x83, 0x87


def secrets(place, text=FILE, mode=0o600):
    path = place / 'secrets'
    path.write_text(text)
    path.chmod(mode)
    return f'--iscsi-secrets={path}'


def response(algorithm, identifier, secret, challenge):
    return HASHES[algorithm](bytes([int(identifier)]) + secret.encode() + challenge).digest()


def hexadecimal(octets):
    return '0x' + octets.hex()


class Login:
    """One that goes step by step, on a connection of its own."""

    def __init__(self, node, name=NAME, target=True):
        self.host, self.name, self.target = Initiator(node.address), name, target and node.target

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.host.__exit__()

    def ask(self, flags, *keys):
        """The pairs of the answer, or the status that refuses."""
        self.host.login_send(flags, keys)
        said = self.host.receive()
        status, = struct.unpack_from('>H', said.header, 36)
        self.flags = said.flags
        if status:
            return status
        return dict(pair.decode().split('=', 1) for pair in said.data.split(b'\0') if pair)

    def begin(self, *keys, flags=SECURITY, methods='CHAP,None'):
        who = [('InitiatorName', self.name), ('AuthMethod', methods)]
        who += [('TargetName', self.target)] if self.target else [('SessionType', 'Discovery')]
        return self.ask(flags, *who, *keys)

    def challenged(self, algorithms='5'):
        assert self.begin()['AuthMethod'] == 'CHAP'
        said = self.ask(SECURITY, ('CHAP_A', algorithms))
        self.algorithm, self.identifier = said['CHAP_A'], said['CHAP_I']
        self.challenge = bytes.fromhex(said['CHAP_C'][2:])
        return self

    def proof(self, name='one', secret=SECRET, form=hexadecimal):
        return [('CHAP_N', name),
                ('CHAP_R', form(response(self.algorithm, self.identifier, secret,
                                         self.challenge)))]

    def prove(self, *more, flags=TO_FULL, **options):
        return self.ask(flags, *self.proof(**options), *more)

    def is_in(self):
        return self.flags == TO_FULL and (not self.target or self.host.ready())


def on_node(function):
    """A case with a node that has the secrets."""
    def case_of():
        with folder() as place, Iscsi(secrets(place), 'disk=ram:1M') as node:
            function(node)
            assert SECRET not in node.said() and TARGET_SECRET not in node.said()
    case_of.__name__ = function.__name__
    return case(case_of)


def unproven(node):
    found = node.status()['iscsi']
    return found['unproven'], found['refused'], found['sessions']


@on_node
def who_knows_its_secret_logs_in(node):
    for algorithm in HASHES:
        with Login(node) as login:
            login.challenged(algorithm)
            assert login.algorithm == algorithm and len(login.challenge) == 32
            assert 'CHAP_R' not in login.prove() and login.is_in()
    assert unproven(node) == (0, 0, len(HASHES))


@on_node
def a_discovery_session_proves_it_too(node):
    with Login(node, target=None) as login:
        assert isinstance(login.challenged().prove(), dict) and login.is_in()
    with Login(node, target=None) as login:
        assert login.challenged().prove(secret=OTHER_SECRET) == UNPROVEN


@on_node
def the_best_algorithm_of_both_is_taken(node):
    for offered, taken in (('5,7,8', '8'), ('5,6,7', '7'), ('6,5', '5')):
        with Login(node) as login:
            assert login.challenged(offered).algorithm == taken
    for offered in ('6', '', '55', 'SHA'):
        with Login(node) as login:
            login.begin()
            assert login.ask(SECURITY, ('CHAP_A', offered)) == UNPROVEN


@on_node
def no_two_challenges_are_the_same(node):
    seen = set()
    for _ in range(8):
        with Login(node) as login:
            seen.add(login.challenged().challenge)
    assert len(seen) == 8


@on_node
def a_proof_comes_in_either_encoding(node):
    with Login(node) as login:
        def encoded(octets):
            return '0b' + base64.b64encode(octets).decode()
        assert isinstance(login.challenged('7').prove(form=encoded), dict) and login.is_in()


@on_node
def who_does_not_know_it_is_refused_and_said_so(node):
    good = hashlib.md5(b'x').digest()
    wrong = [dict(secret=OTHER_SECRET), dict(secret=SECRET + ' '), dict(name='One'),
             dict(name='nobody'), dict(name='nobody', secret='of nobody at all'),
             dict(name='node', secret=TARGET_SECRET), dict(name='two', secret=OTHER_SECRET),
             dict(form=lambda octets: hexadecimal(octets[:-1])),
             dict(form=lambda octets: hexadecimal(octets + b'\0')),
             dict(form=lambda octets: '0x'), dict(form=lambda octets: octets.hex()),
             dict(form=lambda octets: hexadecimal(good)), dict(form=lambda octets: '0b!!!!'),
             dict(form=lambda octets: '0x' + 'ab' * 4000)]
    for options in wrong:
        with Login(node) as login:
            assert login.challenged().prove(**options) == UNPROVEN, options
            assert login.host.is_closed()
    assert unproven(node) == (len(wrong), len(wrong), 0)
    assert f'initiator "{NAME}" at 127.0.0.1' in node.said(), node.said()
    assert 'its name or secret is wrong (CHAP)' in node.said()
    assert node.said().count('is refused') < len(wrong)  # one source is not heard for ever


@on_node
def a_secret_may_be_one_initiators(node):
    with Login(node, 'iqn.2026-11.test:two') as login:
        assert isinstance(login.challenged().prove(name='two', secret=OTHER_SECRET), dict)
    with Login(node) as login:
        login.challenged()
        said = login.ask(TO_FULL, ('InitiatorName', 'iqn.2026-11.test:two'),
                         *login.proof(name='two', secret=OTHER_SECRET))
        assert said == INITIATOR_ERROR, said
    with Login(node) as login:  # nor after the proof
        assert isinstance(login.challenged().prove(flags=TO_OPERATIONAL), dict)
        assert login.ask(FULL_AT_ONCE, ('InitiatorName', 'iqn.2026-11.test:two')) == INITIATOR_ERROR


@case
def a_secret_may_be_one_targets():
    with folder() as place:
        one, other = 'iqn.2026-11.test:one', 'iqn.2026-11.test:other'
        text = FILE.replace(f'secret = {SECRET}', f'secret = {SECRET}\ntarget = {one}')
        with Iscsi(secrets(place, text), f'a=ram:1M?target={one}',
                   f'b=ram:1M?target={other}') as node:
            with Login(node) as login:
                login.target = one
                assert isinstance(login.challenged().prove(), dict) and login.is_in()
            with Login(node, target=None) as login:  # to discover it is good, too
                assert isinstance(login.challenged().prove(), dict) and login.is_in()
            with Login(node) as login:
                login.target = other
                assert login.challenged().prove() == UNPROVEN
            # Nor does a proof for one target, or to discover, stand for another one
            later = [('TargetName', other)], [('TargetName', one), ('SessionType', 'Normal')]
            for target, more in ((one, later[0]), (None, later[0]), (None, later[1])):
                with Login(node) as login:
                    login.target = target
                    said = login.challenged().prove(flags=TO_OPERATIONAL)
                    assert isinstance(said, dict), said
                    assert login.ask(FULL_AT_ONCE, *more) == INITIATOR_ERROR, (target, more)


@on_node
def nobody_passes_by_without_a_proof(node):
    with Login(node) as login:
        assert login.begin(methods='None') == UNPROVEN
    with Login(node) as login:
        assert login.begin(methods='KRB5,None') == UNPROVEN
    with Login(node) as login:  # the stage is left out
        assert login.host.login(node.target) == UNPROVEN
    with Login(node) as login:
        assert login.ask(IN_OPERATIONAL, ('InitiatorName', NAME),
                         ('TargetName', node.target)) == UNPROVEN
    for flags in (TO_OPERATIONAL, TO_FULL):  # or left
        with Login(node) as login:
            assert login.ask(flags, ('InitiatorName', NAME),
                             ('TargetName', node.target)) == UNPROVEN
        with Login(node) as login:
            assert login.begin(flags=flags)['AuthMethod'] == 'CHAP' and login.flags == SECURITY
            assert login.ask(flags) == {} and login.flags == SECURITY
            said = login.ask(flags, ('CHAP_A', '5'))
            assert 'CHAP_C' in said and login.flags == SECURITY, said
    assert unproven(node) == (6, 6, 0)


@on_node
def a_proof_has_its_turn(node):
    def both(login):
        return [('CHAP_A', '5'), ('CHAP_N', 'one'), ('CHAP_R', '0x00')]
    with Login(node) as login:
        assert login.begin(('CHAP_A', '5'))['CHAP_A'] == '5'  # at once is in turn
    for early in ([('CHAP_N', 'one'), ('CHAP_R', '0x00')], [('CHAP_C', '0x00')]):
        with Login(node) as login:
            login.begin()
            assert login.ask(SECURITY, *early) == INITIATOR_ERROR
    for late in (both, lambda login: login.proof()[:1], lambda login: login.proof()[1:],
                 lambda login: login.proof() + login.proof()):
        with Login(node) as login:
            login.challenged()
            assert login.ask(TO_FULL, *late(login)) == INITIATOR_ERROR
    with Login(node) as login:
        assert isinstance(login.challenged().prove(flags=SECURITY), dict)
        assert login.prove() == INITIATOR_ERROR


@on_node
def the_target_proves_itself_to_who_asks(node):
    for length in (1, 16, 1024):
        challenge = os.urandom(length)
        with Login(node) as login:
            said = login.challenged('7').prove(('CHAP_I', '77'),
                                               ('CHAP_C', hexadecimal(challenge)))
            assert said['CHAP_N'] == 'node', said
            expected = response('7', 77, TARGET_SECRET, challenge)
            assert bytes.fromhex(said['CHAP_R'][2:]) == expected
            assert login.is_in()


@on_node
def what_is_no_challenge_is_refused(node):
    own = ('CHAP_I', '1')
    for more in ([own], [('CHAP_C', '0x00')], [('CHAP_I', '256'), ('CHAP_C', '0x00')],
                 [('CHAP_I', 'x'), ('CHAP_C', '0x00')], [own, ('CHAP_C', '0x')],
                 [own, ('CHAP_C', '0x' + '00' * 1025)], [own, ('CHAP_C', '00')]):
        with Login(node) as login:
            assert login.challenged().prove(*more) == INITIATOR_ERROR, more


@on_node
def the_targets_own_challenge_is_not_answered(node):
    with Login(node) as login:
        login.challenged()
        said = login.prove(('CHAP_I', login.identifier),
                           ('CHAP_C', hexadecimal(login.challenge)))
        assert said == UNPROVEN, said
    assert "its challenge is the target's own" in node.said()


@on_node
def who_is_proven_may_still_not_use_everything(node):
    with Iscsi('disk=ram:1M?allow=iqn.2026-11.test:two') as open_node:
        assert Login(open_node).host.login(open_node.target) == FORBIDDEN
    with Login(node) as login:
        login.target = 'iqn.2026-11.test:none'
        assert login.challenged().prove() == 0x0203


@case
def a_target_without_a_secret_proves_nothing():
    with folder() as place:
        words = secrets(place, FILE.partition('[target]')[0])
        with Iscsi(words, 'disk=ram:1M') as node, Login(node) as login:
            said = login.challenged().prove(('CHAP_I', '1'), ('CHAP_C', '0x0001'))
            assert said == UNPROVEN, said
            assert 'which has no secret' in node.said()


@case
def without_a_file_nobody_proves_anything():
    with Iscsi('disk=ram:1M') as node:
        with Login(node) as login:
            said = login.begin(flags=TO_FULL)
            assert said['AuthMethod'] == 'None' and login.is_in(), said
        with Login(node) as login:
            assert login.begin(methods='CHAP') == UNPROVEN


@case
def a_rescan_reads_the_secrets_again():
    with folder() as place, Iscsi(secrets(place), 'disk=ram:1M') as node:
        secrets(place, FILE.replace(SECRET, 'another-secret'))
        assert weft('rescan', node.process.pid).returncode == 0
        with Login(node) as login:
            assert login.challenged().prove() == UNPROVEN
        with Login(node) as login:
            assert isinstance(login.challenged().prove(secret='another-secret'), dict)
        secrets(place, 'nothing')
        expect_error(weft('rescan', node.process.pid), 1, 'line 1')
        with Login(node) as login:
            assert isinstance(login.challenged().prove(secret='another-secret'), dict)


@case
def a_file_that_others_may_read_or_that_makes_no_sense_is_refused():
    one = '[initiator one]\nname = one\n'
    bad = [('[initiator one]\nname = one\nsecret = too short\n', 0o600, 'line 3: a secret has 12'),
           (FILE, 0o640, 'its mode must be 0600'), (FILE, 0o604, 'its mode must be 0600'),
           ('', 0o600, 'it has no [initiator LABEL]'), (one, 0o600, 'lacks its name or secret'),
           ('[initiators]\nname = one\n', 0o600, 'line 2: not [initiator LABEL] or [target]'),
           (one + 'password = x\n', 0o600, 'line 3: there is no such key'),
           (one + f'secret = {"x" * 128}\n', 0o600, 'line 3: empty, or too long'),
           (FILE.replace(TARGET_SECRET, SECRET), 0o600, 'the target has the secret of an initiat'),
           (FILE.replace('name = node\n', ''), 0o600, 'the target lacks its name or secret')]
    with folder() as place:
        for text, mode, why in bad:
            said = weft('serve', '--iscsi=127.0.0.1:0', '--run=true', secrets(place, text, mode),
                        'ram:1M')
            expect_error(said, 1, why)
            assert 'too short' not in said.stderr and SECRET not in said.stderr, said.stderr
        said = weft('serve', '--iscsi=127.0.0.1:0', f'--iscsi-secrets={place}', 'ram:1M')
        expect_error(said, 1, 'it is no file')
        said = weft('serve', '--iscsi=127.0.0.1:0', f'--iscsi-secrets={place}/none', 'ram:1M')
        expect_error(said, 1, 'No such file')


@on_node
def libiscsi_logs_in_with_its_secret(node):
    need('iscsi-ls', 'iscsi-inq')

    def url(secret, path=''):
        return f'{node.portal}{path}'.replace('//', f'//one%{secret}@', 1)

    assert node.target in run('iscsi-ls', '-s', url(SECRET))
    assert 'Vendor:WEFT' in run('iscsi-inq', url(SECRET, f'/{node.target}/0'))
    said = subprocess.run(['iscsi-inq', url('a-wrong-secret', f'/{node.target}/0')],
                          capture_output=True, text=True, timeout=30)
    assert said.returncode != 0, said
    for secret, is_good in ((TARGET_SECRET, True), ('a-secret-of-another', False)):
        said = weft('info', f'{url(SECRET, f"/{node.target}/0").replace("%", "%25")}'
                            f'?target_user=node&target_secret={secret}')
        assert (said.returncode == 0) == is_good, (secret, said)
    both = {'LIBISCSI_CHAP_TARGET_USERNAME': 'node'}
    for secret, is_good in ((TARGET_SECRET, True), ('a-secret-of-another', False)):
        said = subprocess.run(
            ['iscsi-inq', url(SECRET, f'/{node.target}/0')], capture_output=True, text=True,
            env={**os.environ, **both, 'LIBISCSI_CHAP_TARGET_PASSWORD': secret}, timeout=30)
        assert (said.returncode == 0) == is_good, (secret, said)
    until(lambda: node.status()['connections'] == 0)


if __name__ == '__main__':
    main()
