#!/usr/bin/env python3
"""The manual pages say what the program does: settings, options and probes are compared."""

import re
import shutil
import subprocess

from cases import BUILD, SOURCE, Skip, case, main, settings, weft

MAN = SOURCE / 'man'


def documented_settings():
    """{variable: (values, default)} of the list of weft(7)."""
    found = {}
    for line in (MAN / 'weft.7').read_text().splitlines():
        if line.startswith('.It Ev WEFT_'):
            values, default = re.search(r'Pq (.*); default (.*)$', line).groups()
            for variable in re.findall(r'WEFT_\w+', line):
                found[variable] = (values, default)
    return found


@case
def weft_7_has_every_variable_and_no_other():
    documented = documented_settings()
    known = {variable for variable, *_ in settings()}
    assert documented.keys() == known, f'differ in {documented.keys() ^ known}'


@case
def weft_7_has_the_values_and_defaults():
    documented = documented_settings()
    for variable, _, values, default in settings():
        said_values, said_default = documented[variable]
        assert said_default == default, f'{variable}: {said_default}, not {default}'
        assert said_values == values or default == 'none', f'{variable}: {said_values}'


@case
def weft_7_has_the_rooms_that_trace():
    names = re.findall(r'\[TRACE_\w+\] = "(\w+)"', (SOURCE / 'host/trace.c').read_text())
    text = (MAN / 'weft.7').read_text()
    line = re.search(r'in these rooms:\n\.Cm (.*) ,\n', text).group(1)
    assert line.split(' , ') == names, f'{line}, not {names}'


COMMANDS = ('run', 'env', 'doctor', 'stat', 'top', 'watch', 'reads', 'draw', 'serve', 'status',
            'rescan', 'discover', 'ls', 'info', 'cp', 'attach')


def options_of(command):
    """(letter or '', word, whether it has a value) of each in the help; settings have a list of
    their own."""
    of_settings = {option for _, option, *_ in settings()}
    own_help = weft('help', command).stdout.split('Settings,')[0]
    rows = re.findall(r'^ {2,6}(?:-(\w), )?--([a-z][a-z-]*)(=?)', own_help, re.M)
    for letter, word, value in rows:
        if word != 'help' and word not in of_settings:
            yield letter, word, value != ''


@case
def synopses_have_every_option():
    for command in COMMANDS:
        page = (MAN / f'weft-{command}.1').read_text()
        synopsis = re.search(r'\.Sh SYNOPSIS\n(.*?)\.Sh', page, re.S).group(1)
        words = set(re.findall(r'Fl -([a-z][a-z-]*)', synopsis))
        letters = {letter for found in re.findall(r'Fl ((?:\w+|(?<=\w) \| (?=\w\n))+)', synopsis)
                   for letter in found if letter.isalpha()}
        for letter, word, _ in options_of(command):
            assert word in words or letter in letters, f'weft-{command}(1): SYNOPSIS, --{word}'


@case
def options_of_the_help_are_taken():
    """Behind one that is taken, the next is refused; so may its value be."""
    for command in COMMANDS:
        for letter, word, has_value in options_of(command):
            for option in [f'--{word}' + '=1' * has_value, f'-{letter}'][:2 if letter else 1]:
                said = weft(command, option, '--bogus').stderr
                assert said.startswith('weft'), f'{command} {option}: {said}'
                assert f'no option {option.split("=")[0]}\n' not in said, said


@case
def pages_of_commands_have_every_option():
    for command in COMMANDS:
        page = (MAN / f'weft-{command}.1').read_text()
        own_help = weft('help', command).stdout.split('Settings,')[0]
        for option in re.findall(r'--([a-z][a-z-]*)', own_help):
            if option != 'stats-file':
                assert f'Fl -{option}' in page, f'weft-{command}(1) without --{option}'


