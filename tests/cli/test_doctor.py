#!/usr/bin/env python3
"""weft doctor: it finds what is in the way where something is, and nothing where nothing is."""

import ctypes
import fcntl
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys

from cases import BUILD, WEFT, Skip, case, expect_error, main, scratch, weft

RESULTS = ('ok', 'note', 'warning', 'failure')
NOBODY = 65534
# In a network of one's own nobody else has a port, and no other interface is there; and nobody
# outlives the script.
ALONE = ['unshare', '--net', '--pid', '--fork', '--kill-child',
         *(['--user', '--map-root-user'] if os.geteuid() != 0 else [])]
QUIET_ENVIRONMENT = {'LD_LIBRARY_PATH': '', 'LD_PRELOAD': ''}


def doctor(*words, env=None, **options):
    """The exit status, and the findings by name."""
    result = weft('doctor', '--json', *words, env={**QUIET_ENVIRONMENT, **(env or {})}, **options)
    assert result.stderr == '', result.stderr
    report = json.loads(result.stdout)
    return result.returncode, {check['name']: check for check in report['checks']}


def found(name, *words, **options):
    """One finding."""
    return doctor(*words, **options)[1][name]


def expect_finding(finding, result, *said):
    assert finding['result'] == result, f'{finding}, not {result}'
    text = ' '.join(finding[member] or '' for member in ('seen', 'why', 'do'))
    for words in said:
        assert words in text, f'{finding} without {words!r}'


def alone(script, *words, has_mounts=False, **variables):
    """What a shell script in a network of its own says; $DOCTOR is the command.

    has_mounts: it may mount what it likes.
    """
    place = [*ALONE, '--mount'] if has_mounts else ALONE
    if not shutil.which('unshare') or subprocess.run([*place, 'true'], check=False,
                                                     capture_output=True).returncode:
        raise Skip('no network namespace')
    result = subprocess.run(
        [*place, 'sh', '-c', script, *words], text=True, capture_output=True, timeout=60,
        check=False, env={**os.environ, **QUIET_ENVIRONMENT, 'DOCTOR': f'{WEFT} doctor --json',
                          **variables})
    assert result.stderr == '', result.stderr
    return [{check['name']: check for check in report['checks']}
            for report in json_stream(result.stdout)]


def json_stream(text):
    """The objects that stand behind each other."""
    decoder, objects = json.JSONDecoder(), []
    while text.strip():
        report, end = decoder.raw_decode(text.lstrip())
        text = text.lstrip()[end:]
        objects.append(report)
    return objects


def compiled(folder, name, source, *options):
    path = pathlib.Path(folder) / name
    path.with_suffix('.c').write_text(source)
    subprocess.run(['cc', '-o', path, path.with_suffix('.c'), *options], check=True)
    return path


def executable(folder, name, content, mode=0o755):
    path = pathlib.Path(folder) / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def yama_refuses():
    """As Ubuntu has it from the start."""
    scope = pathlib.Path('/proc/sys/kernel/yama/ptrace_scope')
    return scope.exists() and scope.read_text().strip() != '0'


# --- the report ---------------------------------------------------------------------------------


@case
def nothing_is_in_the_way_of_a_machine_that_is_as_it_should_be():
    with scratch() as folder:
        findings, = alone('ip link set lo up; mkdir -m 700 "$0/run"; $DOCTOR', folder,
                          WEFT_RUNTIME_DIR=f'{folder}/run')
    bad = [check for check in findings.values() if check['result'] in ('warning', 'failure')
           and not (check['name'] == 'copies' and yama_refuses())]
    assert bad == [] and len(findings) > 20, bad


@case
def every_finding_has_its_parts():
    result = weft('doctor', '--json', 'sh')
    report = json.loads(result.stdout)
    assert report.keys() == {'version', 'program', 'is_in_the_way', 'results', 'checks'}
    assert report['program'] == 'sh' and tuple(report['results']) == RESULTS
    assert sum(report['results'].values()) == len(report['checks'])
    assert report['is_in_the_way'] == (report['results']['failure'] > 0)
    names = [check['name'] for check in report['checks']]
    assert len(set(names)) == len(names), names
    for check in report['checks']:
        assert check.keys() == {'group', 'name', 'about', 'result', 'seen', 'why', 'do'}, check
        assert check['result'] in RESULTS and check['seen'] and check['about'], check
        assert (check['why'] is None) == (check['result'] == 'ok'), check
        assert check['do'] is None or '\n' not in check['do'], check


@case
def the_manual_has_every_check():
    page = (pathlib.Path(__file__).parents[2] / 'man/weft-doctor.1').read_text()
    documented = [name for line in re.findall(r'^\.It ([a-z_ ,]+)$', page, re.M)
                  for name in line.split(' , ')]
    names = [check['name'] for check in json.loads(weft('doctor', '--json', 'sh').stdout)['checks']]
    assert [name for name in documented if name not in ('note',) + RESULTS] == names


@case
def lines_fit_a_terminal_of_80_columns_but_for_commands():
    result = weft('doctor', '--wire=roce', '/nowhere/program', env={'WEFT_CRC': 'perhaps'})
    lines = result.stdout.splitlines()
    assert [line for line in lines if len(line) > 80 and ' do:  ' not in line] == []
    assert '\033' not in result.stdout and '           do:  unset WEFT_CRC' in lines, result.stdout


def on_terminal(**variables):
    """What the command prints on a terminal."""
    terminal, end = pty.openpty()
    process = subprocess.Popen([WEFT, 'doctor'], stdout=end, stdin=subprocess.DEVNULL,
                               env={'PATH': os.environ['PATH'], 'TERM': 'xterm', **variables})
    os.close(end)
    text = b''
    try:
        while octets := os.read(terminal, 65536):
            text += octets
    except OSError:
        pass  # the other end is closed
    process.wait(timeout=60)
    os.close(terminal)
    return text.decode()


@case
def colour_is_for_terminals_that_want_it():
    assert '\033[32mok\033[0m' in on_terminal()
    for variables in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        assert '\033' not in on_terminal(**variables), variables


@case
def quiet_is_silent_where_nothing_is_in_the_way():
    with scratch() as folder:
        script = 'ip link set lo up; "$0" doctor --quiet; echo $?'
        os.mkdir(f'{folder}/run', 0o700)
        result = subprocess.run([*ALONE, 'sh', '-c', script, WEFT], text=True, timeout=60,
                                capture_output=True, check=False,
                                env={'PATH': os.environ['PATH'],
                                     'WEFT_RUNTIME_DIR': f'{folder}/run'})
        if result.returncode:
            raise Skip('no network namespace')
        assert result.stdout == '0\n', result.stdout
        result = weft('doctor', '-q', env={**QUIET_ENVIRONMENT, 'WEFT_CRC': 'perhaps'})
        assert '  warning  settings ' in result.stdout and '  ok ' not in result.stdout, result


@case
def names_of_strangers_steer_no_terminal():
    result = weft('doctor', '/nowhere/\033[2J\n')
    assert result.returncode == 1 and '\033' not in result.stdout, result.stdout
    words = [os.fsencode(WEFT), b'doctor', b'--json', b'/nowhere/\xff\xc3']
    named = subprocess.run(words, check=False, timeout=60, capture_output=True).stdout
    assert json.loads(named.decode())['program'] == '/nowhere/??', named


# --- limits and the kernel ------------------------------------------------------------------------


@case
def few_descriptors_are_found():
    for count, result in ((9, 'failure'), (24, 'failure'), (100, 'warning'), (1024, 'ok')):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        finding = found('descriptors', preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (count, hard)))  # noqa: B023  (called before the next)
        expect_finding(finding, result, f'{count} per process',
                       *(['ulimit -n'] if result != 'ok' else []))


@case
def a_machine_without_room_for_a_process_is_told_so():
    if os.geteuid() != 0:
        raise Skip('only root can be a user without processes')
    nobody = 2 ** 31 + os.getpid()  # nobody else is this one

    def narrow():
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setresuid(nobody, nobody, nobody)
    result = weft('doctor', preexec_fn=narrow)
    expect_error(result, 1, 'cannot look', 'ulimit -a')


@case
def limits_that_do_not_matter_are_told():
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    finding = found('memlock', preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK,
                                                                     (65536, hard)))
    expect_finding(finding, 'ok', '64K, which does not matter')
    reserved = int(pathlib.Path('/proc/sys/vm/nr_hugepages').read_text())
    expect_finding(found('hugepages'), 'ok', f'{reserved} reserved')


SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 2, 38, 22
SYS_SECCOMP, NEW_LISTENER = 317, 8
RET_ALLOW, RET_ERRNO, RET_KILL, RET_USER_NOTIF = 0x7fff0000, 0x50000, 0x80000000, 0x7fc00000
SETSOCKOPT, UNSHARE, EVENTFD2, MEMFD_CREATE, IO_URING_SETUP, CLONE3 = 54, 272, 290, 319, 425, 435
LANDLOCK_CREATE_RULESET = 444
PROCESS_VM_READV = 310


def refuse(call, answer, has_listener=False):
    """To be called in the child: the system call has this answer from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, answer), (0x06, 0, 0, RET_ALLOW)]
    octets = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *line) for line in code))
    program = struct.pack('@HP', len(code), ctypes.addressof(octets))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if has_listener:
        listener = libc.syscall(SYS_SECCOMP, 1, NEW_LISTENER, program)
        os.set_inheritable(listener, True)
    elif libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        os.abort()


def under_filter(*refusal, **options):
    if os.uname().machine != 'x86_64':
        raise Skip('the numbers of system calls are those of x86-64')
    return doctor(preexec_fn=lambda: refuse(*refusal), **options)


@case
def a_filter_that_refuses_io_uring_is_found_and_does_no_harm():
    status, findings = under_filter(IO_URING_SETUP, RET_ERRNO | 1)
    expect_finding(findings['io_uring'], 'note', 'Operation not permitted', 'threads')
    expect_finding(findings['calls'], 'ok', 'under a filter (seccomp)')
    assert status == doctor()[0]
    expect_finding(found('io_uring'), 'ok')


@case
def a_call_that_weft_needs_is_named_when_it_is_refused():
    status, findings = under_filter(EVENTFD2, RET_ERRNO | 1)
    expect_finding(findings['calls'], 'failure', 'eventfd: Operation not permitted')
    assert status == 1
    expect_finding(under_filter(MEMFD_CREATE, RET_ERRNO | 38)[1]['calls'], 'warning',
                   'memfd_create', 'weft serve')
    expect_finding(found('calls'), 'ok')


@case
def copies_that_are_refused_are_found():
    _, findings = under_filter(PROCESS_VM_READV, RET_ERRNO | 1)
    expect_finding(findings['copies'], 'warning', 'Operation not permitted', 'copied twice')
    expect_finding(found('copies'), 'warning' if yama_refuses() else 'ok',
                   'by Yama' if yama_refuses() else 'may be made')


@case
def a_filter_that_kills_ends_one_check_alone():
    status, findings = under_filter(EVENTFD2, RET_KILL)
    expect_finding(findings['calls'], 'failure', 'eventfd', 'signal 31', 'seccomp')
    assert status == 1 and findings['kernel']['result'] == 'ok', findings


@case
def a_check_that_hangs_is_given_up():
    status, findings = under_filter(IO_URING_SETUP, RET_USER_NOTIF, True, close_fds=False)
    expect_finding(findings['io_uring'], 'warning', 'no answer within 1500 ms')
    assert status == doctor()[0] and findings['kernel']['result'] == 'ok', findings


@case
def threads_and_namespaces_that_are_refused_are_found():
    expect_finding(under_filter(CLONE3, RET_ERRNO | 1)[1]['threads'], 'failure',
                   'Operation not permitted')
    expect_finding(under_filter(UNSHARE, RET_ERRNO | 1)[1]['namespaces'], 'note', 'unshare -rn')
    expect_finding(found('threads'), 'ok')


@case
def a_system_without_landlock_is_found():
    expect_finding(under_filter(LANDLOCK_CREATE_RULESET, RET_ERRNO | 38)[1]['confinement'], 'note',
                   'seccomp, no Landlock', 'weft serve')
    if ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, 1) > 0:
        expect_finding(found('confinement'), 'ok', 'Landlock')


@case
def sockets_without_options_have_small_buffers_and_no_offloads():
    _, findings = under_filter(SETSOCKOPT, RET_ERRNO | 1)
    expect_finding(findings['buffers'], 'note', 'packets of 4096', 'net.core.rmem_max')
    expect_finding(findings['offloads'], 'warning', 'UDP_GRO: Operation not permitted')
    expect_finding(found('offloads'), 'ok', 'several packets at a time')


@case
def an_old_kernel_is_found():
    if subprocess.run(['setarch', '--uname-2.6', 'true'], check=False,
                      capture_output=True).returncode:
        raise Skip('no program setarch that shows an older kernel')
    result = subprocess.run(['setarch', '--uname-2.6', WEFT, 'doctor', '--json'], text=True,
                            capture_output=True, check=False, timeout=60)
    kernel, = [check for check in json.loads(result.stdout)['checks'] if check['name'] == 'kernel']
    expect_finding(kernel, 'warning', 'Linux 2.6', 'one by one')


def in_mounts(script, **variables):
    """The findings where a shell script has changed what is mounted."""
    words = ['unshare', '--mount', '--map-root-user', '--user', 'sh', '-ec',
             f'{script}; exec "$0" doctor --json', WEFT]
    result = subprocess.run(words, text=True, capture_output=True, check=False, timeout=60,
                            env={**os.environ, **variables})
    if result.returncode not in (0, 1) or not result.stdout:
        raise Skip(f'nothing can be mounted: {result.stderr.strip()}')
    return {check['name']: check for check in json.loads(result.stdout)['checks']}


@case
def files_of_the_system_that_are_missing_are_found():
    findings = in_mounts('mount -t tmpfs none /dev/net; mount -t tmpfs none /proc/pressure; '
                         'mount -t tmpfs none /sys/class; mkdir -p /sys/class/infiniband/siw0')
    expect_finding(findings['tap'], 'note', '/dev/net/tun', 'modprobe tun')
    expect_finding(findings['pressure'], 'note', 'WEFT_READ_PRESSURE')
    expect_finding(findings['rdma'], 'note', 'siw0')
    findings = in_mounts('true')
    expect_finding(findings['tap'], 'ok')
    expect_finding(findings['rdma'], 'ok')


# --- the network ----------------------------------------------------------------------------------


@case
def a_loopback_interface_that_is_down_is_found():
    down, up = alone('$DOCTOR; ip link set lo up; $DOCTOR')
    expect_finding(down['loopback'], 'failure', '127.0.0.1', 'ip link set lo up')
    expect_finding(up['loopback'], 'ok', '127.0.0.1')
    expect_finding(up['tcp'], 'ok')
    expect_finding(up['addresses'], 'note', 'on this host alone')


# Local addresses after our own rule, which stands for a firewall's.
RULES = '''ip link set lo up
    ip rule add pref 10 lookup local && ip rule del pref 0
    ip -6 rule add pref 10 lookup local && ip -6 rule del pref 0
    ban() { for of in -4 -6; do ip $of rule add pref 5 "$@" prohibit; done; }
    allow() { for of in -4 -6; do ip $of rule del pref 5; done; }
'''


@case
def packets_that_do_not_arrive_are_found():
    blocked, free = alone(RULES + '''
        ban ipproto udp dport 4791; $DOCTOR --wire=roce
        allow; $DOCTOR --wire=roce''')
    expect_finding(blocked['firewall'], 'failure', 'UDP port 4791', '127.0.0.1')
    expect_finding(blocked['udp'], 'ok')
    expect_finding(free['firewall'], 'ok')


@case
def connections_that_do_not_arrive_are_found():
    blocked, free = alone(RULES + 'ban ipproto tcp; $DOCTOR; allow; $DOCTOR')
    expect_finding(blocked['tcp'], 'failure', '127.0.0.1', 'firewall')
    expect_finding(free['tcp'], 'ok')


@case
def datagrams_that_do_not_arrive_are_found():
    blocked, free = alone(RULES + 'ban ipproto udp; $DOCTOR; allow; $DOCTOR')
    expect_finding(blocked['udp'], 'failure', '127.0.0.1', 'firewall')
    expect_finding(free['udp'], 'ok')


@case
def interfaces_whose_packets_are_shorter_are_named():
    mixed, alike = alone('''ip link set lo up
        for i in 1 2; do
            ip tuntap add dev port$i mode tap && ip address add 10.9.$i.1/24 dev port$i
            ip link set port$i mtu 9000 up || exit
        done
        ip link set port2 mtu 1500; $DOCTOR
        ip link set port2 mtu 9000; $DOCTOR''')
    expect_finding(mixed['mtu'], 'note', 'port1 9000', 'as port2 here', 'path MTU is 4096')
    expect_finding(alike['mtu'], 'ok', 'port2 9000')
    expect_finding(alike['addresses'], 'ok', '10.9.1.1 (port1)')


@case
def who_holds_the_port_is_named_and_another_port_cures_it():
    holder = '''import socket, subprocess, sys
held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
held.bind(('127.0.0.1', 4791))
for line in sys.stdin: subprocess.run(line, shell=True)
'''
    script = f'''ip link set lo up
        python3 -c "$0" <<-'END'
	$DOCTOR --wire=roce
	$DOCTOR
	$DOCTOR --wire=iwarp
	WEFT_ROCE_PORT=4792 $DOCTOR --wire=roce
	END
        $DOCTOR --wire=roce'''
    alone_roce, both, iwarp, cured, free = alone(script, holder)
    expect_finding(alone_roce['port'], 'failure', 'held by user', '(python3)',
                   'export WEFT_ROCE_PORT=4792')
    expect_finding(both['port'], 'warning')
    expect_finding(iwarp['port'], 'note')
    expect_finding(alone_roce['firewall'], 'ok', 'the port is in use')
    expect_finding(cured['port'], 'ok', '4792 is free')
    expect_finding(free['port'], 'ok', '4791 is free')


@case
def processes_that_share_the_port_are_no_strangers_and_go_on():
    if shutil.which('rping') is None:
        raise Skip('no program rping')
    script = f'''ip link set lo up
        {WEFT} run --wire=roce rping -s -a 127.0.0.1 -C 3 >/dev/null 2>&1 &
        until grep -q "@weft\\.$(id -u)\\." /proc/net/unix; do sleep 0.05; done
        $DOCTOR --wire=roce
        {WEFT} run --wire=roce rping -c -a 127.0.0.1 -C 3 >/dev/null 2>&1 &&
            wait $! && $DOCTOR'''
    during, after = alone(script)
    expect_finding(during['port'], 'ok', 'shared by 1 program of yours')
    expect_finding(during['processes'], 'ok', '1 program on weft')
    expect_finding(after['port'], 'ok', 'is free')


# --- weft's own -----------------------------------------------------------------------------------


@case
def settings_that_are_none_are_found():
    expect_finding(found('settings', env={'WEFT_CRC': 'perhaps'}), 'warning',
                   'WEFT_CRC=perhaps: it must be on or off', 'unset WEFT_CRC')
    expect_finding(found('settings', env={'WEFT_CCR': 'on'}), 'warning', 'no setting WEFT_CCR')
    expect_finding(found('settings', env={'WEFT_PCAP': '/nowhere/x.pcap'}), 'warning',
                   '/nowhere', 'mkdir -p')
    expect_finding(found('settings', '--crc=off', '--pcap=/tmp/x.pcap'), 'ok', 'WEFT_CRC=off')


def system_library():
    """The folder of a libibverbs.so.1 that is not weft's."""
    for path in pathlib.Path('/usr/lib').glob('*-linux-gnu/libibverbs.so.1'):
        return path.parent
    raise Skip('no other libibverbs.so.1')


