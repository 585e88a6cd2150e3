#!/usr/bin/env python3
"""The part of the demonstration that serves a file runs, and each mechanism does something."""

import re

from serving import case, main, run

from cases import BUILD, SOURCE


@case
def every_mechanism_moves():
    said = run(SOURCE / 'tools/demo-storage', BUILD, limit=280)
    names = ('preemptible reads', 'RDMA manager', 'out-of-order placement', 'one-shot RDMA',
             'storage node')
    for name in names:
        assert re.search(rf'^ +{name} +[1-9]', said, re.M), said


main()
