"""Debian's Chromium without a screen, driven by its own protocol over a pipe: pages of a size and a
scheme of colours, what stands in them, what was said on the console, keys, and pictures."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

ANSWER_S = 30
KEYS = {'Tab': 9, 'Enter': 13, 'Escape': 27, 'Space': 32}


class Browser:
    """One process for several pages, which share nothing."""

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix='weft-browser.')
        down, up = os.pipe(), os.pipe()

        def take_pipes():  # the protocol's: 3 to read, 4 to write
            ends = os.dup(down[0]), os.dup(up[1])
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)
        words = ['chromium', '--headless', '--remote-debugging-pipe', '--disable-gpu',
                 '--no-first-run', '--disable-background-networking', '--disable-extensions',
                 '--disable-dev-shm-usage', f'--user-data-dir={self.profile.name}']
        if os.getuid() == 0:
            words.append('--no-sandbox')  # its own rule for root
        self.process = subprocess.Popen(
            words, preexec_fn=take_pipes, close_fds=False, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, 'HOME': self.profile.name})
        os.close(down[0])
        os.close(up[1])
        self.to, self.since = down[1], up[0]
        self.unread, self.events, self.number = b'', [], 0
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AssertionError):
            self.call('Browser.close')
        os.close(self.to)
        os.close(self.since)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.profile.name, ignore_errors=True)

    def message(self, deadline):
        while b'\0' not in self.unread:
            left = max(0, deadline - time.monotonic())
            assert select.select([self.since], [], [], left)[0], 'the browser is silent'
            got = os.read(self.since, 1 << 20)
            assert got, 'the browser has ended'
            self.unread += got
        message, _, self.unread = self.unread.partition(b'\0')
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        request = {'id': self.number, 'method': method, 'params': parameters}
        if session:
            request['sessionId'] = session
        os.write(self.to, json.dumps(request).encode() + b'\0')
        deadline = time.monotonic() + ANSWER_S
        while True:
            message = self.message(deadline)
            if message.get('id') == self.number:
                assert 'error' not in message, (method, message['error'])
                return message['result']
            self.events.append(message)

    def page(self, address, width, height, **media):
        return Page(self, address, width, height, media)


class Page:
    """A page as somebody sees it; `media` are wishes as CSS names them, with _ for -."""

    def __init__(self, browser, address, width, height, media):
        self.browser = browser
        context = browser.call('Target.createBrowserContext')['browserContextId']
        target = browser.call('Target.createTarget', url='about:blank', browserContextId=context)
        self.session = browser.call('Target.attachToTarget', targetId=target['targetId'],
                                    flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': name.replace('_', '-'), 'value': value} for name, value in media.items()])
        self.call('Page.navigate', url=address)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def value(self, script):
        """What an expression of the page's own language gives."""
        found = self.call('Runtime.evaluate', expression=script, returnByValue=True,
                          awaitPromise=True)
        assert 'exceptionDetails' not in found, (script, found['exceptionDetails'])
        return found['result'].get('value')

    def until(self, script, limit=20):
        deadline = time.monotonic() + limit
        while True:
            found = self.value(script)
            if found:
                return found
            assert time.monotonic() < deadline, f'not within {limit} s: {script}'
            time.sleep(0.05)

    def press(self, key):
        code = KEYS[key]
        text = {'Enter': '\r', 'Space': ' '}.get(key, '')
        known = {'key': key, 'code': key, 'windowsVirtualKeyCode': code}
        self.call('Input.dispatchKeyEvent', type='keyDown', **known, text=text)
        self.call('Input.dispatchKeyEvent', type='keyUp', **known)

    def complaints(self):
        """What the browser has logged: scripts, the policy, what could not be fetched."""
        found = []
        for event in self.browser.events:
            if event.get('sessionId') != self.session:
                continue
            what = event['params']
            if event['method'] == 'Log.entryAdded':
                found.append(what['entry']['text'])
            elif event['method'] == 'Runtime.exceptionThrown':
                found.append(what['exceptionDetails']['text'])
        return found

    def asked_for(self):
        """The addresses of all requests."""
        return {event['params']['request']['url'] for event in self.browser.events
                if event.get('sessionId') == self.session
                and event['method'] == 'Network.requestWillBeSent'}

    def roles(self):
        """[(role, name)] as a screen reader is told."""
        nodes = self.call('Accessibility.getFullAXTree')['nodes']
        return [(node['role']['value'], node.get('name', {}).get('value', ''))
                for node in nodes if not node['ignored']]

    def picture(self, path):
        octets = base64.b64decode(self.call('Page.captureScreenshot', format='png')['data'])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(octets)