@case
def libraries_that_come_before_ours_are_found():
    with scratch() as folder:
        for name in ('libibverbs.so.1', 'librdmacm.so.1'):
            shutil.copy(system_library() / name, folder)
        ours = BUILD / 'lib'
        wrong = found('loader', env={'LD_LIBRARY_PATH': f'{folder}:{ours}'})
        expect_finding(wrong, 'warning', folder, 'eval "$(weft env)"')
        cured = subprocess.run(
            ['sh', '-c', 'eval "$("$0" env)"; "$0" doctor --json', WEFT], text=True, timeout=60,
            capture_output=True, check=False,
            env={'PATH': os.environ['PATH'], 'LD_LIBRARY_PATH': f'{folder}:{ours}'})
        loader, = [check for check in json.loads(cured.stdout)['checks']
                   if check['name'] == 'loader']
        expect_finding(loader, 'ok', str(ours.resolve()))


@case
def another_weft_that_comes_first_is_found():
    with scratch() as folder:
        for name in ('libibverbs.so.1', 'librdmacm.so.1', 'libweft.so.1'):
            shutil.copy(BUILD / 'lib' / name, folder)
        expect_finding(found('loader', env={'LD_LIBRARY_PATH': folder}), 'warning', folder,
                       'another weft')


@case
def a_preloaded_library_before_sockets_is_found():
    for preload, result in (('librspreload.so', 'warning'), ('libm.so.6', 'ok'), ('', 'ok')):
        with scratch() as folder:
            if preload.startswith('librs'):
                preload = compiled(folder, preload, 'int rs;', '-shared')
            expect_finding(found('preload', env={'LD_PRELOAD': str(preload)}), result)


