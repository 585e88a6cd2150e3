#!/bin/sh
# Installs the Debian or Ubuntu packages that a part of weft's work needs, and nothing where they
# are there already.
#
#     tools/packages.sh [--print] SET...
#
# SET is one or more of
#     build   the libraries and the weft command
#     demo    the programs that `make demo` runs
#     test    what `make check` runs besides
#     dist    what `make dist` packs with
#     deb     what `make deb` makes packages with
#     rpm     what `make rpm` makes packages with
#     browser a browser for the tests of the pages (which skip without it)
#     ceph    the driver of Ceph's images, and a cluster for its tests (which skip without it)
#     image   what `make image` puts into it, and what its test runs it with
#     html    what `make html` makes the site with
#     vm      a virtual machine with the Linux kernel's software RDMA (tests skip without it)
#
# As root, or where sudo works, it installs what is missing. Otherwise it names it and exits with 1.
# Optional packages are installed where the distribution has them; without them something smaller is
# left out, and whoever leaves it out says so. --print names the packages and does nothing.
# Works on Debian 12 and 13; in Ubuntu the packages have the same names, untried.
set -u

build="gcc libc6-dev make binutils python3 meson ninja-build pkg-config
       libisal-dev libibverbs-dev librdmacm-dev libjson-c-dev libelf-dev
       libncurses-dev liburing-dev uuid-dev libinih-dev libmicrohttpd-dev libiscsi-dev
       libseccomp-dev libnbd-dev nettle-dev"
build_optional="systemtap-sdt-dev libavahi-client-dev"
demo="rdmacm-utils perftest"
test="libcmocka-dev ibverbs-utils rdmacm-utils perftest qperf fio python3-pyverbs rdma-core
      tshark tcpdump curl iproute2 procps util-linux tmux
      qemu-utils libnbd-bin nbdkit libiscsi-bin"
test_optional="ucx-utils libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev
               clang clang-format-14 iperf3 git mandoc cmark-gfm nodejs tgt fish zsh
               qemu-block-extra dapl2-utils avahi-daemon avahi-utils dbus-daemon
               g++ libgloo-dev nftables"
dist="patchelf"
deb="build-essential debhelper dh-apparmor fakeroot systemtap-sdt-dev"
deb_optional="lintian mmdebstrap"
rpm="rpm"
rpm_optional="rpmlint"
ceph_optional="librbd-dev ceph-mon ceph-osd ceph-common qemu-block-extra"
html="cmark-gfm mandoc"
image="busybox-static bubblewrap"
browser_optional="chromium"
vm_optional="qemu-system-x86 busybox-static kmod xz-utils ibverbs-providers
             nvme-cli open-iscsi e2fsprogs fio"

required=
optional=
only_print=
for word in "$@"; do
    case "$word" in
    --print) only_print=yes ;;
    build) required="$required $build" optional="$optional $build_optional" ;;
    demo) required="$required $demo" ;;
    test) required="$required $test" optional="$optional $test_optional" ;;
    dist) required="$required $dist" ;;
    deb) required="$required $deb" optional="$optional $deb_optional" ;;
    rpm) required="$required $rpm" optional="$optional $rpm_optional" ;;
    html) required="$required $html" ;;
    image) required="$required $image" ;;
    ceph) optional="$optional $ceph_optional" ;;
    browser) optional="$optional $browser_optional" ;;
    vm) optional="$optional $vm_optional" ;;
    *)
        echo "tools/packages.sh: no such set: $word" \
            "(sets: build demo test dist deb rpm image browser ceph vm)" >&2
        exit 2
        ;;
    esac
done

# What went wrong, with which object, why, and what to do.
fail() {
    printf 'weft: %s: %s\n  why: %s\n  do:  %s\n' "$1" "$2" "$3" "$4" >&2
    exit 1
}

words() {
    # One line, single spaces, each word once.
    printf '%s\n' $* | sort -u | tr '\n' ' ' | sed 's/ $//'
}

required=$(words $required)
optional=$(words $optional)
if [ -n "$only_print" ]; then
    echo "required: $required"
    echo "optional: $optional"
    exit 0
fi

# Other distributions: meson names what it lacks, so this script only says what to look for.
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "weft: this is no Debian or Ubuntu; not installing the likes of: $required" >&2
    exit 0
fi

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# apt's name for something that stands in for a package counts too: pkgconf for pkg-config.
is_provided() {
    [ "$1" = pkg-config ] && command -v pkg-config >/dev/null
}

missing_of() {
    for package in $*; do
        is_installed "$package" || is_provided "$package" || printf '%s ' "$package"
    done
}

has_lists() {
    ls /var/lib/apt/lists/ 2>/dev/null | grep -q Packages
}

missing=$(words $(missing_of $required))
wanted=$(words $(missing_of $optional))
[ -n "$missing$wanted" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=env
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && [ -t 2 ]; }; }; then
    as_root='sudo env'
else
    [ -n "$missing" ] || exit 0
    fail "packages missing" "$missing" "neither root nor sudo, so they cannot be installed here" \
        "as root: apt-get install --no-install-recommends $missing"
fi

log=$(mktemp) || fail "no temporary file" "${TMPDIR:-/tmp}" "mktemp failed" "make room there"
trap 'rm -f "$log"' EXIT

apt_get() {
    $as_root DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -y \
        -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null
}

install() {
    apt_get install --no-install-recommends "$@"
}

has_candidate() {
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

updated=
update() {
    [ -n "$updated" ] || apt_get update
    updated=yes
}

has_lists || update
if [ -n "$missing" ]; then
    echo "weft: installing $missing" >&2
    install $missing || { update && install $missing; } || {
        tail -n 15 "$log" >&2
        fail "packages not installed" "$missing" "apt-get failed, its last words are above" \
            "as root: apt-get update && apt-get install --no-install-recommends $missing"
    }
fi

available=
for package in $wanted; do
    if has_candidate "$package"; then
        available="$available $package"
    fi
done
if [ -n "$available" ]; then
    echo "weft: installing (optional)$available" >&2
    install $available || { update && install $available; } ||
        echo "weft: optional packages not installed:$available" >&2
fi
exit 0
