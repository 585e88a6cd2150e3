#!/usr/bin/env python3
"""weft draw --live: pictures of captures that grow, of a file, a pipe and a process, until nobody
writes them any more; and --tail, the last events."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from cases import BUILD, SOURCE, WEFT, Skip, case, expect, expect_error, main, scratch, weft
from drawn import draw, enter_namespace, rping

sys.path.insert(0, str(SOURCE / 'tests/http'))
from browser import Browser  # noqa: E402

LIMIT_S = 60
CAPTURE = SOURCE / 'tests/fuzz/corpus/draw/rping-weft'  # little-endian pcap, its end is cut
HEAD_LEN, RECORD_LEN = 24, 16
# Meson has malloc write into what it gives: then all of a table is there of which little is used.
PLAIN_MALLOC = {**os.environ, 'MALLOC_PERTURB_': '0'}


def pieces():
    """The capture's header, and each whole packet with what stands before it."""
    octets, at = CAPTURE.read_bytes(), HEAD_LEN
    yield octets[:at]
    while at < len(octets):
        end = at + RECORD_LEN + int.from_bytes(octets[at + 8:at + 12], 'little')
        if end <= len(octets):
            yield octets[at:end]
        at = end


def halves():
    every = list(pieces())
    middle = len(every) // 2
    return b''.join(every[:middle]), b''.join(every[middle:])


def await_that(what, is_so):
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, f'not within {LIMIT_S} s: {what}'
        time.sleep(0.02)


def arrows(path):
    return path.read_text().count('data-packet=') if path.exists() else 0


@contextlib.contextmanager
def live(*words, stdin=subprocess.DEVNULL):
    process = subprocess.Popen([WEFT, 'draw', '--live', *map(str, words)], stdin=stdin, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN_MALLOC)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process, status=0, *said):
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == status, f'status {process.returncode}: {stderr}'
    assert stdout == '', stdout
    for words in said:
        assert words in stderr, stderr


def plain(path, *words):
    """What is drawn of the whole capture when it grows no more."""
    return weft('draw', path, '--tail', '--title=x', *words).stdout


def peak_of(process):
    """The most memory that it ever had, in MiB."""
    status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    return int(re.search(r'VmHWM:\s*(\d+) kB', status)[1]) / 1024


@case
def a_picture_grows_with_its_capture_and_ends_with_it():
    first, second = halves()
    with scratch() as folder:
        path, picture = pathlib.Path(folder, 'life.pcap'), pathlib.Path(folder, 'life.svg')
        with path.open('wb', buffering=0) as file:
            file.write(first)
            with live(path, '-o', picture, '--title=x') as process:
                await_that('a picture of the first half', lambda: arrows(picture) > 3)
                before = picture.read_text()
                assert before == plain(path), 'the first half is another picture'
                file.write(second)
                await_that('a picture of more', lambda: picture.read_text() != before)
                assert process.poll() is None and peak_of(process) < 32, peak_of(process)
                file.close()
                ended(process)
        assert picture.read_text() == plain(path) and arrows(picture) > 10
        assert sorted(os.listdir(folder)) == ['life.pcap', 'life.svg'], os.listdir(folder)


@case
def a_program_that_runs_is_seen_from_before_its_capture_is_there():
    with scratch() as folder:
        path, picture = pathlib.Path(folder, 'own.pcapng'), pathlib.Path(folder, 'own.svg')
        with live(path, '-o', picture, '--title=x') as process:
            assert f'waiting for {path}' in process.stderr.readline()
            rping(3000, client={'WEFT_PCAP': str(path)})
            ended(process)
        assert picture.read_text() == plain(path)
        assert '>post Send' in picture.read_text() and '>FIN<' in picture.read_text()


@case
def of_a_process_it_is_the_capture_that_it_writes():
    first, second = halves()
    with scratch() as folder:
        path, picture = pathlib.Path(folder, 'of it.pcap'), pathlib.Path(folder, 'of it.svg')
        other = pathlib.Path(folder, 'text')
        with other.open('wb', buffering=0) as text, path.open('wb', buffering=0) as file:
            text.write(b'no capture, though it is longer than one' * 1000)
            file.write(first)
            with live(os.getpid(), '-o', picture) as process:
                await_that('a picture', lambda: arrows(picture) > 3)
                file.write(second)
                file.close()
                ended(process)
        assert 'of it.pcap, connection 1' in picture.read_text()


@case
def a_process_without_a_capture_is_told_how_to_have_one():
    with scratch() as folder:
        for pid in (os.getpid(), 1 << 22):
            expect_error(weft('draw', '--live', pid, '-o', 'x.svg', cwd=folder), 1, 'no capture',
                         str(pid), 'weft run --pcap=')