@case
def an_interface_that_the_link_wants_and_this_user_may_not_have_is_found():
    if os.geteuid() != 0 or os.stat('/dev/net/tun').st_mode & 0o6 != 0o6:
        raise Skip('only root can make an interface for another user, if that may open it')
    strange, own, free, tun, none = alone(f'''ip link set lo up; mount -t sysfs none /sys
        as_nobody() {{ setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "$@"; }}
        ip tuntap add dev other mode tap user 1 && ip tuntap add dev own mode tap user {NOBODY}
        as_nobody $DOCTOR --link=tap:other,10.9.9.2/24
        as_nobody $DOCTOR --link=tap:own,10.9.9.2/24
        as_nobody $DOCTOR --link=tap:free,10.9.9.2/24
        as_nobody $DOCTOR --link=tun:free,10.9.9.2/24
        $DOCTOR --link=tap:free,10.9.9.2/24''', has_mounts=True)
    expect_finding(strange['tap'], 'failure', 'other', 'may not open')
    expect_finding(own['tap'], 'ok', 'own is there')
    expect_finding(free['tap'], 'failure', 'may not make', 'ip tuntap add dev free')
    expect_finding(tun['tap'], 'failure', 'dev free mode tun')
    expect_finding(none['tap'], 'ok')
    expect_finding(found('tap', '--link=tun:lo,10.9.9.2/24'), 'failure', 'no tap or tun interface')


