"""The rules of the house, as data: which room may include what, which calls are banned where."""

import re

# A room, what it may include (other rooms, or a group of HEADERS), and why that and no more.
ROOMS = {
    # room: (may include, why)
    'base': ('', 'everyone stands on it, so it stands on nobody'),
    'text': ('base', 'what people write and read: numbers, sizes, addresses; no state'),
    'descriptor': ('', 'which numbers descriptors of a library have; whose is not its business'),
    'clock': ('base', 'what time it is, for who may ask: no engine room'),
    'machine': ('', 'which machine this is; what is made of that is not its business'),
    'wire': ('base', 'a header is parsed from octets to a verdict and back; no state'),
    'tcp': ('wire base', 'one connection; who its ends are and how segments travel is below it'),
    'net': ('tcp wire base', 'whose segment it is, and what a host does beside TCP; no device'),
    'mem': ('base', 'answers with a verdict and knows no protocol'),
    'mpa': ('wire base', 'turns a byte stream into ULPDUs and knows no STag'),
    'ddp': ('mem wire base', 'places segments; the ULP octet is opaque to it'),
    'rdmap': ('ddp mem wire base', 'gives the ULP octet its meaning'),
    'cq': ('base', 'completions only; whose they are is not its business'),
    'wq': ('mem cq base', 'knows operations, memory and completions, and no transport'),
    'iwarp': ('wq rdmap ddp mem cq wire base',
              'work queues over one RDMAP stream; of wire numbers and the extension message'),
    'congestion': ('base', 'numbers in, a window and a pace out: no packet, no connection'),
    'roce': ('wq mem cq congestion wire base',
             'work queues over RoCEv2 packets; who carries them is behind the datagram port'),
    'conn': ('mpa wire base', 'start-up is MPA; no work request exists yet'),
    'ibcm': ('wire base',
             'connects queue pairs by messages; what carries those is below it'),
    'meet': ('wire base', 'who connects to whom, when again, and who is let in; no stream yet'),
    'report': ('meet conn iwarp wq mpa mem text wire base',
               'values as text; whose they were, and under which lock, is behind it'),
    'link': ('net tcp text wire descriptor base',
             'carries octets, by the kernel\'s TCP or by ours over a device'),
    'rnic': ('report meet ibcm conn iwarp roce congestion wq cq rdmap ddp mpa mem link text wire '
             'base weft', 'the one room that wires'),
    'control': ('clock text base',
                'how running processes are found and asked; not what they are asked'),
    'cgroup': ('', 'which group limits a process, as the kernel\'s files tell it'),
    'host': ('cgroup control rnic mem link tcp text descriptor clock base weft',
             'what a process lends the device: environment, fork, exit'),
    'view': ('control machine descriptor base abi',
             'what a device looks like: as data, as files; no device is open'),
    'verbs': ('view host rnic descriptor base weft abi',
              'a thin front; the engine rooms are behind rnic'),
    'cm': ('host rnic descriptor base weft abi', 'a thin front; the engine rooms are behind rnic'),
    'rsocket': ('descriptor base abi',
                'sockets over public calls: they run on any connection manager'),
    'manager': ('base weft abi', 'public verbs only: it runs on any RNIC'),
    'format': ('base', 'what storage devices and their protocols say, as offsets; no state'),
    'chap': ('format text base', 'proofs of a secret, for both ends of iSCSI; libnettle'),
    'node/interface': ('base', 'what agents say to each other; nobody behind it is known'),
    'node/loop': ('clock base', 'waits for descriptors and deadlines; whose is not its business'),
    'node/bus': ('node/interface base', 'carries frames between processes and opens none'),
    'node/reservation': ('node/interface text base', 'who may use a volume; knows no protocol'),
    'node/cta': ('node/reservation node/bus node/interface base',
                 'knows no protocol and no device'),
    'node/uma': ('node/interface base', 'knows no protocol, no device and no process'),
    'node/rta': ('node/bus format node/interface base',
                 'turns requests into commands; devices by 320'),
    'node/module': ('node/interface base weft',
                    'drivers that are not of the program itself, by a public header; knows 320'),
    'node/rbd': ('text clock base weft', 'a driver module: Ceph by librbd, and a public header'),
    'node/ddm': ('initiator/iscsi node/module format node/interface text clock '
                 'machine base weft',
                 'one device each; knows nobody above interface 320'),
    'node/nvme': ('format node/interface text base',
                  'NVMe controllers, whatever transport carries them'),
    'node/scsi': ('format node/interface base',
                  'SCSI devices, whatever transport carries their commands'),
    'node/iscsi': ('listen node/scsi chap format node/interface text base',
                   'iSCSI sessions, whatever transport carries their PDUs'),
    'node/stream': ('listen node/loop node/interface text base',
                    'accepts, reads and writes; what octets mean is not its business'),
    'node/fabric': ('listen node/stream node/loop node/interface text base weft abi',
                    'queue pairs and their turns; what messages mean is not its business; of '
                    'stream what progress is'),
    'node/tts': ('listen node/nvme node/iscsi node/scsi format node/fabric node/stream '
                 'node/loop node/interface text wire base weft abi',
                 'one network protocol each; of wire the CRC'),
    'listen': ('text base', 'where a server is to be found, and who is at the other end'),
    'http': ('listen text base', 'a door for browsers; what it shows is its opener\'s'),
    'node/unit': ('node/rta node/ddm node/bus node/loop node/interface text base',
                  'wires the process of an RTA'),
    'node/mdns': ('', 'a module: announces by Avahi, and knows nothing of who is announced'),
    'node/discovery': ('node/mdns node/unit node/ddm node/loop format node/interface text '
                       'base weft',
                       'which volumes others have; what becomes of them is its caller\'s'),
    'node/host': ('http listen node/discovery node/unit node/iscsi node/scsi node/tts '
                  'node/fabric node/stream node/nvme node/uma node/cta node/reservation '
                  'node/rta node/ddm node/bus node/loop node/interface control cgroup machine '
                  'format text base weft',
                  'wires the host storage node'),
    'initiator/tcp': ('format wire descriptor clock base',
                      'capsules and data as PDUs on a socket; of wire the CRC'),
    'initiator/iscsi': ('chap format text descriptor clock base weft abi',
                        'an iSCSI initiator on public verbs: SCSI is its caller\'s'),
    'initiator': ('initiator/tcp format text descriptor clock machine base weft abi',
                  'public verbs only: it runs on any RNIC'),
    'draw': ('mpa wire text base',
             'a capture in, a picture out: octets go through the parsers of the engine'),
    'cli': ('http node/host node/discovery node/unit node/rta node/ddm node/interface draw '
            'control cgroup text clock base weft abi',
            'what a command needs, any program must be able to have'),
    'examples': ('weft abi', 'what any program could do: public headers alone'),
    'sim': ('rnic wq link tcp wire base weft',
            'drives whole devices from outside, and forges packets'),
}

