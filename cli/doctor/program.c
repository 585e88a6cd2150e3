// Checks of a program: whether the loader would give it weft's libraries, whether they have what it
// asks for, which device it would find. It is read, and never run.

#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/device_wire.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/script.h"
#include "cli/elf_file.h"
#include "cli/needs.h"
#include "cli/objection.h"
#include "text/show.h"

/* ---- which file it is ------------------------------------------------------------------------ */

enum { SCRIPT_DEPTH_MAX = 4 }; // as many as the kernel follows
enum { CURE_WORD_MAX = 96 };   // of a path in a command; a longer one is left out

// The file that is loaded in the end: the program, or the interpreter of a script. False: there is
// none, which `ret` says.
static bool file_find(const struct doctor_subject *subject, char path[PATH_MAX],
                      struct finding *ret)
{
    const struct hearer hearer = finding_hearer(ret);
    struct script script;
    char name[SCRIPT_WORD_MAX], word[CURE_WORD_MAX];
    if (program_find(subject->program, path, &hearer) != 0) {
        return false;
    }
    for (unsigned i = 0; i < SCRIPT_DEPTH_MAX && script_read(path, &script); i++) {
        const bool is_env = script_of_env(&script, name);
        const char *next = is_env ? name : script.interpreter;
        finding_see_more(ret, "a script of %s", next);
        if (program_find(next, path, &hearer) != 0) {
            const size_t len = strlen(next);
            if (len > 0 && next[len - 1] == '\r') {
                finding_cure(ret, "sed -i 's/\\r$//' %s",
                             text_shell_quote(subject->program, word, sizeof word));
            }
            return false;
        }
    }
    return true;
}

// The same, open; what is wrong with it is said by the check that is about that.
static bool file_open(const struct doctor_subject *subject, char path[PATH_MAX],
                      struct elf_file *ret)
{
    struct finding unsaid = {.result = FINDING_OK};
    return file_find(subject, path, &unsaid) && elf_file_open(path, ret) == ELF_IS_READ;
}

// What keeps the environment from the programs that a script starts.
static void script_judge(const struct doctor_subject *subject, struct finding *ret)
{
    static const char *const words[] = {"sudo", "su", "doas", "pkexec", "runuser"};
    char path[PATH_MAX], word[CURE_WORD_MAX];
    program_find(subject->program, path, &hearer_deaf);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (script_has_word(path, words[i]) &&
            finding_worsen(
                ret, FINDING_WARNING,
                "it names %s, which keeps LD_LIBRARY_PATH from what it starts: that gets "
                "the system's libraries",
                words[i])) {
            finding_cure(ret, "%s weft run %s", words[i],
                         text_shell_quote(subject->program, word, sizeof word));
        }
    }
    finding_worsen(ret, FINDING_NOTE, "the interpreter is looked into; what it loads later is not");
}

static const char unknown[] = "not looked at: there is no program to look into";

static void program_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    struct elf_file file;
    if (!file_find(subject, path, ret)) {
        finding_see_more(ret, "%s", subject->program);
        return;
    }
    const bool is_script = ret->seen[0] != '\0';
    finding_see_more(ret, "%s", path);
    const enum elf_answer answer = elf_file_open(path, &file);
    if (answer == ELF_IS_READ) {
        elf_file_close(&file);
    } else if (answer == ELF_IS_UNREADABLE) {
        finding_worsen(ret, FINDING_WARNING, "it cannot be read, and so not be looked into: %s",
                       strerror(errno));
    } else if (program_is_elf(path)) {
        finding_worsen(ret, FINDING_FAILURE,
                       "the file is damaged: it begins as a program, no more");
    } else {
        finding_worsen(ret, FINDING_NOTE, "it has no first line with #!: the shell runs it");
    }
    if (is_script && answer == ELF_IS_READ) {
        script_judge(subject, ret);
    }
}

/* ---- whether the loader listens -------------------------------------------------------------- */

static void rights_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    const struct hearer hearer = finding_hearer(ret);
    struct finding unsaid = {.result = FINDING_OK};
    if (!file_find(subject, path, &unsaid)) {
        finding_see(ret, "%s", unknown);
        return;
    }
    const bool has_more = program_rights_check(path, &hearer) != 0;
    finding_see(ret, "%s", has_more ? "more than the caller's" : "those of the caller");
    if (has_more) {
        char file[CURE_WORD_MAX], word[CURE_WORD_MAX];
        const char *slash = strrchr(path, '/');
        finding_cure(ret, "cp %s . && weft run ./%s", text_shell_quote(path, file, sizeof file),
                     text_shell_quote(slash != NULL ? slash + 1 : path, word, sizeof word));
    }
}

static const char *machine_name(const struct elf_file *file)
{
    static const struct {
        int machine;
        const char *name;
    } machines[] = {{EM_X86_64, "x86-64"},    {EM_386, "x86"},     {EM_AARCH64, "ARM"},
                    {EM_ARM, "ARM"},          {EM_PPC64, "POWER"}, {EM_RISCV, "RISC-V"},
                    {EM_S390, "IBM System z"}};
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        if (machines[i].machine == file->machine) {
            return machines[i].name;
        }
    }
    return "another processor";
}