@case
def a_runtime_folder_that_cannot_be_used_is_found():
    with scratch() as folder:
        place = pathlib.Path(folder) / 'run'
        expect_finding(found('folder', env={'WEFT_RUNTIME_DIR': place}), 'ok', 'made when')
        expect_finding(found('folder', env={'WEFT_RUNTIME_DIR': place / 'deep'}), 'warning',
                       'does not exist', 'WEFT_RUNTIME_DIR')
        place.mkdir()
        place.chmod(0o777)
        expect_finding(found('folder', env={'WEFT_RUNTIME_DIR': place}), 'warning',
                       'others may not write')
        place.chmod(0o700)
        expect_finding(found('folder', env={'WEFT_RUNTIME_DIR': place}), 'ok', str(place))


@case
def a_runtime_folder_of_somebody_else_is_found():
    if os.geteuid() != 0:
        raise Skip('only root can be somebody else')
    with scratch() as folder:
        pathlib.Path(folder).chmod(0o700)
        finding = found('folder', env={'XDG_RUNTIME_DIR': folder}, user=NOBODY, group=NOBODY,
                        extra_groups=[])
        expect_finding(finding, 'warning', 'Permission denied')


@case
def files_of_processes_that_are_gone_are_found():
    with scratch() as folder:
        gone = subprocess.Popen(['true'])
        gone.wait()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(f'{folder}/node.{gone.pid}')
            left.listen()
            expect_finding(found('leftovers', env={'WEFT_RUNTIME_DIR': folder}), 'ok')
        finding = found('leftovers', env={'WEFT_RUNTIME_DIR': folder})
        expect_finding(finding, 'note', f'rm -r {folder}/node.{gone.pid}')
        subprocess.run(finding['do'], shell=True, check=True)
        expect_finding(found('leftovers', env={'WEFT_RUNTIME_DIR': folder}), 'ok')


@case
def libraries_that_are_missing_are_found():
    with scratch() as folder:
        lonely = executable(folder, 'weft', WEFT.read_bytes())
        environment = {**os.environ, 'LD_LIBRARY_PATH': str(BUILD / 'lib')}
        for made in ((), ('libweft.so.1',)):
            os.makedirs(f'{folder}/lib', exist_ok=True)
            for name in made:
                pathlib.Path(folder, 'lib', name).touch()
            result = subprocess.run([lonely, 'doctor', '--json'], text=True, timeout=60,
                                    capture_output=True, check=False, env=environment)
            libraries, = [check for check in json.loads(result.stdout)['checks']
                          if check['name'] == 'libraries']
            expect_finding(libraries, 'failure', 'libibverbs.so.1' if made else 'libweft.so.1')
    expect_finding(found('libraries'), 'ok', str((BUILD / 'lib').resolve()))


