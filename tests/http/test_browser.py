#!/usr/bin/env python3
"""The page in Debian's Chromium, at 1280 x 800 and 390 x 844: its structure, what a screen reader
is told of it, keys, colours, strangers' words. Pictures are left in the build's folder `pages`."""

import contextlib
import os
import shutil
import signal
import threading

from browser import Browser
from doors import (ANSWER, BUILD, READ, WRITE, Client, case, encoded, main, process, serving,
                   skip_all, watching)

SIZES = {'wide': (1280, 800), 'narrow': (390, 844)}
SHOWN = "document.querySelectorAll('main section:not([hidden]) tbody tr').length > 0"
MARKUP = '<img src=x onerror="document.title=1"><b>name</b>'


@contextlib.contextmanager
def work(node):
    """A client that reads and writes until it is told to stop."""
    is_over = threading.Event()

    def run():
        with Client(node).go() as client:
            while not is_over.wait(0.002):
                for command, data in ((READ, b''), (WRITE, bytes(4096))):
                    client.request(command, 0, 4096, data=data)
                    assert client.answer(4096 if command == READ else 0)[0] == 0
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def shown(page):
    page.until(SHOWN)
    return page


def cells(page, table, row=0):
    return page.value(f"[...document.querySelectorAll('#{table} tbody tr')[{row}].cells]"
                      '.map(cell => cell.textContent)')


@case
def a_node_is_shown_live_at_both_sizes():
    with serving('data=ram:64M', 'scratch=null:1G') as (node, address), work(node):
        os.kill(node.rtas()[1], signal.SIGKILL)  # an event
        for name, size in SIZES.items():
            page = shown(browser.page(address, *size))
            page.until("!/–/.test(document.querySelector('#volumes tbody tr').textContent)")
            page.until("/L/.test(document.querySelectorAll('.line.first')[1].getAttribute('d'))")
            sections = page.value("[...document.querySelectorAll('main section:not([hidden])')]"
                                  '.map(section => section.id)')
            assert sections == ['graphs', 'processes', 'volumes', 'rtas', 'clients', 'latencies',
                                'events'], sections
            volume = cells(page, 'volumes')
            assert volume[:5] == ['data', 'ready', 'ram', '64.0 MiB', '1'], volume
            assert float(volume[5].split()[0].rstrip('/s')) > 0 and volume[8] == '0', volume
            assert page.value("/RTA scratch/.test(document.querySelector('#events').textContent)")
            page.value('scrollTo(0, 0)')
            page.picture(BUILD / f'pages/serve-{name}.png')
            assert not page.complaints(), page.complaints()


@case
def nothing_is_wider_than_the_page_and_nothing_comes_from_elsewhere():
    with serving('ram:1M') as (_, address):
        for size in SIZES.values():
            page = shown(browser.page(address, *size))
            width = page.value('document.documentElement.scrollWidth')
            assert width <= size[0], f'{width} of {size[0]}'
            assert page.asked_for() and all(url.startswith(address) for url in page.asked_for())
            small = page.value("[...document.querySelectorAll('header button, header input')]"
                               '.filter(it => it.getBoundingClientRect().height < 24).length')
            assert small == 0, f'{small} too small for a finger'


@case
def a_screen_reader_is_told_of_landmarks_captions_and_heads():
    with serving('ram:1M') as (_, address):
        page = shown(browser.page(address, *SIZES['wide']))
        roles = page.roles()
        kinds = [role for role, _ in roles]
        for landmark in ('banner', 'navigation', 'main', 'contentinfo', 'status'):
            assert landmark in kinds, f'no {landmark}'
        headings = page.value("[...document.querySelectorAll('h1, h2')].filter(it => "
                              'it.checkVisibility()).map(it => it.tagName)')
        assert headings.count('H1') == 1 and headings[0] == 'H1', headings
        assert sum(role == 'table' for role in kinds) == 3, kinds
        unnamed = [role for role, name in roles
                   if role in ('table', 'region', 'button', 'link', 'searchbox', 'image', 'img')
                   and not name]
        assert not unnamed, unnamed
        bare = page.value("[...document.querySelectorAll('main section:not([hidden]) table')]"
                          ".filter(it => !it.caption.textContent || [...it.tHead.rows[0].cells]"
                          ".some(head => head.scope !== 'col')).length")
        assert bare == 0, f'{bare} tables without caption or heads'