# Of a room that may include another, the files that do, and why no others.
ONLY_IN = {
    ('rnic', 'iwarp'): (
        re.compile(r'^rnic/(ep/\w+|qp/meeting\w*)\.[ch]$'),
        'who has no stream asks transports by their table (base/transport.h)'),
    ('rnic', 'roce'): (
        re.compile(r'^rnic/(packet/create\.c|packet/store\.c|post\.h)$'),
        'transports are asked by their table; a poster says to whom a datagram goes'),
    ('iwarp', 'ddp'): (
        re.compile(r'^iwarp/(ledger|receive_early|receive_release|response)\.c$'),
        'they note what was placed beyond holes; of segments only rdmap/ knows'),
    ('host', 'tcp'): (
        re.compile(r'^host/link\.c$'), 'it says what connections of a link are made with'),
    ('sim', 'tcp'): (
        re.compile(r'^sim/path\.c$'), 'it says what connections of a link are made with'),
    ('sim', 'wq'): (
        re.compile(r'^sim/traffic\.c$'), 'it asks a queue for room that it has filled itself'),
}

# The sans-I/O rooms: no socket, clock, thread, random source or mutable global.
ENGINE_ROOMS = ('base', 'text', 'wire', 'tcp', 'net', 'mem', 'mpa', 'ddp', 'rdmap', 'cq', 'wq',
                'iwarp', 'congestion', 'roce', 'conn', 'ibcm', 'meet', 'node/interface',
                'format', 'node/bus', 'node/reservation', 'node/cta', 'node/uma', 'node/rta',
                'node/nvme', 'node/scsi', 'manager', 'draw')

# Wrappers that have a port's functions and call them, the outermost first; a folder's files are
# one. host/link.c and host/datagram.c put them before each other in this order.
STACKS = {
    'link': (
        ('link/compound.c', 'link/local/', 'link/pcap/pcap.c'),
        ('link/device/fault.c', 'link/pcap/device.c'),
        ('link/datagram/fault.c', 'link/datagram/pcap.c'),
    ),
}

# Headers that stand for what they include: a room's private page, and what a room gives to those
# who may include no more. Every other file includes itself what it uses.
CONTENTS_PAGES = set('''
    cm/cm.h ibcm/internal.h initiator/agent.h iwarp/internal.h manager/manager.h
    link/packet/internal.h net/iface_internal.h node/cta/agent.h node/rta/agent.h
    node/uma/agent.h rnic/connect.h rnic/internal.h rnic/rnic.h roce/rc_internal.h
    rsocket/rsocket.h tcp/internal.h tcp/tcb.h verbs/front.h wire/ibcm.h
'''.split())

# One word for one thing, in what people read: (what is not said, what is said in its place).
# "Octets" are on the wire; what memory, files and volumes hold are bytes.
_HOLDERS = r'(?:memory|files?|volumes?|disks?|blocks?|buffers?|pools?|rings?)'
WORDS = (
    (re.compile(rf'\b{_HOLDERS}\s+(?:of|has|have|with|takes?|holds?)\s+'
                r'[^.;:()|]{0,24}?\boctets\b', re.I), 'bytes of memory, files and volumes'),
    (re.compile(r'\b\d+ octets of (?:memory|a file|the file)\b', re.I), 'bytes of memory'),
    (re.compile(r'\bdirector(?:y|ies)\b', re.I), 'folder'),
    (re.compile(r'\bstderr\b'), 'standard error'),
    (re.compile(r'(?<![-_./=])\b[Tt]imeouts?\b(?![-_/=])'), 'time-out'),
    (re.compile(r'(?<![-_./])\b[Ss]tartup\b(?![-_/])'), 'start-up'),
)
# Rooms whose strings are messages for people, and documents that tell what others have written.
ROOMS_WITH_MESSAGES = ('cli', 'host')
WORDS_OF_OTHERS = ('CHANGELOG.md',)

# Names that each program, or driver module, has one of.
NAMES_OF_PROGRAMS = {'main', 'weft_ddm_module'}

# Rooms that are neutral, the words that they do not use, not even in a comment, and why. STag is a
# word of mem/, whatever a transport calls its keys.
FOREIGN_WORDS = {
    **dict.fromkeys(('node/interface', 'node/bus', 'node/reservation', 'node/cta', 'node/uma',
                     'node/stream'), (
        re.compile(r'nvme|nbd|scsi|verbs|ibv_|(?<![a-z])(ata|nguids?|nqns?|nsids?|luns?)(?![a-z])',
                   re.I),
        'names no network protocol and no I/O format')),
    'node/scsi': (re.compile(r'iscsi|nvme|nbd|verbs|ibv_', re.I), 'names no transport'),
    'wq': (re.compile(r'iwarp|roce|rdmap|(?<![a-z])(ddp|mpa|fpdu|m?ulpdu|terminate[sd]?|msn|llp|'
                      r'bth|aeth|reth|psn)s?(?![a-z])', re.I),
           'knows no transport and no header'),
}

# Likewise files of a room that uses the words elsewhere: which files, the words, and why.
FOREIGN_WORDS_OF_FILES = (
    (re.compile(r'link/(device/\w+\.[ch]|fault_model\.[ch]|wire\.c)|'
                r'net/(segment|iface_out)\.[ch]'),
     re.compile(r'(?<![a-z])(tcp|mss|seqs?)(?![a-z])', re.I),
     'moves segments, whose header it cannot read'),
)

# Groups of angle-bracket headers that only the rooms that name them in ROOMS may include.
HEADERS = {
    'weft': re.compile(r'^weft/'),
    'abi': re.compile(r'^(infiniband|rdma)/'),
}

# All an engine room may take from the system: types (of addresses too), memory and text, no I/O.
ENGINE_SYSTEM_HEADERS = set('''
    assert.h endian.h errno.h inttypes.h isa-l.h isa-l/crc.h limits.h stdalign.h stdarg.h
    stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h sys/sdt.h sys/types.h
    arpa/inet.h netinet/in.h sys/socket.h sys/uio.h
'''.split())

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
LINE_COLUMNS_MAX = 100

# Functions in which an engine room may take or give back memory.
MAY_ALLOCATE = re.compile(r'_(init|create|destroy|fini|resize)$')

