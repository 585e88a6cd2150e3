#!/usr/bin/env python3
"""NVMe discovery announced by mDNS, judged by Debian's Avahi: in network and mount namespaces of
our own, with a bus and a daemon of our own."""

import contextlib
import os
import pathlib
import re
import shutil
import sys

from serving import (Node, Skip, case, folder, main, need, run, subprocess, until,
                     weft)

WITHIN = 'WEFT_TEST_MDNS_WITHIN'
PATH = os.environ['PATH'] + ':/usr/sbin:/sbin'
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>custom</type><listen>unix:path={}/bus</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy></busconfig>
"""
DAEMON = '[server]\nuse-ipv6=no\nallow-interfaces=lo\n[publish]\npublish-hinfo=no\n'


def module_is_built():
    return pathlib.Path(os.environ['WEFT_BUILD_DIR'], 'lib/weft-mdns.so').exists()


@contextlib.contextmanager
def process(*words, **options):
    running = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@contextlib.contextmanager
def bus():
    """A system bus of our own, and the environment that leads there."""
    if not os.environ.get(WITHIN):
        raise Skip('namespaces of its own need root, unshare and ip')
    if not module_is_built():
        raise Skip('built without libavahi-client-dev')
    need('dbus-daemon', 'avahi-browse')
    if not shutil.which('avahi-daemon', path=PATH):
        raise Skip('no avahi-daemon')
    with folder() as place:
        (place / 'bus.conf').write_text(BUS.format(place))
        (place / 'avahi.conf').write_text(DAEMON)
        with process('dbus-daemon', f'--config-file={place}/bus.conf', '--nofork'):
            until((place / 'bus').exists)
            yield place, {**os.environ, 'PATH': PATH,
                          'DBUS_SYSTEM_BUS_ADDRESS': f'unix:path={place}/bus'}


@contextlib.contextmanager
def avahi(place, env):
    with process('avahi-daemon', '-f', place / 'avahi.conf', '--no-drop-root', '--no-chroot',
                 '--no-rlimits', env=env) as daemon:
        yield daemon


def services(env):
    """What is announced: name, port and facts."""
    said = run('env', f'DBUS_SYSTEM_BUS_ADDRESS={env["DBUS_SYSTEM_BUS_ADDRESS"]}', 'avahi-browse',
               '--parsable', '--resolve', '--terminate', '_nvme-disc._tcp')
    return [(fields[3], int(fields[8]), set(re.findall('"([^"]*)"', fields[9])))
            for fields in (line.split(';') for line in said.splitlines()) if fields[0] == '=']


def node(env, *words):
    return Node('--nvme-tcp=10.77.9.1:4437', '--mdns', 'ram:1M', *words, env=env)


FACTS = {'p=tcp', 'nqn=nqn.2014-08.org.nvmexpress.discovery'}


@case
def others_find_the_discovery_service():
    with bus() as (place, env), avahi(place, env), node(env) as one:
        until(lambda: one.status()['mdns']['announced'])
        (name, port, facts), = until(lambda: services(env))
        assert (port, facts) == (4437, FACTS), (port, facts)
        assert name.startswith('weft\\032') and 'is announced by mDNS as "weft ' in one.said()
        assert 'mDNS: announced as "weft ' in weft('status', one.process.pid).stdout
        one.process.terminate()
        one.process.wait(20)
        until(lambda: not services(env))


@case
def two_nodes_have_two_names():
    with bus() as (place, env), avahi(place, env), node(env) as one, \
            Node('--nvme-tcp=10.77.9.1:4438', '--mdns', 'ram:1M', env=env) as two:
        names = {until(lambda n=n: n.status()['mdns'].get('name')) for n in (one, two)}
        assert len(names) == 2, names
        assert until(lambda: len(services(env)) == 2)


@case
def a_daemon_that_comes_later_is_told():
    with bus() as (place, env), node(env) as one:
        until(lambda: 'not announced by mDNS: Daemon not running' in one.said())
        with avahi(place, env):
            until(lambda: one.status()['mdns']['announced'])
        until(lambda: not one.status()['mdns']['announced'])
        with avahi(place, env):
            until(lambda: one.status()['mdns']['announced'], limit=40)


@case
def a_node_without_a_bus_says_so_and_serves():
    with folder() as place:
        env = {**os.environ, 'DBUS_SYSTEM_BUS_ADDRESS': f'unix:path={place}/none'}
        with Node('--nvme-tcp=127.0.0.1:0', '--mdns', 'ram:1M', env=env) as one:
            until(lambda: 'NVMe discovery is not announced by mDNS: ' in one.said())
            assert not one.status()['mdns']['announced']
            assert 'mDNS: not announced: ' in weft('status', one.process.pid).stdout


@case
def it_announces_nothing_that_is_not_there():
    result = weft('serve', '--nbd=127.0.0.1:0', '--mdns', 'ram:1M')
    assert result.returncode == 2 and 'give --nvme-tcp=ADDRESS' in result.stderr, result.stderr


def enter():
    """The same once more, within namespaces with a loopback interface, where that is possible."""
    if os.environ.get(WITHIN) or os.geteuid() != 0 or not shutil.which('unshare'):
        return
    prepare = ('mount -t tmpfs none /run && ip link set lo up multicast on && '
               'ip addr add 10.77.9.1/24 dev lo')
    can = subprocess.run(['unshare', '--mount', '--net', 'sh', '-c', prepare], check=False,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if can.returncode == 0:
        os.environ[WITHIN] = 'yes'
        os.execvp('unshare', ['unshare', '--mount', '--net', 'sh', '-c',
                              prepare + ' && exec "$0" "$@"', sys.executable, *sys.argv])


enter()
main()