@case
def a_screen_reader_is_not_told_of_each_look():
    with serving('ram:1M') as (_, address):
        page = shown(browser.page(address, *SIZES['wide']))
        changed = page.value("""new Promise(done => {
            let live = 0, all = 0;
            const watch = (place, hear) => new MutationObserver(hear).observe(
                place, {subtree: true, childList: true, characterData: true, attributes: true});
            for (const place of document.querySelectorAll('[aria-live], [role=status], [role=log]'))
                watch(place, () => live++);
            watch(document.querySelector('#graphs'), () => all++);
            setTimeout(() => done([live, all]), 3200);
        })""")
        assert changed[0] == 0 and changed[1] >= 2, changed


@case
def keys_open_a_row_and_come_back_to_it():
    with serving('ram:1M') as (_, address):
        page = shown(browser.page(address, *SIZES['narrow']))
        for _ in range(60):
            page.press('Tab')
            if page.value("document.activeElement.matches('#volumes tbody th button')"):
                break
        outline = page.value('getComputedStyle(document.activeElement).outlineStyle')
        assert outline == 'solid', f'the focus is not seen: {outline}'
        page.press('Enter')
        page.until("document.querySelector('#details').open")
        told = page.value("document.querySelector('#details').textContent")
        assert 'volume ram' in told and 'block size512' in told, told
        page.picture(BUILD / 'pages/details-narrow.png')
        page.press('Escape')
        page.until("!document.querySelector('#details').open")
        assert page.value("document.activeElement.matches('#volumes tbody th button')")


@case
def rows_are_sorted_and_filtered():
    with serving('a=ram:1M', 'c=ram:3M', 'b=ram:2M') as (_, address):
        page = shown(browser.page(address, *SIZES['wide']))
        names = ("[...document.querySelectorAll('#volumes tbody th')]"
                 ".map(it => it.textContent).join('')")
        assert page.value(names) == 'acb'
        page.value("document.querySelectorAll('#volumes thead button')[3].click()")
        assert page.value(names) == 'cba'
        assert page.value("document.querySelector('#volumes [aria-sort]').textContent") == 'size'
        page.value("document.querySelector('#filter').value = '2.00 mib'; "
                   "document.querySelector('#filter').dispatchEvent(new Event('input'))")
        assert page.value(names) == 'b'


def contrasts(page):
    """The least of a text's colour and the grounds that it stands on (WCAG 2, 1.4.3)."""
    return page.value("""(() => {
        const style = getComputedStyle(document.documentElement);
        const light = name => {
            const hex = style.getPropertyValue(name).trim().slice(1);
            const wide = hex.length === 3 ? [...hex].map(c => c + c).join('') : hex;
            const [r, g, b] = [0, 2, 4].map(at => parseInt(wide.slice(at, at + 2), 16) / 255).map(
                c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const names = ['--text', '--faint', '--accent', '--first', '--second', '--bad'];
        return names.map(name => Math.min(
            ...['--ground', '--panel'].map(ground => {
                const pair = [light(name), light(ground)].sort((a, b) => b - a);
                return (pair[0] + 0.05) / (pair[1] + 0.05);
            })));
    })()""")