# Words that may not be called (a trailing ! bans the mere word), and what to write instead.
BANNED_EVERYWHERE = {
    'strcpy': 'snprintf or memcpy with a checked length',
    'strcat': 'snprintf into what is left of the buffer',
    'sprintf': 'snprintf',
    'vsprintf': 'vsnprintf',
    'gets': 'fgets or getline',
    'alloca': 'a fixed array, or memory taken at creation',
    'system': 'posix_spawn or fork and execve',
    'rand': 'base/prng.h, seeded by the caller',
    'srand': 'base/prng.h, seeded by the caller',
    'strtok': 'strtok_r',
}

_TIME = 'an `instant_ns now` argument: the caller has the clock'
_RANDOM = 'a number passed in, or base/prng.h seeded by the caller'
_OUTPUT = 'a trace point (base/trace.h) or a verdict: engine rooms do not print'
_INPUT = 'a port of base/: I/O belongs to link/'
_THREAD = 'nothing: one caller at a time; threads and locks belong to rnic/'
_MEMORY = 'memory taken in a function named *_init, *_create or *_resize'

BANNED_IN_ENGINE = {
    **dict.fromkeys('time clock_gettime gettimeofday clock nanosleep usleep sleep'.split(), _TIME),
    **dict.fromkeys('random srandom drand48 getrandom getentropy arc4random'.split(), _RANDOM),
    **dict.fromkeys('printf fprintf vprintf vfprintf puts fputs putchar perror'.split(), _OUTPUT),
    **dict.fromkeys('''socket bind listen accept accept4 connect recv recvmsg recvfrom send sendmsg
                       sendto shutdown getsockopt setsockopt poll select epoll_create1 epoll_ctl
                       epoll_wait eventfd open openat read write readv writev close fopen fclose
                       fread fwrite ioctl fcntl'''.split(), _INPUT),
    **dict.fromkeys(('abort', 'exit', '_exit'), 'CHECK of base/check.h, or a verdict'),
    **dict.fromkeys(('getenv', 'secure_getenv', 'setenv'), 'a field of the configuration'),
    'errno!': 'a verdict, or a negative errno as the return value',
    r'pthread_\w+': _THREAD,
    r'mtx_\w+': _THREAD,
}
ALLOCATION = dict.fromkeys('malloc calloc realloc reallocarray free aligned_alloc posix_memalign '
                           'strdup strndup'.split(), _MEMORY)

# The one place that prints and stops the process for everybody.
STOPS_THE_PROCESS = 'base/check.h'

# What the condition of a CHECK may call: what only answers. Looks at atomics are among them.
ANSWERS = re.compile(r'(^|_)(is|has|may|can|holds|overlaps)(_|$)|'
                     r'_(check|len|count|max|min|at|of|last|start|pipe|deadline)$|'
                     r'^(find|memcmp|strlen|sizeof|atomic_load|atomic_load_explicit)$')

# Two vocabularies may be the same only where one of them is somebody else's: the ABI's.
MAY_BE_MIRRORED = re.compile(r'^(IBV|RDMA)_')

# Reasons are written into a struct why. Only functions that other programs call, who do not have
# base/why.h, are given octets for them.
REASON_AS_OCTETS = re.compile(r'(?<!const )\bchar \*(\w+_)?why\b')
MAY_TAKE_OCTETS = re.compile(r'^weft_')

# Shared library in build/lib, its version script.
LIBRARIES = {
    'libweft.so.1': 'rnic/libweft.map',
    'libibverbs.so.1': 'verbs/libibverbs.map',
    'librdmacm.so.1': 'cm/librdmacm.map',
    'libweft-view.so': 'view/libweft-view.map',
    'manager/libweft-manager.so.1': 'manager/libweft-manager.map',
    'initiator/libweft-nvme.so.1': 'initiator/libweft-nvme.map',
}

# Static libraries of nothing that is installed.
NOT_FOR_USERS = {'libweft-sim.a'}

# Names that a library exports at one version more than its script says, since a script can name
# each but once: where they are listed, as X(name), and the version.
SECOND_VERSIONS = {
    'libibverbs.so.1': ('verbs/versions.h', 'IBVERBS_1.0'),
}

# What a commit's subject may begin with, besides a room.
SUBJECT_PREFIXES = ('house', 'qp', 'node', 'node/format', 'node/chap', 'tests', 'judges', 'siw',
                    'fuzz', 'docs', 'man', 'tools', 'bench', 'include', 'packaging')

CLANG_FORMAT_VERSION = 14