static void machine_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    struct elf_file file;
    const struct hearer hearer = finding_hearer(ret);
    if (!file_open(subject, path, &file)) {
        finding_see(ret, "%s", unknown);
        return;
    }
    finding_see(ret, "%d bits of %s", file.class == ELFCLASS64 ? 64 : 32, machine_name(&file));
    program_machine_check(&file, path, &hearer);
    elf_file_close(&file);
}

static void linking_judge(const struct elf_file *file, const char *path, struct finding *ret)
{
    const struct hearer hearer = finding_hearer(ret);
    const bool is_go = elf_file_has_section(file, ".go.buildinfo");
    if (program_linking_check(file, path, &hearer) != 0) {
        finding_see(ret, is_go ? "static, as Go links without cgo" : "static");
        finding_cure(ret, is_go ? "CGO_ENABLED=1 go build" : "link it without -static");
        return;
    }
    finding_see(ret, "dynamic, by %s", file->interpreter);
    if (strstr(file->interpreter, "ld-musl") != NULL) {
        finding_worsen(ret, FINDING_FAILURE,
                       "it is linked with musl, and weft's libraries want glibc");
        finding_cure(ret, "apk add gcompat; or build it on a system with glibc");
    } else if (access(file->interpreter, X_OK) != 0) {
        finding_worsen(ret, FINDING_FAILURE,
                       "its loader is not here (%s): the kernel says of the program itself that it "
                       "does not exist",
                       strerror(errno));
        char word[CURE_WORD_MAX];
        finding_cure(ret,
                     "patchelf --set-interpreter \"$(patchelf --print-interpreter /bin/sh)\" %s",
                     text_shell_quote(path, word, sizeof word));
    }
}

static void linking_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    struct elf_file file;
    if (!file_open(subject, path, &file)) {
        finding_see(ret, "%s", unknown);
        return;
    }
    linking_judge(&file, path, ret);
    elf_file_close(&file);
}

/* ---- what it asks of verbs ------------------------------------------------------------------- */

static bool contains(const struct elf_file *file, const char *text)
{
    return elf_file_contains(file, text, strlen(text));
}

struct traits {
    bool wants_datagrams; // it names address handles
    bool looks_at_files;  // of devices, in /sys or /dev
    bool has_ucx;         // whose InfiniBand devices alone count
};

static void symbol_note(void *ctx, const struct elf_symbol *symbol)
{
    struct traits *t = ctx;
    t->wants_datagrams = t->wants_datagrams || strcmp(symbol->name, "ibv_create_ah") == 0;
}

static void library_note(void *ctx, const struct elf_dynamic_entry *entry)
{
    static const char *const names[] = {"libucp.so", "libuct.so", "libucs.so", "libmpi.so"};
    struct traits *t = ctx;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        t->has_ucx = t->has_ucx || strncmp(entry->text, names[i], strlen(names[i])) == 0;
    }
}

static void traits_find(const struct elf_file *file, struct traits *ret)
{
    *ret = (struct traits){.looks_at_files = contains(file, "/sys/class/infiniband/") ||
                                             contains(file, "/dev/infiniband")};
    elf_file_each_symbol(file, false, symbol_note, ret);
    elf_file_each_dynamic(file, library_note, ret);
}

// It needs no library of verbs from the start: it may load one later, or have a copy in itself.
static void later_judge(const struct elf_file *file, struct finding *ret)
{
    static const char name[] = "libibverbs.so"; // with its end: nothing follows
    struct traits traits;
    traits_find(file, &traits);
    if (contains(file, "libibverbs.so.1")) {
        finding_see(ret, "libibverbs.so.1 is loaded while it runs, which gets weft's");
    } else if (elf_file_contains(file, name, sizeof name)) {
        finding_see(ret, "libibverbs.so is loaded while it runs");
        finding_worsen(ret, FINDING_WARNING,
                       "weft's is libibverbs.so.1: by the name without a number the system's is "
                       "found, if there is one");
    } else if (contains(file, "/dev/infiniband/uverbs") ||
               contains(file, "/sys/class/infiniband_verbs")) {
        finding_see(ret, "a copy of libibverbs is a part of it");
        finding_worsen(ret, FINDING_FAILURE,
                       "a copy within the program looks for devices of the kernel, and weft's "
                       "library is never asked");
        finding_cure(ret, "link it with -libverbs -lrdmacm in place of the copies");
    } else if (traits.has_ucx) {
        finding_see(ret, "UCX or MPI asks for them, by plug-ins that are not looked into");
    } else {
        finding_see(ret, "neither it nor its libraries ask for libibverbs or librdmacm");
        finding_worsen(ret, FINDING_NOTE,
                       "weft changes nothing for it, unless it loads them by a "
                       "plug-in or by a script");
    }
}

