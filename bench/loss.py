#!/usr/bin/env python3
"""What losses leave of one connection's goodput, from a path within a rack to one across a country.

loss.udp, loss.tap: Sends of 64 KiB between two devices over a simulated wire of 10 Gbit/s that
loses packets of either direction, each by a draw of its own; the TCP is told what it is told over
udp and over tap. Time is virtual: the figures do not depend on the machine. Each is the median of
three seeds.

The baseline is no measurement but a model, the response function of CUBIC (RFC 9438 sections 4.3
and 5.1: the larger of Reno's window and CUBIC's own), within the receive window and the wire's
rate. It knows no time-outs, of which real losses bring the more, the smaller the window is.
"""

import statistics

from results import emit, measured, note

RTTS = {'0.1 ms': (100e-6, '0us'), '1 ms': (1e-3, '450us'), '20 ms': (20e-3, '9.95ms')}
LOSSES = (0, 0.1, 0.3, 1, 3, 5, 10)
LINKS = ('udp', 'tap')
SEEDS = (1, 2, 3)
MESSAGE_LEN, BUFFER, WINDOW = 65536, 1 << 20, 1 << 20
MESSAGES = 1000
MSS, PACKET, RATE = 1448, 1500, 1.25e9  # octets: of payload, with headers, in a second
CUBIC_C, CUBIC_BETA = 0.4, 0.7


def window_of_cubic(p, rtt_s):
    """In segments."""
    alpha = 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)
    reno = (alpha * (1 + CUBIC_BETA) / (2 * (1 - CUBIC_BETA) * p)) ** 0.5
    own = (CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))) ** 0.25 * (rtt_s / p) ** 0.75
    return max(reno, own)


def model(p, rtt_s):
    """Octets in a second."""
    window = window_of_cubic(p, rtt_s) * MSS if p > 0 else WINDOW
    return min(min(window, WINDOW) / rtt_s, RATE * MSS / PACKET)


def run(link, loss, delay):
    """The median of each figure."""
    runs = [measured('bench-paths', 'early', f'loss={loss}%,delay={delay},seed={seed}', 'send',
                     MESSAGE_LEN, MESSAGES, BUFFER, link) for seed in SEEDS]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def main():
    for name, (rtt_s, delay) in RTTS.items():
        for loss in LOSSES:
            base = model(loss / 100, rtt_s)
            for link in LINKS:
                figures = run(link, loss, delay)
                emit(f'loss.{link}', f'{loss} % lost, {name}', 'MB/s',
                     figures['octets_per_s'] / 1e6, 'CUBIC, a model', base / 1e6)
                note(f'loss.{link} {loss} % lost, {name}: {figures["octets_per_s"] / 1e6:.4g} MB/s,'
                     f' {figures["timeouts"]:.0f} time-outs; the model {base / 1e6:.4g}')


if __name__ == '__main__':
    main()
