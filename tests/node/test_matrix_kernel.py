#!/usr/bin/env python3
"""The cells of test_matrix.py whose client is the Linux kernel in a virtual machine, by the same
arguments: some four minutes for each way, so it is `make soak` that runs them."""

import test_matrix

if __name__ == '__main__':
    test_matrix.main()
