# A thin front of meson and ninja; tools/ holds what is more than one line.

BUILD  ?= build
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
# install, uninstall: where to, by GNU's names; what is not given is as the build directory has it.
DESTDIR ?=
PREFIX ?= /usr/local
prefix ?= $(PREFIX)
FOLDERS = $(foreach name,prefix bindir libdir includedir datadir mandir,\
            $(if $($(name)),'$(name)=$($(name))'))
# bench: one group, or empty for all of them.
BENCH  ?=
# cost, pairs: another build directory, to hold this one against.
AGAINST ?=
# dist, deb, deb-test: releases of Debian; empty for this machine, and for those that are tested.
SUITE  ?=
# mechanisms: a word in the names of the elements.
ONLY   ?=
# mutants: rooms (parted by commas, or empty for all), what is drawn, and how many.
ROOM   ?=
SEED   ?= 1
N      ?= 100

.PHONY: all demo pictures html check judges ci bench cost pairs lint soak mutants mechanisms \
        install uninstall dist image deb deb-test rpm clean help

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS)

$(BUILD)/build.ninja:
	@meson setup $(BUILD) $$(tools/werror)

help:
	@echo 'make            build into $(BUILD)/: weft, and lib/ with the three libraries'
	@echo 'make demo       install the packages needed, build, show RDMA programs and a storage node'
	@echo 'make pictures   draw docs/pictures again, from runs on this machine'
	@echo 'make html       the documents as a site of plain files, in $(BUILD)/html/'
	@echo 'make check      install the packages needed, build, run our own tests (also sanitized)'
	@echo 'make judges     ... by foreign programs, and beside whole systems: kernels, Ceph, MPI'
	@echo 'make ci         make check and make judges, with one count: what .ci/run does'
	@echo 'make bench      measure; BENCH=group for one group; writes $(BUILD)/bench.json and .html'
	@echo 'make cost       count the instructions of an operation (needs valgrind); AGAINST=DIR'
	@echo 'make pairs      time it beside another build, in turn; AGAINST=DIR'
	@echo 'make lint       prove the rules of the house from sources and objects'
	@echo 'make soak       every test with full counts, and those too long for make check'
	@echo 'make mutants    change the code and see whether tests notice; ROOM=mem,tcp SEED=1 N=100'
	@echo 'make mechanisms  take each element of the source documents away, see its test fail'
	@echo 'make install    install below prefix ($(prefix)), staged in DESTDIR; libdir= and so on'
	@echo 'make uninstall  take away what make install puts there'
	@echo 'make dist       a tarball for any folder, in $(BUILD)-dist/; SUITE=bullseye: glibc 2.31'
	@echo 'make image      a container image of that, in build-image/: an OCI layout'
	@echo 'make deb        Debian packages, in build-deb/; SUITE=trixie: in a clean chroot of it'
	@echo 'make deb-test   build, install, use and purge them in clean chroots; SUITE=bookworm'
	@echo 'make rpm        RPM packages, in build-rpm/'
	@echo 'make clean      remove the build directories'

demo:
	@tools/packages.sh build demo
	@$(MAKE) --no-print-directory all
	@tools/demo $(BUILD)

pictures: all
	@tools/pictures $(BUILD)

html:
	@tools/packages.sh html
	@tools/site $(BUILD)/html

check:
	@tools/packages.sh build demo test dist image browser
	@tools/check --build $(BUILD)

judges:
	@tools/packages.sh build demo test browser vm ceph
	@tools/check --build $(BUILD) build judges systems

ci:
	@tools/packages.sh build demo test dist image browser vm ceph
	@tools/check --build $(BUILD) --judges

soak:
	@tools/packages.sh build demo test dist deb rpm image browser vm ceph
	@tools/check --build $(BUILD) --soak

bench: all
	@tools/bench --build $(BUILD) $(BENCH)

cost: all
	@tools/cost --build $(BUILD) $(if $(AGAINST),--against $(AGAINST))

pairs: all
	@tools/pairs --build $(BUILD) --against '$(AGAINST)'

lint: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) $$(tools/lint --reads)
	@tools/lint --build $(BUILD)

mutants:
	@tools/packages.sh build test
	@tools/mutants --rooms '$(ROOM)' --seed $(SEED) --count $(N)

mechanisms:
	@tools/packages.sh build test
	@tools/mechanisms --only '$(ONLY)'

install: all
	@tools/install --build $(BUILD) --destdir '$(DESTDIR)' $(FOLDERS)

uninstall: $(BUILD)/build.ninja
	@tools/install --uninstall --build $(BUILD) --destdir '$(DESTDIR)' $(FOLDERS)

dist:
	@tools/packages.sh build dist
	@tools/dist --build $(BUILD)-dist $(if $(SUITE),--suite=$(SUITE))

image: dist
	@tools/packages.sh demo image
	@rm -rf build-image
	@tools/image --dist "$$(ls -t $(BUILD)-dist/weft-*.tar.gz | head -n 1)"

deb:
	@tools/packages.sh build deb
	@tools/deb $(if $(SUITE),--suite=$(SUITE))

deb-test:
	@tools/packages.sh deb
	@tests/packaging/test_deb.py $(SUITE)

rpm:
	@tools/packages.sh build rpm
	@tools/rpm

clean:
	rm -rf $(BUILD) $(BUILD)-dist build-asan build-tsan build-clang build-fuzzer build-lto \
		build-mutants build-mechanisms build-deb build-rpm build-image build-overhead