@case
def trees_of_devices_that_nobody_has_locked_are_found():
    with scratch() as folder:
        gone = subprocess.Popen(['true'])
        gone.wait()
        os.mkdir(f'{folder}/view.{gone.pid}')
        os.mkdir(f'{folder}/view.{gone.pid}x')  # somebody else's
        held = os.open(f'{folder}/view.{gone.pid}', os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_SH)  # as a child of a fork has it
        expect_finding(found('leftovers', env={'WEFT_RUNTIME_DIR': folder}), 'ok')
        os.close(held)
        finding = found('leftovers', env={'WEFT_RUNTIME_DIR': folder})
        expect_finding(finding, 'note', '1 file of', f'rm -r {folder}/view.{gone.pid}')


@case
def a_runtime_folder_without_space_is_found():
    with scratch() as folder:
        os.mkdir(f'{folder}/run', 0o700)
        for size, result in (('64k', 'warning'), ('8m', 'ok')):
            findings = in_mounts(f'mount -t tmpfs -o mode=700,size={size} none {folder}/run',
                                 WEFT_RUNTIME_DIR=f'{folder}/run')
            expect_finding(findings['folder'], result, *(['no space'] if result != 'ok' else []))


# --- a program ------------------------------------------------------------------------------------

PLAIN = 'int main(void) { return 0; }'


@case
def a_program_that_runs_on_weft_has_nothing_in_its_way():
    if shutil.which('rping') is None:
        raise Skip('no program rping')
    _, findings = doctor('rping')
    expect_finding(findings['verbs'], 'ok', 'and weft has them')
    for name in ('program', 'rights', 'machine', 'linking', 'device'):
        expect_finding(findings[name], 'ok')


@case
def the_program_is_not_run():
    with scratch() as folder:
        script = executable(folder, 'script', f'#!/bin/sh\necho > {folder}/ran\n')
        doctor(script)
        source = f'int creat(const char *, int);int main(void) {{ creat("{folder}/ran", 0600); }}'
        doctor(compiled(folder, 'program', source), 'an', '--argument')
        assert not os.path.exists(f'{folder}/ran')


@case
def a_program_that_is_not_there_is_a_failure():
    status, findings = doctor('/nowhere/program')
    expect_finding(findings['program'], 'failure', 'does not exist')
    assert status == 1


@case
def a_script_is_followed_to_its_interpreter():
    with scratch() as folder:
        python = os.path.realpath(sys.executable)
        for first in (f'#!{python}', '#! /usr/bin/env -S A=1 python3 -u'):
            finding = found('program', executable(folder, 'script', f'{first}\n'))
            expect_finding(finding, 'note', 'a script of', 'python3', 'is not')
        finding = found('program', executable(folder, 'script', '#!/nowhere/python\n'))
        expect_finding(finding, 'failure', 'a script of /nowhere/python', 'does not exist')


@case
def a_script_that_keeps_the_environment_from_others_is_told():
    with scratch() as folder:
        for line, result in (('sudo ./server', 'warning'), ('x=$(sudo id)', 'warning'),
                             ('# sudo ./server', 'note'), ('echo pseudo sudoku', 'note')):
            script = executable(folder, 'script', f'#!/bin/sh\n{line}\n')
            finding = found('program', script)
            expect_finding(finding, result)
            assert result == 'note' or finding['do'] == f'sudo weft run {script}', finding


@case
def a_cure_can_be_typed_whatever_the_file_is_called():
    with scratch() as folder:
        for name in ('script', "it's; touch x `touch y` $HOME"):
            script = executable(folder, name, '#!/bin/sh\r\necho\r\n')
            finding = found('program', script)
            expect_finding(finding, 'failure', 'a script of /bin/sh', 'sed -i')
            subprocess.run(finding['do'], shell=True, check=True, cwd=folder,
                           env={'HOME': folder, 'PATH': os.environ['PATH']})
            expect_finding(found('program', script), 'note')
        assert len(os.listdir(folder)) == 2, os.listdir(folder)


@case
def a_program_with_rights_of_its_own_is_found():
    if os.geteuid() != 0:
        raise Skip('only root can give a file to another user')
    with scratch() as folder:
        program = executable(folder, 'program', pathlib.Path('/bin/true').read_bytes())
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
        expect_finding(found('rights', program), 'failure', 'set-user-ID', f'cp {program}')
        program.chmod(0o755)
        expect_finding(found('rights', program), 'ok')
        nobody = {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}
        os.setxattr(program, 'security.capability', struct.pack('<5I', 0x2000001, 1 << 10, 0, 0, 0))
        expect_finding(found('rights', program, **nobody), 'failure', 'file capabilities')
        os.removexattr(program, 'security.capability')
        expect_finding(found('rights', program, **nobody), 'ok')


