#!/usr/bin/env python3
"""weft explains itself, and refuses a wrong command line with status 2 and a word on stderr."""

import subprocess

from cases import case, expect, main, settings, weft

COMMANDS = ('run', 'env', 'doctor', 'stat', 'draw', 'serve', 'status', 'rescan', 'discover', 'ls',
            'info', 'cp', 'attach', 'help')


@case
def version_is_one_line():
    result = weft('--version')
    expect(result, 0, None)
    name, number = result.stdout.split()
    assert name == 'weft' and number[0].isdigit(), result.stdout


@case
def help_names_every_command():
    for words in (['help'], ['--help'], ['-h']):
        result = weft(*words)
        expect(result, 0, None)
        assert all(f'\n  {command} ' in result.stdout for command in COMMANDS), result.stdout


@case
def every_command_has_one_help_text():
    for command in COMMANDS:
        asked, own = weft('help', command), weft(command, '--help')
        expect(asked, 0, own.stdout)
        assert asked.stdout.startswith(f'Usage: weft {command}'), asked.stdout


@case
def no_command_is_a_usage_error():
    result = weft()
    expect(result, 2, '', 'Usage: weft')


@case
def wrong_command_lines_are_refused():
    for words, said in (
            (['bogus'], 'weft: there is no command bogus'),
            (['help', 'bogus'], 'no command bogus'),
            (['help', 'run', 'stat'], 'one word at most'),
            (['run'], 'which program?'),
            (['run', '--bogus', 'true'], 'no option --bogus'),
            (['run', '--crc'], '--crc needs a value'),
            (['run', '--crc=perhaps', 'true'], 'WEFT_CRC=perhaps: it must be on or off'),
            (['run', '--peer-timeout=0', 'true'], 'it must be 1 to 86400 seconds'),
            (['run', '--trace=qp,bogus', 'true'], 'it must be all, or some of mpa, ddp'),
            (['run', '--link=bogus', 'true'], 'WEFT_LINK=bogus: it must be socket, udp'),
            (['run', '--set', 'crc', 'true'], 'it must be NAME=VALUE'),
            (['run', '--set', 'bogus=1', 'true'], 'no setting bogus'),
            (['run', '--set', 'MPA_REVISION=3', 'true'], 'it must be 1 or 2'),
            (['doctor', '--bogus'], 'no option --bogus'),
            (['doctor', '--wire=infiniband'], 'it must be both, iwarp or roce'),
            (['doctor', '--set'], '--set needs a value'),
            (['stat', 'abc'], 'abc is not a process id'),
            (['stat', '0'], '0 is not a process id'),
            (['stat', '--watch=x'], 'it must be 1 to 86400 seconds'),
            (['stat', '--bogus'], 'no option --bogus'),
            (['discover'], 'one address, not 0'),
            (['discover', '--bogus', 'h'], 'no option --bogus'),
            (['ls', 'a', 'b'], 'one address, not 2'),
            (['ls', 'h:'], 'no port behind the colon'),
            (['discover', '127.0.0.1:65536'], 'there is no port 65536'),
            (['ls', 'nbd://127.0.0.1:99999'], 'there is no port 99999'),
            (['info', '2001:db8::1'], 'an IPv6 number stands in brackets'),
            (['info', 'h'], 'names no subsystem; `weft ls h` lists them'),
            (['info', 'nvme+rdma://h/n/0'], '0 is not the number of a namespace'),
            (['cp', 'a'], 'a source and a destination, not 1 word'),
            (['cp', 'a', 'b'], 'one of the two must be a volume'),
            (['cp', '--depth=0', 'a', 'nvme+rdma://h/n'], 'it must be 1 to 128'),
            (['cp', '--depth'], '--depth needs a value'),
            (['cp', 'nvme+rdma://h', 'b'], 'no subsystem; `weft ls nvme+rdma://h` lists them'),
            (['cp', '--verify', '-', 'nvme+rdma://h/n'], '- can be read once'),
            (['cp', '--json', 'nvme+rdma://h/n', '-'], 'where the copy goes'),
            (['cp', '--bogus'], 'no option --bogus'),
            (['cp', 'a', 'nbd:///n'], 'it names no host'),
            (['info', 'nbd+unix://h/n?socket=s'], 'it is not nbd+unix:///[EXPORT]?socket=PATH'),
            (['ls', 'nbd+unix:///n'], 'it is not nbd+unix:///[EXPORT]?socket=PATH'),
            (['ls', 'nbd://h/' + 'x' * 2048], 'it is longer than 2047 octets'),
            (['discover', 'nbd://h'], 'it is not nvme+rdma://HOST'),
            (['attach', 'nbd://h/n'], 'give an NBD address to the program itself'),
            (['serve', '--http=a:1', '--http=b:2', 'ram:1M'], 'b:2: a second address of the same'),
            (['serve', '--nbd=a:1', '--nbd=a:1', 'ram:1M'], 'a:1: this address is given twice'),
            (['serve', *(f'--nbd=a:{i}' for i in range(9)), 'ram:1M'],
             'a:8: too many addresses for one protocol'),
            (['serve', '--nbd=' + 'x' * 200, 'ram:1M'], 'the address is too long'),
            (['attach'], 'one volume, not 0'),
            (['attach', 'disk.img'], 'names no subsystem'),
            (['attach', 'nvme+rdma://h'], 'names no subsystem'),
            (['attach', 'nvme+rdma://h/n?bogus=1'], 'no parameter bogus'),
            (['attach', '--socket=' + 'x' * 200, 'nvme+rdma://h/n'], 'the path is too long'),
            (['attach', '--run'], '--run needs a value')):
        expect(weft(*words), 2, '', said, '\n  do:  weft help')


@case
def help_of_run_has_an_option_for_every_setting():
    text = weft('help', 'run').stdout
    for variable, option, _, _ in settings():
        assert f'  --{option}=' in text, f'{variable} has no --{option}'


@case
def lost_output_is_an_error():
    with open('/dev/full', 'w') as full:
        result = weft('--help', stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1 and 'output lost' in result.stderr, result


main()