static void verbs_judge(const struct doctor_subject *subject, const struct elf_file *file,
                        const char *path, struct finding *ret)
{
    struct needs needs = {.function_count = 0};
    const struct hearer hearer = finding_hearer(ret);
    needs_check(file, path, subject->library_dir, false, &hearer, &needs);
    if (needs.user[0] == '\0' && ret->result != FINDING_FAILURE) {
        later_judge(file, ret);
        return;
    }
    finding_see(ret, "%u functions wanted%s%s", needs.function_count,
                needs.is_program_itself ? "" : " by ", needs.is_program_itself ? "" : needs.user);
    if (ret->result != FINDING_FAILURE) {
        finding_see_more(ret, "and weft has them");
    }
}

static void verbs_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    struct elf_file file;
    if (!file_open(subject, path, &file)) {
        finding_see(ret, "%s", unknown);
        return;
    }
    if (file.has_interpreter && subject->library_dir[0] != '\0') {
        verbs_judge(subject, &file, path, ret);
    } else {
        later_judge(&file, ret);
    }
    elf_file_close(&file);
}

/* ---- which device it finds ------------------------------------------------------------------- */

// Of programs that could do with either device weft0 is the first.
static void traits_judge(const struct doctor_subject *subject, const struct traits *traits,
                         struct finding *ret)
{
    const char *why = traits->has_ucx ? "UCX, and MPI on it, take InfiniBand devices alone: "
                      : traits->looks_at_files
                          ? "it looks at /sys/class/infiniband or /dev/infiniband itself, where "
                            "devices are shown with this wire: "
                          : "it can send datagrams (UD), which a device has alone: ";
    if (!traits->has_ucx && !traits->looks_at_files && !traits->wants_datagrams) {
        return;
    }
    if (finding_worsen(ret, doctor_wants_roce(subject) ? FINDING_NOTE : FINDING_WARNING, "%s%s",
                       why, DEVICE_NAME_ROCE)) {
        char word[CURE_WORD_MAX];
        finding_cure(ret, "weft run --wire=roce %s",
                     text_shell_quote(subject->program, word, sizeof word));
    }
}

static void device_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    struct elf_file file;
    struct traits traits;
    if (doctor_wants_roce_alone(subject)) {
        finding_see(ret, DEVICE_NAME_ROCE " (RoCEv2)");
        return;
    }
    finding_see(ret, DEVICE_NAME_IWARP " (iWARP)%s",
                doctor_wants_roce(subject) ? ", then " DEVICE_NAME_ROCE " (RoCEv2)" : "");
    if (file_open(subject, path, &file)) {
        traits_find(&file, &traits);
        traits_judge(subject, &traits, ret);
        elf_file_close(&file);
    }
}

/* ---- what it would be refused ---------------------------------------------------------------- */

// Verbs that no symbol of a program shows: an inline function, or a field, asks for them.
static const char unshown[] = "XRC and raw packet queue pairs, flows, device memory";

// Programs of the distributions whose only purpose is one of them.
static const struct {
    const char *prefix, *what, *instead;
} devoted[] = {
    {"raw_ethernet_", "raw packet queue pairs", "weft run ib_send_bw"},
    {"ibv_xsrq_pingpong", "XRC queue pairs", "weft run --wire=roce ibv_srq_pingpong -g 0"},
};

static void devoted_judge(const char *path, struct finding *ret)
{
    const char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof devoted / sizeof devoted[0]; i++) {
        if (strncmp(name, devoted[i].prefix, strlen(devoted[i].prefix)) == 0) {
            finding_worsen(ret, FINDING_FAILURE, "%s are what it is for, and weft refuses them",
                           devoted[i].what);
            finding_cure(ret, "%s", devoted[i].instead);
        }
    }
}

static void refused_look(const struct doctor_subject *subject, struct finding *ret)
{
    char path[PATH_MAX];
    struct elf_file file;
    struct needs needs = {.function_count = 0};
    if (!file_open(subject, path, &file)) {
        finding_see(ret, "%s", unknown);
        return;
    }
    if (file.has_interpreter && subject->library_dir[0] != '\0') {
        needs_check(&file, path, subject->library_dir, true, &hearer_deaf, &needs);
    }
    if (needs.user[0] != '\0') {
        finding_see(ret, "%s: whether it asks for any no file shows", unshown);
        devoted_judge(path, ret);
    } else {
        finding_see(ret, "nothing: it asks for no verbs itself");
    }
    elf_file_close(&file);
}

static const struct doctor_check checks[] = {
    {"program", "which file it is", program_look},
    {"rights", "whether the loader listens to its caller's environment", rights_look},
    {"machine", "which processor it is built for", machine_look},
    {"linking", "whether libraries can be given to it", linking_look},
    {"verbs", "what it asks of libibverbs and librdmacm", verbs_look},
    {"device", "which devices it is shown", device_look},
    {"refused", "what it would be refused if it asked", refused_look},
};

const struct doctor_group doctor_program = {"Program", checks, sizeof checks / sizeof checks[0],
                                            true};
