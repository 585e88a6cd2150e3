// User-space probes (USDT, provider "weft"): where perf, bpftrace or SystemTap look into a running
// program. Each is one instruction that does nothing until somebody does. weft(7) lists them
// with their arguments; tests/cli/test_manual.py compares the lists.
//
// Where <sys/sdt.h> is not there at build time, a probe is nothing at all. Arguments are evaluated
// either way, so they must be cheap and without effect.
#pragma once

#ifdef WEFT_HAVE_SDT
#include <sys/sdt.h>
#define PROBE1(name, a)          DTRACE_PROBE1(weft, name, a)
#define PROBE3(name, a, b, c)    DTRACE_PROBE3(weft, name, a, b, c)
#define PROBE4(name, a, b, c, d) DTRACE_PROBE4(weft, name, a, b, c, d)
#else
#define PROBE1(name, a)          ((void)(a))
#define PROBE3(name, a, b, c)    ((void)(a), (void)(b), (void)(c))
#define PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif
