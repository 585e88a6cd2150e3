#!/usr/bin/env python3
"""weft run: what the program gets, and which programs are refused, and why."""

import json
import os
import pathlib
import signal
import subprocess
import time

from cases import (BUILD, WEFT, Skip, case, expect, expect_error, free_port, main, scratch,
                   settings, weft)

LIBRARY_DIR = str((BUILD / 'lib').resolve())
NOBODY = 65534
# In place of the real library: one function that weft has, one that nobody has yet, and one that
# weft has in another version.
STUB_SOURCE = '''int ibv_fork_init(void) { return 0; }
int ibv_from_the_future(void) { return 0; }
int ibv_query_gid(void) { return 0; }
'''
STUB_MAP = '''IBVERBS_1.1 { global: ibv_fork_init; local: *; };
IBVERBS_9.9 { global: ibv_from_the_future; ibv_query_gid; };
'''


def compiled(folder, name, source, *options):
    """The path of a program or library built from C."""
    path = pathlib.Path(folder) / name
    path.with_suffix('.c').write_text(source)
    subprocess.run(['cc', '-o', path, path.with_suffix('.c'), *options], check=True)
    return path


def stub_library(folder):
    """A libibverbs.so.1 that is not weft's, in a folder of its own; gives back what links it."""
    stub = pathlib.Path(folder) / 'stub'
    stub.mkdir()
    (stub / 'map').write_text(STUB_MAP)
    compiled(stub, 'libibverbs.so.1', STUB_SOURCE, '-shared', '-Wl,-soname,libibverbs.so.1',
             f'-Wl,--version-script={stub}/map')
    return stub, [f'{stub}/libibverbs.so.1']


def caller(*functions):
    """The source of a program that names functions and calls none."""
    declared = ''.join(f'int {name}(void);\n' for name in functions)
    named = ', '.join(f'(void *){name}' for name in functions)
    return f'{declared}void *names[] = {{{named}}};\nint main(void) {{ return 0; }}\n'


def executable(folder, name, content, mode=0o755):
    path = pathlib.Path(folder) / name
    path.write_bytes(content)
    path.chmod(mode)
    return path


# --- what the program gets ----------------------------------------------------------------------


@case
def our_libraries_come_first_and_others_stay():
    show = ['run', 'sh', '-c', 'echo "$LD_LIBRARY_PATH"']
    expect(weft(*show, env={'LD_LIBRARY_PATH': ''}), 0, f'{LIBRARY_DIR}\n')
    expect(weft(*show, env={'LD_LIBRARY_PATH': '/a:/b'}), 0, f'{LIBRARY_DIR}:/a:/b\n')


@case
def arguments_are_the_programs_own():
    expect(weft('run', 'printf', '%s,', '--crc=off', '-h', '', 'a b'), 0, '--crc=off,-h,,a b,')


@case
def the_status_is_the_programs():
    expect(weft('run', 'sh', '-c', 'exit 7'), 7)
    assert weft('run', 'sh', '-c', 'kill -TERM $$').returncode == -signal.SIGTERM


@case
def every_setting_has_an_option_that_sets_its_variable():
    for variable, option, values, default in settings():
        value = default
        if default == 'none':
            value = '/x' if 'path' in values else 'loss=1%' if 'loss=P%' in values else 'all'
        show = ['sh', '-c', f'echo "${variable}"']
        expect(weft('run', f'--{option}={value}', *show), 0, f'{value}\n')
        expect(weft('run', '--set', f'{variable}={value}', *show), 0, f'{value}\n')
        expect(weft('run', '--set', f'{variable[5:]}={value}', *show), 0, f'{value}\n')
        expect(weft('run', '--set', f'{option}={value}', *show), 0, f'{value}\n')


@case
def stats_is_short_for_stats_file():
    expect(weft('run', '--stats=/x', 'sh', '-c', 'echo $WEFT_STATS_FILE'), 0, '/x\n')


@case
def without_options_no_variable_is_set():
    expect(weft('run', 'sh', '-c', 'env | grep ^WEFT_; true'), 0, '')


@case
def scripts_run_and_find_the_libraries():
    with scratch() as folder:
        script = executable(folder, 'script', b'#!/bin/sh\necho "$1 $LD_LIBRARY_PATH"\n')
        expect(weft('run', script, 'hello', env={'LD_LIBRARY_PATH': ''}), 0,
               f'hello {LIBRARY_DIR}\n')


# --- two devices ----------------------------------------------------------------------------------

DEVICES_OF = {'both': ['weft0', 'weft_roce0'], 'iwarp': ['weft0'], 'roce': ['weft_roce0']}


@case
def the_wire_says_which_devices_are_listed():
    for wire, devices in DEVICES_OF.items():
        listed = weft('run', f'--wire={wire}', 'ibv_devices').stdout.split('\n')[2:]
        assert [line.split()[0] for line in listed if line] == devices, listed
    expect(weft('run', '--wire=infiniband', 'ibv_devices'), 2, '', 'both, iwarp or roce')
    result = weft('run', 'ibv_devinfo', '-d', 'weft0', env={'WEFT_WIRE': 'infiniband'})
    expect(result, 0, None, 'cannot use WEFT_WIRE=infiniband', 'both, iwarp or roce')


@case
def counters_at_exit_are_those_of_each_device_that_was_up():
    with scratch() as folder:
        for wire, devices in DEVICES_OF.items():
            path = pathlib.Path(folder) / wire
            expect(weft('run', f'--wire={wire}', f'--stats={path}', 'ibv_devinfo'), 0, None)
            told = [json.loads(line) for line in path.read_text().splitlines()]
            assert [device for device in devices if device not in told[devices.index(device)]] == []
            assert len(told) == len(devices), told


@case
def who_wants_the_roce_device_alone_has_its_files():
    show = ['sh', '-c', 'echo $LD_PRELOAD']
    expect(weft('run', '--wire=roce', *show), 0, 'libweft-view.so\n')
    expect(weft('run', *show, env={'WEFT_WIRE': 'roce'}), 0, 'libweft-view.so\n')
    expect(weft('run', '--wire=roce', '--view=off', *show), 0, '\n')
    expect(weft('run', '--wire=both', *show), 0, '\n')


# --- what is not there, or cannot run -------------------------------------------------------------


@case
def a_program_that_is_not_there_is_127():
    expect_error(weft('run', '/nowhere/program'), 127, '/nowhere/program', 'does not exist')
    expect_error(weft('run', 'no-such-program-here'), 127, 'no folder of PATH has it')
    expect_error(weft('run', ''), 127, 'no such program')


@case
def what_cannot_be_executed_is_126():
    with scratch() as folder:
        plain = executable(folder, 'plain', b'#!/bin/sh\n', 0o644)
        expect_error(weft('run', plain), 126, 'Permission denied')
        expect_error(weft('run', folder), 126, 'Is a directory')
        expect_error(weft('run', 'plain', env={'PATH': folder}), 126, 'Permission denied')


@case
def a_later_folder_of_path_is_searched_too():
    with scratch() as folder, scratch() as other:
        executable(folder, 'program', b'#!/bin/sh\n', 0o644)
        executable(other, 'program', b'#!/bin/sh\necho found\n')
        expect(weft('run', 'program', env={'PATH': f'{folder}:{other}:/bin'}), 0, 'found\n')


@case
def a_static_program_is_refused():
    with scratch() as folder:
        program = compiled(folder, 'program', 'int main(void) { return 0; }', '-static')
        expect_error(weft('run', program), 126, str(program), 'statically linked')


@case
def a_program_of_another_machine_is_refused():
    with scratch() as folder:
        content = bytearray(pathlib.Path('/bin/true').read_bytes())
        content[18:20] = (0x1234).to_bytes(2, 'little')  # e_machine
        program = executable(folder, 'program', bytes(content))
        expect_error(weft('run', program), 126, 'another architecture')