@case
def a_pipe_is_drawn_as_it_comes():
    first, second = halves()
    with scratch() as folder:
        picture = pathlib.Path(folder, 'pipe.svg')
        whole = pathlib.Path(folder, 'whole.pcap')
        whole.write_bytes(first + second)
        with live('-', '-o', picture, '--title=x', stdin=subprocess.PIPE) as process:
            pipe = process.stdin.buffer
            pipe.write(first)
            pipe.flush()
            await_that('a picture', lambda: arrows(picture) > 3)
            pipe.write(second)
            pipe.close()
            process.stdin = None
            ended(process)
        assert picture.read_text() == plain(whole)


@case
def a_signal_ends_it_with_a_picture_of_what_is_there():
    first, second = halves()
    with scratch() as folder:
        path, picture = pathlib.Path(folder, 'life.pcap'), pathlib.Path(folder, 'life.svg')
        with path.open('wb', buffering=0) as file, live(path, '-o', picture) as process:
            file.write(first)
            await_that('a picture', lambda: arrows(picture) > 3)
            file.write(second[:-5])  # the last packet has not all come: no fault
            process.send_signal(signal.SIGINT)
            ended(process)
        assert arrows(picture) > 10


@case
def what_is_no_capture_ends_it():
    with scratch() as folder:
        path, picture = pathlib.Path(folder, 'life.pcap'), pathlib.Path(folder, 'life.svg')
        with path.open('wb', buffering=0) as file, live(path, '-o', picture) as process:
            file.write(b'nothing of the kind')
            ended(process, 1, 'not a capture', str(path))
        assert not picture.exists()


@case
def a_broken_packet_ends_it_with_what_came_before():
    first, second = halves()
    with scratch() as folder:
        path, picture = pathlib.Path(folder, 'life.pcap'), pathlib.Path(folder, 'life.html')
        with path.open('wb', buffering=0) as file, live(path, '-o', picture) as process:
            file.write(first + b'\xff' * RECORD_LEN)
            ended(process, 1, 'capture broken', 'packet ')
        assert arrows(picture) > 3 and 'id="hold"' not in picture.read_text()


def ask(page, script):
    """What the page says, which may have gone to come anew while it was asked."""
    while True:
        try:
            return page.value(script)
        except AssertionError as fault:
            if 'navigated' not in str(fault) and 'context' not in str(fault):
                raise
            time.sleep(0.05)


def hold(page, is_held):
    """A page that was about to come anew when it was told has to be told again."""
    word = 'true' if is_held else 'false'
    pressed = f"document.getElementById('hold')?.getAttribute('aria-pressed') === '{word}'"
    while not ask(page, pressed):
        ask(page, "document.getElementById('hold')?.click()")
        time.sleep(0.5)


@case
def the_page_comes_anew_unless_it_is_held():
    if not shutil.which('chromium'):
        raise Skip('no chromium')
    first, second = halves()
    shown = "document.querySelectorAll('#events .e').length"
    with scratch() as folder, Browser() as browser:
        path, picture = pathlib.Path(folder, 'life.pcap'), pathlib.Path(folder, 'life.html')
        with path.open('wb', buffering=0) as file, live(path, '-o', picture) as process:
            file.write(first)
            await_that('a page', lambda: arrows(picture) > 3)
            page = browser.page(f'file://{picture}', 1280, 800)
            hold(page, True)
            count = ask(page, shown)
            file.write(second)
            await_that('a longer page', lambda: arrows(picture) > count)
            time.sleep(1.5)  # it would have come anew
            assert ask(page, shown) == count
            page.picture(BUILD / 'pages/draw-live.png')
            hold(page, False)
            await_that('the longer page', lambda: ask(page, shown) > count)
            file.close()
            ended(process)
        await_that('the last page', lambda: ask(page, "!document.getElementById('hold')"))
        assert not page.complaints(), page.complaints()


@case
def the_tail_is_the_last_events():
    whole = draw(CAPTURE, status=1)[1]
    for count in (1, 7, len(whole), 20000):
        last = draw(CAPTURE, '--tail', f'--max-events={count}', status=1)[1]
        assert [one.title for one in last] == [one.title for one in whole][-count:], count
        assert [one.desc for one in last] == [one.desc for one in whole][-count:], count
    few = weft('draw', CAPTURE, '--tail', '--max-events=7')
    assert f'Left out before: {len(whole) - 7} events (--tail)' in few.stdout
    middle = draw(CAPTURE, '--tail', '--max-events=2', f'--to=#{whole[9].packet}', status=1)[1]
    assert [one.title for one in middle] == [one.title for one in whole][8:10], middle


@case
def a_wrong_command_line_is_explained():
    for words in ((), ('--list',), ('-o', 'x.svg', '--json')):
        expect(weft('draw', '--live', CAPTURE, *words), 2, '', '-o FILE.html, no --list')


enter_namespace()
main()
