#!/usr/bin/env python3
"""Every check of tools/lint can fail: tiny bad trees, each beside a good twin that passes."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import textwrap

sys.dont_write_bytecode = True

LINT = pathlib.Path(__file__).resolve().parents[2] / 'tools' / 'lint'

# A list of one mutant, as tools/mutantlib/named.py has it.
NAMED = '''\
import collections
Mutant = collections.namedtuple('Mutant', 'name file old new')
ROWS = [('armed', 'cq/a.c', 'c->armed++;', '')]
def all_of():
    return [Mutant(f'holes-{row[0]}', *row[1:]) for row in ROWS]
'''

# A port, and who stands before another of its kind.
LINK_PORT = {'base/port_p.h': 'struct p_ops {\n    void (*go)(void);\n};\n\n'
                              'static inline void p_go(const struct p_ops *p)\n'
                              '{\n    p->go();\n}\n'}
WRAPPER = ('static void go(void)\n{{\n    p_go(q);\n}}\n\n'
           'static const struct p_ops {name} = {{\n    .go = go,\n}};\n')

# A name to say what is wrong, the check, the tree {path: text}, and what the report must contain
# (None: the check must pass).
CASES = [
    ('a room may include what its row names', 'includes',
     {'mem/a.c': '#include "base/b.h"\n', 'base/b.h': '#include <stdint.h>\n'}, None),
    ('a room may not include upwards', 'includes',
     {'mem/a.c': '\n#include "ddp/b.h"\n', 'ddp/b.h': ''}, 'mem/a.c:2: includes: "ddp/b.h"'),
    ('a file that has a stream may include the transport', 'includes',
     {'rnic/ep/a.c': '#include "iwarp/b.h"\n', 'iwarp/b.h': ''}, None),
    ('a file without one may not', 'includes',
     {'rnic/a.c': '#include "iwarp/b.h"\n', 'iwarp/b.h': ''}, 'only some files may include iwarp/'),
    ('an include in a comment is none', 'includes',
     {'mem/a.c': '// #include "ddp/b.h"\n/*\n#include "ddp/b.h"\n*/\n', 'ddp/b.h': ''}, None),
    ('a path starts at the root', 'includes',
     {'mem/a.c': '#include "b.h"\n', 'mem/b.h': ''}, 'write the path from the root'),
    ('a path has no dots', 'includes',
     {'mem/a.c': '#include "../mem/b.h"\n', 'mem/b.h': ''}, 'write the path from the root'),
    ('an included header exists', 'includes',
     {'mem/a.c': '#include "base/none.h"\n'}, 'does not exist'),
    ('engine rooms include no I/O header', 'includes',
     {'mpa/a.c': '#include <sys/epoll.h>\n'}, 'mpa/a.c:1: includes: <sys/epoll.h>'),
    ('engine rooms do not know the verbs ABI', 'includes',
     {'cq/a.c': '#include <infiniband/verbs.h>\n'}, '<infiniband/verbs.h>'),
    ('the fronts know the verbs ABI', 'includes',
     {'verbs/a.c': '#include <infiniband/verbs.h>\n'}, None),
    ('public headers include no room', 'includes',
     {'include/weft/a.h': '#include "base/b.h"\n', 'base/b.h': ''}, 'a public header includes'),
    ('a cycle of headers is found', 'includes',
     {'cq/a.h': '#include "cq/b.h"\n', 'cq/b.h': '#include "cq/c.h"\n',
      'cq/c.h': '#include "cq/a.h"\n'}, 'cq/a.h -> cq/b.h -> cq/c.h -> cq/a.h'),
    ('two ways to one header are no cycle', 'includes',
     {'cq/a.h': '#include "cq/b.h"\n#include "cq/c.h"\n', 'cq/b.h': '#include "cq/c.h"\n',
      'cq/c.h': ''}, None),
    ('a folder of C that is no room is found', 'includes',
     {'attic/a.c': ''}, 'attic/ is not a room'),

    ('a file is told of by its header', 'contents',
     {'cq/a.c': '', 'cq/a.h': ''}, None),
    ('or by a line in another of its folder', 'contents',
     {'cq/a.c': '', 'cq/b.h': '//   a.c   what comes in\n'}, None),
    ('or of the folder above', 'contents',
     {'rnic/qp/a.c': '', 'rnic/qp/c.h': '', 'rnic/b.h': '//   qp/a.c   what comes in\n'}, None),
    ('a file that no header tells of is found', 'contents',
     {'cq/a.c': '', 'cq/b.h': '#pragma once\n'}, 'cq/a.c:1: contents: no header of its folder'),
    ('one that is told of in a string alone, too', 'contents',
     {'cq/a.c': '', 'cq/b.h': 'const char *x = "a.c";\n'}, 'cq/a.c:1: contents:'),
    ('a program says what it is for', 'contents',
     {'examples/a.c': '// What it is for.\nint main(void)\n{\n}\n', 'examples/b.h': ''}, None),
    ('a header that tells of what has gone is found', 'contents',
     {'cq/a.c': '', 'cq/b.h': '//   a.c   what comes in\n//   c.c   what leaves\n'},
     'cq/b.h:2: contents: there is no c.c'),
    ('the system has headers of its own', 'contents',
     {'cq/b.h': '// As <sys/uio.h> has it.\n'}, None),
    ('what a header includes it may name without its folder', 'contents',
     {'cq/b.h': '// As a.h has it.\n#include "base/a.h"\n', 'base/a.h': ''}, None),

    ('a counter that a test names', 'tested',
     {'cq/a.h': '#define CQ_COUNTERS(X) \\\n    X(armed, "times") \\\n    X(late, "others")\n',
      'tests/cq/a.c': 'int n = c->armed + counted("late");\n'}, None),
    ('a counter that none names is found', 'tested',
     {'cq/a.h': '#define CQ_COUNTERS(X) \\\n    X(armed, "times") \\\n    X(late, "others")\n',
      'cq/a.c': 'void f(void)\n{\n    c->late++;\n}\n', 'tests/cq/a.c': 'int n = c->armed;\n'},
     'cq/a.h:3: tested: no test names the counter late'),
    ('and so is a peak', 'tested',
     {'cq/a.h': '#define CQ_PEAKS(X) X(depth, "entries")\n', 'tests/cq/a.c': ''},
     'no test names the counter depth'),

    ('a mutant takes away what is there once', 'elements',
     {'tools/mutantlib/named.py': NAMED, 'cq/a.c': 'c->armed++;\n'}, None),
    ('one whose text is written anew is found', 'elements',
     {'tools/mutantlib/named.py': NAMED, 'cq/a.c': 'c->armed += 1;\n'},
     'named.py:3: elements: holes-armed: cq/a.c has its text 0 times'),
    ('one whose text stands twice is found', 'elements',
     {'tools/mutantlib/named.py': NAMED, 'cq/a.c': 'c->armed++;\nc->armed++;\n'},
     'cq/a.c has its text 2 times'),
    ('one that takes nothing away is found', 'elements',
     {'tools/mutantlib/named.py': NAMED.replace("''", "'c->armed++;'"), 'cq/a.c': 'c->armed++;\n'},
     'holes-armed: takes nothing away'),

    ('memory is of bytes', 'words',
     {'docs/a.md': 'A buffer of 64 bytes, `stderr`, and 64 octets on the wire.\n'}, None),
    ('memory is not of octets', 'words',
     {'docs/a.md': 'One.\nA buffer of 64 octets.\n'}, 'docs/a.md:2: words: "buffer of 64 octets"'),
    ('a man page says time-out', 'words',
     {'man/a.1': '.It Cm timeout\nThe time-out.\n.Bd -literal\ntimeout 5\n.Ed\n'}, None),
    ('... and not timeout', 'words', {'man/a.1': '.Sh A\nThe timeout.\n'},
     'man/a.1:2: words: "timeout": say time-out'),
    ('a document says folder', 'words',
     {'README.md': 'A folder.\n\n```\nmkdir directory\n```\n'}, None),
    ('... and not directory', 'words', {'README.md': 'A directory.\n'}, '"directory": say folder'),
    ('a message names standard error', 'words',
     {'cli/a.c': 'void f(void)\n{\n    fputs("on standard error", stderr);\n}\n'}, None),
    ('... by that name', 'words', {'host/a.c': 'const char *a = "on stderr";\n'},
     'host/a.c:1: words: "stderr"'),
    ('start-up is one word with a hyphen', 'words', {'docs/a.md': 'At start-up.\n'}, None),
    ('... and not another', 'words', {'docs/a.md': 'At startup.\n'}, '"startup": say start-up'),

    ('a file includes what it uses', 'uses',
     {'cq/a.c': '#include "base/b.h"\n\nint f(void)\n{\n    return g(N);\n}\n',
      'base/b.h': '#define N 1\nint g(int n);\n'}, None),
    ('a function by way of another header is found', 'uses',
     {'cq/a.c': '#include "cq/b.h"\n\nint f(void)\n{\n    return g(1);\n}\n',
      'cq/b.h': '#include "base/c.h"\n', 'base/c.h': 'static inline int g(int n)\n{\n}\n'},
     'cq/a.c:5: uses: g is of base/c.h: include it here'),
    ('a constant by way of another header is found', 'uses',
     {'cq/a.c': '#include "cq/b.h"\n\nint f(void)\n{\n    return RED;\n}\n',
      'cq/b.h': '#include "base/c.h"\n', 'base/c.h': 'enum color { BLUE, RED = 4 };\n'},
     'cq/a.c:5: uses: RED is of base/c.h'),
    ('a macro by way of another header is found', 'uses',
     {'cq/a.c': '#include "cq/b.h"\n\nint f(void)\n{\n    return DOUBLE(1);\n}\n',
      'cq/b.h': '#include "base/c.h"\n', 'base/c.h': '#define DOUBLE(n) (2 * (n))\n'},
     'DOUBLE is of base/c.h'),
    ('a type by way of another header is found', 'uses',
     {'cq/b.h': '#include "base/c.h"\n', 'base/c.h': 'typedef unsigned span_len;\n',
      'cq/a.h': '#include "cq/b.h"\nint f(span_len len);\n'}, 'cq/a.h:2: uses: span_len'),
    ('a header has what its own file needs', 'uses',
     {'cq/a.c': '#include "cq/a.h"\n\nint f(void)\n{\n    return g(1);\n}\n',
      'cq/a.h': '#include "base/c.h"\n', 'base/c.h': 'int g(int n);\n'}, None),
    ('a contents page hands on what it includes', 'uses',
     {'verbs/a.c': '#include "verbs/front.h"\n\nint f(void)\n{\n    return g(1);\n}\n',
      'verbs/front.h': '#include "cm/cm.h"\n', 'cm/cm.h': '#include "base/c.h"\n',
      'base/c.h': 'int g(int n);\n'}, None),
    ('a field, a pointer and a name in a comment need no header', 'uses',
     {'cq/a.c': '#include "cq/b.h"\n\n// g(RED)\nint f(struct c *c)\n{\n'
                '    return c->g + c->port.g(1);\n}\n',
      'cq/b.h': '#include "base/c.h"\n',
      'base/c.h': 'struct c {\n    int g;\n};\nint g(int n);\nenum { RED };\n'}, None),
    ('a name of two headers proves nothing', 'uses',
     {'cq/a.c': '#include "cq/b.h"\n\nint f(void)\n{\n    return g(1);\n}\n',
      'cq/b.h': '', 'base/c.h': 'int g(int n);\n', 'base/d.h': 'int g(int n);\n'}, None),

    ('calls that only go down are no circle', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g();\n}\n', 'cq/b.c': 'void g(void)\n{\n    h();\n}\n',
      'cq/c.c': 'void h(void)\n{\n}\n'}, None),
    ('a circle of calls is found', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g();\n}\n', 'cq/b.c': 'void g(void)\n{\n    h();\n}\n',
      'cq/c.c': 'void h(void)\n{\n    f();\n}\n'},
     'cq/a.c:3: cycles: 3 files of cq/ call each other in a circle: a.c b.c c.c'),
    ('a static function of the same name is nobody else\'s', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g();\n}\n',
      'cq/b.c': 'static void f(void)\n{\n}\n\nvoid g(void)\n{\n    f();\n}\n'}, None),
    ('a function behind a static table is the room\'s', 'cycles',
     {'cq/a.c': 'static int t[] = {1};\n\nvoid f(void)\n{\n    g();\n}\n',
      'cq/b.c': 'void g(void)\n{\n    f();\n}\n'}, '2 files of cq/ call each other'),
    ('a circle through a table of functions is found', 'cycles',
     {'cq/a.c': 'static void up(void)\n{\n}\n\nvoid f(void)\n{\n'
                '    g(&(struct port){.on_up = up, .ctx = 0});\n}\n',
      'cq/b.c': 'void g(struct port *p)\n{\n    p->on_up(p->ctx);\n}\n'},
     'cycles: 2 files of cq/ call each other in a circle'),
    ('a field that holds another room\'s function makes none', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g(&(struct port){.on_up = list_add});\n}\n',
      'cq/b.c': 'void g(struct port *p)\n{\n    p->on_up(p->ctx);\n}\n'}, None),
    ('an inline function of a header hides no circle', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g();\n}\n', 'cq/b.c': 'void h(void)\n{\n    f();\n}\n',
      'cq/c.h': 'static inline void g(void)\n{\n    h();\n}\n'},
     '3 files of cq/ call each other in a circle: a.c b.c c.h'),
    ('two inline functions of a header are apart', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g();\n}\n', 'cq/b.c': 'void h(void)\n{\n}\n',
      'cq/c.h': 'static inline void g(void)\n{\n    h();\n}\n\n'
                'static inline void i(void)\n{\n    f();\n}\n'}, None),
    ('a wrapper that hands on through its port is in a circle with the one behind it', 'cycles',
     {'base/port_p.h': 'struct p_ops {\n    void (*go)(void);\n};\n\n'
                       'static inline void p_go(const struct p_ops *p)\n{\n    p->go();\n}\n',
      'cq/a.c': 'static void go(void)\n{\n    p_go(q);\n}\n\n'
                'static const struct p_ops a = {\n    .go = go,\n};\n',
      'cq/b.c': 'static void go(void)\n{\n    p_go(q);\n}\n\n'
                'static const struct p_ops b = {\n    .go = go,\n};\n'},
     '2 files of cq/ call each other in a circle: a.c b.c;'),
    ('wrappers of which one stands before the other are in none', 'cycles',
     {**LINK_PORT, 'link/compound.c': WRAPPER.format(name='a'),
      'link/pcap/pcap.c': WRAPPER.format(name='b')}, None),
    ('a wrapper that calls who stands before it is in a circle', 'cycles',
     {**LINK_PORT, 'link/compound.c': WRAPPER.format(name='a') + 'void up(void)\n{\n    go();\n}\n',
      'link/pcap/pcap.c': WRAPPER.format(name='b') + 'void f(void)\n{\n    up();\n}\n'},
     '2 files of link/ call each other in a circle: compound.c pcap.c'),
    ('a file that wrappers share takes no part in the circles of their port', 'cycles',
     {**LINK_PORT, 'link/compound.c': WRAPPER.format(name='a').replace('go = go', 'go = forward'),
      'link/pcap/pcap.c': WRAPPER.format(name='b').replace('go = go', 'go = forward'),
      'link/forward.c': 'void forward(void)\n{\n    p_go(q);\n}\n'}, None),
    ('a field of the same name in a table of another struct is nobody\'s in a port', 'cycles',
     {'base/port_p.h': 'struct p_ops {\n    void (*go)(void);\n};\n\n'
                       'static inline void p_go(const struct p_ops *p)\n{\n    p->go();\n}\n',
      'cq/a.c': 'static void go(void)\n{\n    f();\n}\n\n'
                'static const struct q_ops a = {\n    .go = go,\n};\n',
      'cq/b.c': 'void f(void)\n{\n    p_go(q);\n}\n'}, None),
    ('circles within two rooms are not one', 'cycles',
     {'cq/a.c': 'void f(void)\n{\n    g();\n}\n', 'mpa/b.c': 'void g(void)\n{\n    f();\n}\n'},
     None),

    ('names of their own collide with nobody', 'names',
     {'cq/a.c': 'int f(void)\n{\n    int g = 1;\n    return g;\n}\n\nstatic int h(void)\n{\n}\n',
      'mpa/a.c': 'int g(void)\n{\n}\n\nstatic int h(void)\n{\n}\n\nstatic int f = 1;\n',
      'tests/cq/a.c': 'int f(void)\n{\n}\n'}, None),
    ('two functions of one name are found, in whatever rooms', 'names',
     {'cq/a.c': 'int f(void)\n{\n}\n', 'mpa/a.c': '\nint f(int a)\n{\n}\n'},
     'mpa/a.c:2: names: f is a name of cq/a.c:1 already'),
    ('a table and a function of one name are found', 'names',
     {'cq/a.c': 'const struct table t[2] = {{1}};\n', 'mpa/a.c': 'int t(void)\n{\n}\n'},
     'mpa/a.c:1: names: t is a name of cq/a.c:1 already'),
    ('each program has a main', 'names',
     {'cli/a.c': 'int main(void)\n{\n}\n', 'examples/a.c': 'int main(void)\n{\n}\n'}, None),

    ('a function of 70 lines is short enough', 'shape',
     {'cq/a.c': 'int f(void)\n{\n' + '    ;\n' * 67 + '}\n'}, None),
    ('a function of 71 lines is too long', 'shape',
     {'cq/a.c': 'struct s {\n    int a;\n};\n\nint f(int a,\n      int b)\n{\n' + '    ;\n' * 67
      + '}\n'}, 'cq/a.c:5: shape: f() has 71 lines'),
    ('braces in strings and comments do not count', 'shape',
     {'cq/a.c': 'int f(void)\n{\n    g("{"); // {\n    h(\'{\');\n}\n' + '\n' * 80}, None),
    ('a long table is no function', 'shape',
     {'cq/a.c': 'static const int t[] = {\n' + '    1,\n' * 100 + '};\n'}, None),
    ('a file of 801 lines is too long', 'shape',
     {'cq/a.c': '\n' * 801}, 'cq/a.c:801: shape: the file has 801 lines'),
    ('a line of 101 columns is too long', 'shape',
     {'cq/a.c': '\n//' + 'x' * 99 + '\n'}, 'cq/a.c:2: shape: the line has 101 columns'),
    ('a line of 100 columns is not', 'shape', {'cq/a.c': '//' + 'x' * 98 + '\n'}, None),

    ('strcpy is banned everywhere', 'calls',
     {'cli/a.c': 'int f(void)\n{\n    strcpy(a, b);\n}\n'}, 'cli/a.c:3: calls: strcpy is banned'),
    ('a banned word inside a longer name is none', 'calls',
     {'cli/a.c': 'void f(void)\n{\n    my_strcpy(a, b);\n    port->system(a);\n}\n'}, None),
    ('engine rooms read no clock', 'calls',
     {'cq/a.c': 'void f(void)\n{\n    clock_gettime(0, t);\n}\n'}, 'the caller has the clock'),
    ('engine rooms take no lock', 'calls',
     {'cq/a.c': 'void f(void)\n{\n    pthread_mutex_lock(m);\n}\n'}, 'pthread_mutex_lock'),
    ('engine rooms do not know errno', 'calls',
     {'cq/a.c': 'int f(void)\n{\n    return -errno;\n}\n'}, 'errno is banned'),
    ('engine rooms do not print', 'calls',
     {'cq/a.c': 'void f(void)\n{\n    printf("x");\n}\n'}, 'engine rooms do not print'),
    ('a word in a string is no call', 'calls',
     {'cq/a.c': 'void f(void)\n{\n    g("printf(x)"); /* printf(x) */\n}\n'}, None),
    ('outer rooms may read the clock', 'calls',
     {'link/a.c': 'void f(void)\n{\n    clock_gettime(0, t);\n}\n'}, None),
    ('engine rooms take memory at creation', 'calls',
     {'cq/a.c': 'int cq_queue_init(void)\n{\n    return !malloc(1);\n}\n'}, None),
    ('engine rooms take no memory later', 'calls',
     {'cq/a.c': 'int cq_queue_push(void)\n{\n    return !malloc(1);\n}\n'},
     'cq/a.c:3: calls: malloc in cq_queue_push'),

    ('a CHECK may look', 'effects',
     {'cq/a.c': 'void f(void)\n{\n    CHECK(a <= b && c != list_is_empty(&d) && g_len(e) >= 1);\n'
                '    g(a = b);\n}\n'}, None),
    ('a CHECK calls nothing that acts', 'effects',
     {'cq/a.c': 'void f(void)\n{\n    CHECK(a &&\n          coverage_add(&b, c));\n}\n'},
     'cq/a.c:3: effects: a CHECK has no side effect, and coverage_add() may'),
    ('a CHECK assigns nothing', 'effects',
     {'cq/a.c': 'void f(void)\n{\n    CHECK((a = b) == c);\n}\n'}, 'and = may'),
    ('a CHECK counts nothing', 'effects',
     {'cq/a.c': 'void f(void)\n{\n    CHECK(a[b++] == c);\n}\n'}, 'and ++ may'),
    ('a CHECK of a test may act', 'effects',
     {'tests/iwarp/a.c': 'void f(void)\n{\n    CHECK(a[b++] == add(c));\n}\n'}, None),
    ('two rooms have one vocabulary', 'mirrors',
     {'iwarp/a.c': '#define N 1\nSTATIC_CHECK((int)WQ_SEND == (int)QP_SEND);\n'},
     'iwarp/a.c:2: mirrors: WQ_SEND and QP_SEND are one thing'),
    ('nor is it mirrored name by name of a list', 'mirrors',
     {'iwarp/a.c': '#define X(name) STATIC_CHECK((int)QP_##name == (int)WQ_##name);\n'},
     'QP_##name and WQ_##name'),
    ('the ABI has a vocabulary of its own', 'mirrors',
     {'verbs/a.c': 'STATIC_CHECK((int)WQE_SEND == (int)IBV_WR_SEND);\n'}, None),
    ('lengths may be compared', 'mirrors',
     {'iwarp/a.c': 'STATIC_CHECK(A_OFF_LAST + 4 == A_LEN);\nSTATIC_CHECK((int)A <= (int)B);\n'},
     None),
    ('a reason is a struct why', 'reasons',
     {'cli/a.c': 'int f(int a, struct why *ret_why)\n{\n    return g(a, ret_why);\n}\n'}, None),
    ('a reason is no octets of some length', 'reasons',
     {'cli/a.c': 'int f(int (*g)(int),\n      char *ret_why)\n{\n    return g(0);\n}\n'},
     'cli/a.c:2: reasons: char *ret_why: how long it may be nobody checks'),
    ('nor is it in a table of functions', 'reasons',
     {'cli/a.h': 'struct port {\n    int (*open)(int a, char *ret_why);\n};\n'},
     'cli/a.h:2: reasons'),
    ('a reason that is only read may be a text', 'reasons',
     {'cli/a.c': 'void f(const char *why)\n{\n    g(why);\n}\n'}, None),
    ('a public function is given octets for it', 'reasons',
     {'cli/a.c': 'int weft_f(int a, char *ret_why)\n{\n    return a;\n}\n'}, None),

    ('engine rooms do not stop the process themselves', 'calls',
     {'cq/a.c': 'void f(void)\n{\n    abort();\n}\n'}, 'CHECK of base/check.h'),
    ('a CHECK does', 'calls', {'base/check.h': 'static void f(void)\n{\n    abort();\n}\n'}, None),

    ('a room within a folder may include what its row names', 'includes',
     {'node/cta/a.c': '#include "node/interface/b.h"\n', 'node/interface/b.h': ''}, None),
    ('a room within a folder may not include its neighbour', 'includes',
     {'node/cta/a.c': '#include "node/uma/b.h"\n', 'node/uma/b.h': ''},
     'node/cta/a.c:1: includes: "node/uma/b.h"'),
    ('an agent names no protocol', 'neutral',
     {'node/uma/a.c': '\nint nvme_status;\n'}, 'node/uma/a.c:2: neutral: nvme'),
    ('an interface names no I/O format, not even in a comment', 'neutral',
     {'node/interface/a.h': '// an ATA command\n'}, 'node/interface/a.h:1: neutral: ATA'),
    ('data are no I/O format', 'neutral', {'node/cta/a.c': 'int data, atapi_like;\n'}, None),
    ('a TTS names its protocol', 'neutral', {'node/tts/a.c': 'int nbd_magic;\n'}, None),
    ('work queues name no header', 'neutral', {'wq/a.c': 'int first_msn;\n'},
     'wq/a.c:1: neutral: msn: wq/ knows no transport'),
    ('work queues name no transport, not even in a comment', 'neutral',
     {'wq/a.h': '\n// as iWARP does\n'}, 'wq/a.h:2: neutral: iWARP'),
    ('other words that have the letters of one are none', 'neutral',
     {'wq/a.c': 'int compare, stag, addps;\n'}, None),
    ('a transport names its headers', 'neutral', {'iwarp/a.c': 'int first_msn, ulpdu;\n'}, None),
    ('a device names no transport', 'neutral', {'link/device/udp_io.c': '\nint first_seq;\n'},
     'link/device/udp_io.c:2: neutral: seq: udp_io.c moves segments'),
    ('a device names no transport, not even in a comment', 'neutral',
     {'link/device/device.h': '// as TCP says\n'}, 'link/device/device.h:1: neutral: TCP'),
    ('the kernel has names of its own', 'neutral',
     {'link/device/tap.c': 'int gso = GSO_TCPV4, message, sequence;\n'}, None),
    ('a link names its transport', 'neutral', {'link/packet/io.c': 'int tcp, mss, seq;\n'}, None),
    ('work queues include no transport', 'includes',
     {'wq/a.c': '#include "rdmap/b.h"\n', 'rdmap/b.h': ''}, 'wq/a.c:1: includes: "rdmap/b.h"'),

    # Spelt apart, so that the tree's own check does not find them here.
    ('a note of unfinished work is found', 'leftovers',
     {'cq/a.c': '\n// TO' 'DO: later\n'}, 'cq/a.c:2: leftovers'),
    ('a longer word is none', 'leftovers', {'cq/a.c': '// TO' 'DOS\n'}, None),
]

COMPILED_CASES = [
    ('const tables are no mutable variables', 'globals',
     'static const int t[] = {1};\nstatic const char *const n[] = {"a"};\n'
     'const void *f(int i) { return i ? (const void *)&t[i] : n[i]; }\n', None),
    ('a static variable is found', 'globals',
     'static int hits;\nint f(void) { return ++hits; }\n', 'mem/a.c:1: globals: hits'),
    ('a static variable of a function is found', 'globals',
     'int f(void)\n{\n    static int calls = 4;\n    return ++calls;\n}\n', 'mem/a.c:3: globals'),
    ('a global variable is found', 'globals', 'int level = 3;\n', 'globals: level'),
    ('a thread-local variable is found', 'globals',
     '__thread int depth;\nint f(void) { return ++depth; }\n', 'globals: depth'),
    ('a table that lost its const is found', 'globals',
     'static const char *names[] = {"a"};\nconst char *f(int i) { return names[i]; }\n'
     'void g(int i) { names[i] = 0; }\n', 'globals: names'),

    ('a library that exports its script passes', 'exports',
     'V_1 { global: f; local: *; };\n', None),
    ('a symbol that is named but not defined is found', 'exports',
     'V_1 {\n    global: f;\n    gone;\n    local: *;\n};\n', 'libweft.map:3: exports: gone@V_1'),
    ('a symbol that is exported but not named is found', 'exports',
     'V_1 { global: f*; local: *; };\n', 'exports f@V_1'),

    # How the library is compiled and linked, and how a room of it.
    ('a library that is optimised when it is linked passes', 'linked',
     ('-flto -ffat-lto-objects', '-flto -ffat-lto-objects'), None),
    ('a library that is linked as it was compiled is found', 'linked',
     ('-fno-lto', '-flto -ffat-lto-objects'), 'libweft.so.1 is not optimised'),
    ('a room without code for the linker is found', 'linked',
     ('-flto -ffat-lto-objects', '-fno-lto'), 'libweft-mem.a: 1 objects'),
]


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def run(*words, cwd=None):
    subprocess.run([str(word) for word in words], cwd=cwd, check=True, capture_output=True)


def load_lint():
    """Once: a process each for the trees would read all of it more than a hundred times."""
    loader = importlib.machinery.SourceFileLoader('lint', str(LINT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('lint', loader))
    loader.exec_module(module)
    return module


the_lint = load_lint()


def lint(root, check):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            status = the_lint.main(['--root', str(root), check])
    except (Exception, SystemExit) as error:  # of this case alone
        return 2, f'{said.getvalue()}{error!r}'
    return status, said.getvalue()


def compile_globals(root, text):
    write_tree(root, {'mem/a.c': text})
    (root / 'build').mkdir()
    run('cc', '-O1', '-g', '-fPIC', '-c', root / 'mem/a.c', '-o', root / 'build/a.o')
    run('ar', 'rcT', 'libweft-mem.a', 'a.o', cwd=root / 'build')


def compile_exports(root, text):
    write_tree(root, {'rnic/libweft.map': text, 'rnic/f.c': 'int f(void) { return 0; }\n'})
    (root / 'build/lib').mkdir(parents=True)
    run('cc', '-shared', '-fPIC', root / 'rnic/f.c',
        f'-Wl,--version-script={root}/rnic/libweft.map', '-o', root / 'build/lib/libweft.so.1')


def compile_linked(root, flags):
    library, room = (words.split() for words in flags)
    write_tree(root, {'rnic/f.c': 'int f(void) { return 0; }\n', 'mem/a.c': 'int level;\n'})
    (root / 'build/lib').mkdir(parents=True)
    run('cc', '-O2', '-g', '-fPIC', '-shared', *library, root / 'rnic/f.c',
        '-o', root / 'build/lib/libweft.so.1')
    run('cc', '-O2', '-g', '-fPIC', *room, '-c', root / 'mem/a.c', '-o', root / 'build/a.o')
    run('ar', 'rcT', 'libweft-mem.a', 'a.o', cwd=root / 'build')


def unbuilt_objects(root):
    write_tree(root, {'mem/a.c': 'int f(void);\n', 'rnic/libweft.map': 'V_1 { global: f; };\n'})


def bad_layout(root):
    run('cp', LINT.parents[1] / '.clang-format', root)
    write_tree(root, {'mem/a.c': 'int f(void) {return 0;}\n'})


def history_of(subject):
    def make(root):
        git = ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', '-C', root]
        run('git', 'init', '-q', root)
        run(*git, 'commit', '-q', '--allow-empty', '-m', subject)
    return make


def all_cases():
    """(name, check, function that makes the tree, expected words or None)"""
    for name, check, files, expected in CASES:
        yield name, check, lambda root, files=files: write_tree(root, files), expected
    makers = {'globals': compile_globals, 'exports': compile_exports, 'linked': compile_linked}
    for name, check, text, expected in COMPILED_CASES:
        yield name, check, lambda root, m=makers[check], text=text: m(root, text), expected
    yield 'objects that are not built prove nothing', 'globals', unbuilt_objects, 'run make'
    yield 'a library that is not built proves nothing', 'exports', unbuilt_objects, 'run make'
    yield 'another layout is found', 'format', bad_layout, 'mem/a.c:1: format'
    yield 'a subject with a room passes', 'history', history_of('mem: add a table'), None
    yield 'a subject without a room is found', 'history', history_of('fix things'), '"fix things"'


def verdict(check, make, expected):
    """What is wrong with the outcome of one case; '' if nothing, 'SKIP ...' if it cannot run."""
    with tempfile.TemporaryDirectory(prefix='weft-lint-') as name:
        root = pathlib.Path(name)
        make(root)
        status, report = lint(root, check)
    if 'SKIP: ' in report:
        return 'SKIP ' + report.split('SKIP: ')[1].split('\n')[0]
    if expected is None:
        return '' if status == 0 else f'passes nothing wrong, but lint says:\n{report}'
    if status == 1 and expected in report:
        return ''
    return f'lint must fail and say `{expected}`, but ends with {status} and says:\n{report}'


def main():
    failed = 0
    number = 0
    for number, (name, check, make, expected) in enumerate(all_cases(), 1):
        wrong = verdict(check, make, expected)
        if wrong.startswith('SKIP '):
            print(f'SKIP: {name}: {wrong[5:]}\nok {number} - {check}: {name} # SKIP')
            continue
        print(f'{"not ok" if wrong else "ok"} {number} - {check}: {name}')
        if wrong:
            failed += 1
            print(textwrap.indent(wrong.strip(), '# '))
    print(f'1..{number}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