@case
def a_program_with_more_rights_than_the_caller_is_refused():
    if os.geteuid() != 0:
        raise Skip('only root can give a file to another user')
    with scratch() as folder:
        program = executable(folder, 'program', pathlib.Path('/bin/true').read_bytes())
        for mode, said in ((0o4755, 'set-user-ID'), (0o2755, 'set-group-ID')):
            os.chown(program, NOBODY, NOBODY)
            program.chmod(mode)
            expect_error(weft('run', program), 126, said, 'ignores LD_LIBRARY_PATH')
            os.chown(program, 0, 0)
            program.chmod(mode)  # the caller's own rights: nothing to refuse
            expect(weft('run', program), 0)


@case
def a_file_that_begins_like_elf_is_no_script():
    with scratch() as folder:
        program = executable(folder, 'program', b'\x7fELF\necho > ran\n')
        expect_error(weft('run', program, cwd=folder), 126, 'Exec format error')
        assert not os.path.exists(f'{folder}/ran')


@case
def an_elf_file_that_ends_early_is_no_crash_of_ours():
    content = pathlib.Path('/bin/true').read_bytes()
    with scratch() as folder:
        for length in range(16, len(content), 997):
            program = executable(folder, 'program', content[:length])
            result = weft('run', program, cwd=folder)
            assert result.returncode == 126 or result.stderr == '', result


@case
def a_script_without_an_interpreter_is_the_shells():
    with scratch() as folder:
        script = executable(folder, 'script', b'echo hello\n')
        expect(weft('run', script), 0, 'hello\n')


# --- symbols --------------------------------------------------------------------------------------


@case
def functions_that_weft_does_not_have_are_named():
    with scratch() as folder:
        _, link = stub_library(folder)
        program = compiled(folder, 'program', caller('ibv_fork_init', 'ibv_from_the_future'), *link)
        result = weft('run', program)
        expect_error(result, 126, str(program), 'ibv_from_the_future@IBVERBS_9.9')
        assert 'ibv_fork_init' not in result.stderr, result.stderr
        program = compiled(folder, 'program', caller('ibv_query_gid'), *link)
        expect_error(weft('run', program), 126, 'ibv_query_gid@IBVERBS_9.9')


@case
def a_library_of_the_program_is_looked_into():
    """However the loader will find it: by path, by the program's search path, by the user's."""
    with scratch() as folder:
        stub, link = stub_library(folder)
        library = caller('ibv_from_the_future').replace('main', 'middle')
        source = 'int middle(void);\nint main(void) { return middle(); }'
        for soname, path_tags, env in (
                ([], [], {}),
                (['-Wl,-soname,libmiddle.so'], ['-Wl,-rpath,$ORIGIN'], {}),
                (['-Wl,-soname,libmiddle.so'], [], {'LD_LIBRARY_PATH': folder})):
            middle = compiled(folder, 'libmiddle.so', library, '-shared', '-fPIC', *soname, *link)
            program = compiled(folder, 'program', source, middle, *path_tags,
                               f'-Wl,-rpath-link,{stub}', '-Wl,--allow-shlib-undefined')
            expect_error(weft('run', program, env=env), 126, str(middle),
                         'ibv_from_the_future@IBVERBS_9.9')


@case
def an_old_search_path_with_other_libraries_is_refused():
    with scratch() as folder:
        _, link = stub_library(folder)
        for tags, status in (('--disable-new-dtags', 126), ('--enable-new-dtags', 0)):
            program = compiled(folder, 'program', caller('ibv_fork_init'), *link, f'-Wl,{tags}',
                               '-Wl,-rpath,$ORIGIN/stub')
            result = weft('run', program)
            expect(result, status, '', *(['DT_RPATH'] if status else []))


@case
def an_old_search_path_without_them_is_not_refused():
    with scratch() as folder:
        _, link = stub_library(folder)
        program = compiled(folder, 'program', caller('ibv_fork_init'), *link,
                           '-Wl,--disable-new-dtags', '-Wl,-rpath,$ORIGIN')
        expect(weft('run', program), 0)