@case
def light_and_dark_can_both_be_read():
    grounds = []
    with serving('ram:1M') as (_, address):
        for scheme in ('light', 'dark'):
            page = shown(browser.page(address, *SIZES['wide'], prefers_color_scheme=scheme))
            grounds.append(page.value('getComputedStyle(document.documentElement).backgroundColor'))
            assert min(contrasts(page)) >= 4.5, (scheme, contrasts(page))
            page.picture(BUILD / f'pages/serve-{scheme}.png')
            page = shown(browser.page(address, *SIZES['narrow'], prefers_color_scheme=scheme))
            page.picture(BUILD / f'pages/serve-{scheme}-narrow.png')
    assert grounds[0] == 'rgb(255, 255, 255)' != grounds[1], grounds


@case
def less_motion_is_fewer_looks():
    with serving('ram:1M') as (_, address):
        page = shown(browser.page(address, *SIZES['wide'], prefers_reduced_motion='reduce'))
        looks = page.value("""new Promise(done => setTimeout(() => done(
            performance.getEntriesByType('resource').filter(
                it => it.name.endsWith('status.json')).length), 2500))""")
        assert looks == 1, looks
        assert page.value('getComputedStyle(document.documentElement).scrollBehavior') == 'auto'


@case
def programs_devices_and_connections_are_shown():
    answer = {**ANSWER, 'connections': [{'state': 'open', 'peer': '192.0.2.7:9', 'qp_num': 77}]}
    with process(encoded(answer)), watching(os.getpid()) as (_, address):
        for name, size in SIZES.items():
            page = shown(browser.page(address, *size))
            device, connection = cells(page, 'devices'), cells(page, 'connections')
            assert device[:2] == ['weft0', ANSWER['program']] and device[3] == '1', device
            assert connection[:4] == ['weft0 77', str(os.getpid()), 'RTS',
                                      '192.0.2.7:9'], connection
            latency = cells(page, 'latencies')
            assert latency[1:3] == ['send', '2'] and latency[7] == '2.00 µs', latency
            assert page.value("document.querySelectorAll('#latencies rect.bar').length") == 2
            page.picture(BUILD / f'pages/watch-{name}.png')
            assert not page.complaints(), page.complaints()


@case
def words_of_strangers_stay_words():
    hostile = {**ANSWER, 'program': MARKUP, 'weft0': {**ANSWER['weft0'], MARKUP: MARKUP,
                                                      'latency': {MARKUP: {'buckets': 7}}},
               'qps': [{'qp_num': MARKUP, 'state': MARKUP, 'counters': [MARKUP]}, 7, None],
               'connections': {MARKUP: 1}}
    with contextlib.ExitStack() as processes:
        processes.enter_context(process(encoded(hostile)))
        processes.enter_context(process(b'nonsense', pid=os.getpid() + 1))
        _, address = processes.enter_context(watching(os.getpid(), os.getpid() + 1))
        page = shown(browser.page(address, *SIZES['wide']))
        assert MARKUP in cells(page, 'processes')[0], cells(page, 'processes')
        states = [cells(page, 'processes', row)[2] for row in range(2)]
        assert sorted(states) == ['nonsense', 'ok'], states
        page.value("document.querySelector('#devices tbody th button').click()")
        page.until("document.querySelector('#details').open")
        assert page.value("document.querySelectorAll('img, b').length") == 0
        assert page.value('document.title') == 'weft watch'
        assert not page.complaints(), page.complaints()


@case
def who_goes_is_told_of_and_a_lost_door_too():
    with watching(os.getpid()) as (_, address):
        with process(encoded(ANSWER)):
            page = shown(browser.page(address, *SIZES['narrow']))
            page.until("document.querySelector('#state').textContent === '1 process'")
        page.until("/: gone/.test(document.querySelector('#event-list').textContent)")
    page.until("document.querySelector('#state').classList.contains('bad')")
    assert page.value("document.querySelector('#state').textContent").startswith('No answer')


if not shutil.which('chromium'):
    skip_all('no program chromium: tools/packages.sh browser')
with Browser() as browser:
    main()