@case
def pages_of_commands_have_no_option_that_the_help_has_not():
    """In SYNOPSIS, and in lists of options: a text may speak of another command's."""
    for command in COMMANDS:
        page = (MAN / f'weft-{command}.1').read_text()
        synopsis = re.search(r'\.Sh SYNOPSIS\n(.*?)\.Sh', page, re.S).group(1)
        listed = '\n'.join(re.findall(r'^\.It Fl .*', page, re.M))
        helped = set(re.findall(r'--([a-z][a-z-]*)', weft('help', command).stdout))
        for option in re.findall(r'\bFl -([a-z][a-z-]*)', synopsis + listed):
            assert option in helped, f'weft-{command}(1): no option --{option}'


@case
def weft_manager_3_has_every_function_and_refusal():
    page = (MAN / 'weft-manager.3').read_text()
    functions = re.findall(r'^ +(weft_rdma_\w+);$',
                           (SOURCE / 'manager/libweft-manager.map').read_text(), re.M)
    refusals = re.findall(r'^ +\[(WEFT_RDMA_\w+)\] =',
                          (SOURCE / 'manager/refuse.c').read_text(), re.M)
    assert functions and refusals
    for function in functions:
        assert f'.Fn {function} "' in page, f'weft-manager(3) without {function}'
    for refusal in refusals:
        assert f'Dv {refusal}' in page, f'weft-manager(3) without {refusal}'


@case
def weft_nvme_3_has_every_function():
    page = (MAN / 'weft-nvme.3').read_text()
    functions = re.findall(r'^ +(weft_nvme_\w+);$',
                           (SOURCE / 'initiator/libweft-nvme.map').read_text(), re.M)
    assert functions
    for function in functions:
        assert f'.Fn {function} "' in page, f'weft-nvme(3) without {function}'


def functions_of_verbs():
    return set(re.findall(r'^\s+(weft_\w+);$', (SOURCE / 'verbs/libibverbs.map').read_text(), re.M))


def functions_of_drive():
    return {name for name in functions_of_verbs() if name.startswith('weft_drive_')}


@case
def weft_drive_3_has_every_function():
    page = (MAN / 'weft-drive.3').read_text()
    functions = functions_of_drive() | {'weft_drive_find'}
    assert len(functions) > 1
    for function in functions:
        assert f'\n.Nm {function}' in page, f'weft-drive(3) without {function}'
        assert f'.Fn {function} "' in page, f'weft-drive(3) without a synopsis of {function}'


@case
def weft_oneshot_3_has_every_function_and_flag():
    page = (MAN / 'weft-oneshot.3').read_text()
    header = (SOURCE / 'include/weft/oneshot.h').read_text()
    functions = functions_of_verbs() - functions_of_drive()
    flags = set(re.findall(r'(WEFT_ONESHOT_\w+)(?: = |\s+UINT32_MAX)', header))
    assert functions and flags
    for function in functions:
        assert f'\n.Nm {function}' in page, f'weft-oneshot(3) without {function}'
    for flag in flags:
        assert f'.Dv {flag}' in page, f'weft-oneshot(3) without {flag}'


@case
def weft_7_has_every_probe_and_no_other():
    notes = subprocess.run(['readelf', '-n', BUILD / 'lib/libweft.so.1'], text=True,
                           capture_output=True, check=True).stdout
    present = {}
    for name, arguments in re.findall(r'Provider: weft\n\s+Name: (\w+)\n.*\n\s+Arguments: (.*)',
                                      notes):
        present[name] = len(arguments.split())
    if not present and not (SOURCE.joinpath('/usr/include/sys/sdt.h')).exists():
        raise Skip('<sys/sdt.h> is not here, so there are no probes')
    documented = {words.split()[0]: len(words.split()) - 1 for words in
                  re.findall(r'^\.It Fn (.*)$', (MAN / 'weft.7').read_text(), re.M)}
    assert present == documented, f'in the library {present}, in weft(7) {documented}'


@case
def pages_are_well_formed():
    if not shutil.which('mandoc'):
        raise Skip('no mandoc')
    result = subprocess.run(['mandoc', '-T', 'lint', '-W', 'warning', *MAN.glob('weft*.[137]')],
                            text=True, capture_output=True)
    assert result.returncode == 0, result.stdout


main()