@case
def unsupported_functions_are_named_in_one_line():
    with scratch() as folder:
        program = compiled(folder, 'program', caller('ibv_import_pd', 'ibv_fork_init'), '-libverbs')
        result = weft('run', program)
        expect(result, 0, '')
        assert result.stderr == ('weft: note: program may call functions that only answer '
                                 'EOPNOTSUPP here: ibv_import_pd\n'), result.stderr
        assert weft('run', '--quiet', program).stderr == ''


@case
def unsupported_functions_of_libraries_are_not_named():
    with scratch() as folder:
        middle = compiled(folder, 'libmiddle.so', caller('ibv_import_pd').replace('main', 'middle'),
                          '-shared', '-fPIC', '-libverbs')
        source = 'int middle(void);\nint main(void) { return middle(); }'
        program = compiled(folder, 'program', source, middle)
        result = weft('run', program)
        expect(result, 0, '')
        assert result.stderr == '', result.stderr


# --- weft itself ----------------------------------------------------------------------------------


@case
def a_missing_library_is_125():
    with scratch() as folder:
        lonely = executable(folder, 'weft', WEFT.read_bytes())
        expect_error(weft('run', 'true', program=lonely, env={'LD_LIBRARY_PATH': LIBRARY_DIR}),
                     125, 'weft is not whole')
        (pathlib.Path(folder) / 'lib').mkdir()
        os.link(executable(folder, 'copy', b''), f'{folder}/lib/libweft.so.1')
        expect_error(weft('run', 'true', program=lonely, env={'LD_LIBRARY_PATH': LIBRARY_DIR}),
                     125, 'libibverbs.so.1')


@case
def a_folder_that_cannot_stand_in_a_search_path_is_125():
    with scratch() as folder:
        odd = pathlib.Path(folder) / 'a:b'
        odd.mkdir()
        lonely = executable(odd, 'weft', WEFT.read_bytes())
        (odd / 'lib').mkdir()
        (odd / 'lib/libweft.so.1').touch()
        expect_error(weft('run', 'true', program=lonely, env={'LD_LIBRARY_PATH': LIBRARY_DIR}),
                     125, 'a:b', 'LD_LIBRARY_PATH cannot hold')


@case
def what_make_install_puts_down_works():
    with scratch() as folder:
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--destdir', folder],
                       check=True, capture_output=True)
        installed = next(pathlib.Path(folder).rglob('bin/weft'))
        result = weft('run', 'sh', '-c', 'echo $LD_LIBRARY_PATH', program=installed,
                      env={'LD_LIBRARY_PATH': ''})
        expect(result, 0, None)
        library_dir = pathlib.Path(result.stdout.strip())
        assert installed.parents[1] in library_dir.parents, result.stdout
        assert {path.name for path in library_dir.glob('*.so.1')} == {
            'libibverbs.so.1', 'librdmacm.so.1', 'libweft.so.1'}, list(library_dir.iterdir())
        for wanted in ('man1/weft.1', 'man1/weft-run.1', 'man1/weft-stat.1', 'man7/weft.7',
                       'bash-completion/completions/weft', 'include/weft/settings.h'):
            assert any(pathlib.Path(folder).rglob(wanted)), f'no {wanted}'


# --- a real program -------------------------------------------------------------------------------