@case
def how_a_program_is_linked_is_told():
    with scratch() as folder:
        static = compiled(folder, 'static', PLAIN, '-static')
        expect_finding(found('linking', static), 'failure', 'statically linked')
        musl = compiled(folder, 'musl', PLAIN, '-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1')
        expect_finding(found('linking', musl), 'failure', 'musl')
        lost = compiled(folder, 'lost', PLAIN, '-Wl,--dynamic-linker=/nowhere/ld.so')
        expect_finding(found('linking', lost), 'failure', '/nowhere/ld.so', 'loader is not here')
        expect_finding(found('linking', compiled(folder, 'fine', PLAIN)), 'ok')


@case
def a_program_of_another_processor_is_told():
    with scratch() as folder:
        content = bytearray(pathlib.Path('/bin/true').read_bytes())
        content[18:20] = (183).to_bytes(2, 'little')  # e_machine
        program = executable(folder, 'program', bytes(content))
        expect_finding(found('machine', program), 'failure', '64 bits of ARM')


@case
def functions_that_weft_does_not_have_are_named():
    with scratch() as folder:
        stub = compiled(folder, 'libibverbs.so.1', 'int ibv_from_the_future(void) { return 0; }',
                        '-shared', '-Wl,-soname,libibverbs.so.1',
                        f'-Wl,--version-script={executable(folder, "map", "IBVERBS_9.9 { *; };")}')
        program = compiled(folder, 'program',
                           'int ibv_from_the_future(void);\n'
                           'int main(void) { return ibv_from_the_future(); }', stub)
        expect_finding(found('verbs', program), 'failure', 'ibv_from_the_future@IBVERBS_9.9')


@case
def verbs_that_come_later_or_from_within_are_told():
    with scratch() as folder:
        for text, result, said in (('libibverbs.so.1', 'ok', 'gets weft\'s'),
                                   ('libibverbs.so', 'warning', 'without a number'),
                                   ('/dev/infiniband/uverbs%d', 'failure', 'a copy of libibverbs'),
                                   ('something else', 'note', 'neither it nor its libraries')):
            source = f'const char text[] = "{text}";\n{PLAIN}'
            expect_finding(found('verbs', compiled(folder, 'program', source)), result, said)


@case
def the_device_that_suits_a_program_is_told():
    with scratch() as folder:
        looks = compiled(folder, 'looks', f'const char text[] = "/sys/class/infiniband/";{PLAIN}')
        finding = found('device', looks)
        expect_finding(finding, 'note', 'weft0 (iWARP)', f'weft run --wire=roce {looks}')
        expect_finding(found('device', '--wire=iwarp', looks), 'warning')
        expect_finding(found('device', '--wire=roce', looks), 'ok', 'weft_roce0 (RoCEv2)')


@case
def what_weft_refuses_is_told():
    source = ('void ibv_free_device_list(void *);\n'
              'int main(void) { ibv_free_device_list(0); return 0; }')
    library = BUILD / 'lib/libibverbs.so.1'
    with scratch() as folder:
        for name, said, cure in (('raw_ethernet_bw', 'raw packet', 'weft run ib_send_bw'),
                                 ('ibv_xsrq_pingpong', 'XRC', 'weft run --wire=roce ibv_srq')):
            finding = found('refused', compiled(folder, name, source, library))
            expect_finding(finding, 'failure', said, cure)
        finding = found('refused', compiled(folder, 'program', source, library))
        expect_finding(finding, 'ok', 'XRC and raw packet queue pairs', 'no file shows')
        expect_finding(found('refused', compiled(folder, 'plain', PLAIN)), 'ok', 'nothing')


@case
def damaged_files_are_no_crash_of_ours():
    content = pathlib.Path('/bin/true').read_bytes()
    with scratch() as folder:
        for length in (4, 20, 63, 64, 700, len(content) // 2, len(content) - 100):
            status, findings = doctor(executable(folder, 'program', content[:length]))
            signals = [check for check in findings.values() if 'signal' in (check['why'] or '')]
            assert status in (0, 1) and signals == [], findings


main()