@case
def a_server_is_seen_by_stat_while_it_runs():
    with scratch() as folder:
        port = str(free_port())
        trace = pathlib.Path(folder) / 'trace'
        server = subprocess.Popen(
            [WEFT, 'run', '-q', '--wire=iwarp', '--trace=all', f'--trace-file={trace}', 'rping',
             '-s', '-a', '127.0.0.1', '-p', port, '-C', '1'], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            states = []
            while 'listening' not in states and time.monotonic() < deadline:
                answer = weft('stat', '--json', str(server.pid))
                if answer.returncode == 0:
                    process, = json.loads(answer.stdout)
                    states = [connection['state'] for connection in process['connections']]
                time.sleep(0.05)
            assert 'listening' in states, answer
            assert (process['pid'], process['program']) == (server.pid, 'rping'), process
            table = weft('stat', str(server.pid)).stdout
            assert f'rping, process {server.pid}\n' in table, table
            assert f'connection 127.0.0.1:{port}' in table, table
            client = weft('run', 'rping', '-c', '-a', '127.0.0.1', '-p', port, '-C', '1')
            assert client.returncode == 0, client
            server.wait(60)
            traced = trace.read_text()
            for room in ('mpa', 'ddp', 'rdmap', 'qp', 'cq', 'mem', 'conn', 'rnic'):
                assert f' {room}: ' in traced, f'no line of {room} in\n{traced}'
        finally:
            server.kill()
            server.wait()


def rping_pair(folder, *options):
    """The counters that both ends of one rping left, {role: weft0}."""
    port = str(free_port())
    stats = {role: pathlib.Path(folder) / role for role in ('server', 'client')}

    def end(role, *words):
        return subprocess.Popen(
            [WEFT, 'run', '-q', '--wire=iwarp', *options, f'--stats={stats[role]}', 'rping', *words,
             '-a', '127.0.0.1', '-p', port, '-C', '10', '-S', '5000'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    server = end('server', '-s')
    try:
        client = None
        deadline = time.monotonic() + 60
        while client is None or client.wait(60) != 0:  # until the server listens
            assert time.monotonic() < deadline and server.poll() is None, 'rping fails'
            time.sleep(0.1)
            client = end('client', '-c')
        server.wait(60)
    finally:
        server.kill()
        server.wait()
    return {role: json.loads(path.read_text())['weft0'] for role, path in stats.items()}


@case
def our_own_tcp_and_its_packets_are_counted():
    with scratch() as folder:
        counted = rping_pair(folder, '--link=udp', '--fault=duplicate=100%')
    for role, device in counted.items():
        tcp, packets = device['tcp_total'], device['packets']
        assert tcp['octets_out'] > 50000 and tcp['octets_in'] > 50000, (role, tcp)
        assert tcp['refused.duplicate'] + tcp['refused.not_acceptable'] > 0, (role, tcp)
        assert tcp['refused.ranges_full'] == 0, (role, tcp)
        assert packets['packets_out'] > 0 and packets['packets_in'] > 0, (role, packets)
        assert packets['faults.duplicated'] > 0, (role, packets)


@case
def peers_have_the_link_of_their_prefix():
    with scratch() as folder:
        for link in ('127.0.0.1=udp;*=socket', '127.0.0.0/8=socket; *=udp'):
            for role, device in rping_pair(folder, f'--link={link}').items():
                packets, is_udp = device['packets'], link.startswith('127.0.0.1=udp')
                assert (packets['udp.packets_in'] > 0) == is_udp, (link, role, packets)
                assert (device['tcp_total']['octets_in'] > 0) == is_udp, (link, role, device)


@case
def member_of_a_link_that_does_not_come_up_is_named():
    member = 'tun:lo,10.9.9.9/24'
    result = weft('run', f'--link=10.9.9.0/24={member};*=socket', 'rping', '-c', '-a', '127.0.0.1')
    assert f'cannot bring up {member}, which WEFT_LINK names: ' in result.stderr, result


@case
def the_kernels_tcp_is_not_counted():
    with scratch() as folder:
        # Through memory of both ends there would be counters, of that.
        for device in rping_pair(folder, '--link=socket', '--local=off').values():
            assert 'tcp_total' not in device and 'packets' not in device, device


@case
def a_pair_on_one_host_goes_through_memory():
    with scratch() as folder:
        devices = rping_pair(folder)
        for role, device in devices.items():
            assert device['packets']['local.streams'] == 1, (role, device)
        # The server reads what the client names: one copy each, out of that one's memory.
        assert devices['server']['packets']['local.pulls'] > 0, devices['server']


@case
def a_capture_is_of_the_wire():
    with scratch() as folder:
        for role, device in rping_pair(folder, f'--pcap={folder}/%p.pcap').items():
            assert 'packets' not in device, (role, device)


main()
