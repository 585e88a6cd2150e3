#include "cli/elf_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

enum { VERSION_INDEX_MASK = 0x7fff }; // the highest bit of a version index hides the symbol

static void interpreter_read(struct elf_file *file, const GElf_Phdr *segment)
{
    const size_t room = sizeof file->interpreter - 1;
    const size_t len = segment->p_filesz < room ? segment->p_filesz : room;
    if (pread(file->fd, file->interpreter, len, (off_t)segment->p_offset) < 0) {
        file->interpreter[0] = '\0';
    }
}

static bool headers_read(struct elf_file *file)
{
    GElf_Ehdr header;
    size_t count;
    if (elf_kind(file->elf) != ELF_K_ELF || gelf_getehdr(file->elf, &header) == NULL ||
        elf_getphdrnum(file->elf, &count) != 0) {
        return false;
    }
    file->class = gelf_getclass(file->elf);
    file->machine = header.e_machine;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(file->elf, (int)i, &segment) != NULL && segment.p_type == PT_INTERP) {
            file->has_interpreter = true;
            interpreter_read(file, &segment);
        }
    }
    return true;
}

enum elf_answer elf_file_open(const char *path, struct elf_file *ret)
{
    *ret = (struct elf_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (ret->fd < 0) {
        return ELF_IS_UNREADABLE;
    }
    elf_version(EV_CURRENT);
    ret->elf = elf_begin(ret->fd, ELF_C_READ_MMAP, NULL);
    if (ret->elf == NULL || !headers_read(ret)) {
        elf_file_close(ret);
        return ELF_IS_OTHER;
    }
    return ELF_IS_READ;
}

void elf_file_close(struct elf_file *file)
{
    elf_end(file->elf);
    close(file->fd);
    *file = (struct elf_file){.fd = -1};
}

// The first section of a type, its header and contents; false if there is none.
static bool section_find(const struct elf_file *file, GElf_Word type, GElf_Shdr *ret_header,
                         Elf_Data **ret_data)
{
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        if (gelf_getshdr(section, ret_header) != NULL && ret_header->sh_type == type) {
            *ret_data = elf_getdata(section, NULL);
            return *ret_data != NULL && ret_header->sh_entsize <= ret_header->sh_size;
        }
    }
    return false;
}

static size_t entry_count(const GElf_Shdr *header)
{
    return header->sh_entsize != 0 ? header->sh_size / header->sh_entsize : 0;
}

void elf_file_each_dynamic(const struct elf_file *file,
                           void (*visit)(void *ctx, const struct elf_dynamic_entry *entry),
                           void *ctx)
{
    GElf_Shdr header;
    Elf_Data *data;
    if (!section_find(file, SHT_DYNAMIC, &header, &data)) {
        return;
    }
    for (size_t i = 0; i < entry_count(&header); i++) {
        GElf_Dyn entry;
        if (gelf_getdyn(data, (int)i, &entry) == NULL || entry.d_tag == DT_NULL) {
            return;
        }
        if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) {
            const char *text = elf_strptr(file->elf, header.sh_link, entry.d_un.d_val);
            if (text != NULL) {
                visit(ctx, &(struct elf_dynamic_entry){.tag = (long)entry.d_tag, .text = text});
            }
        }
    }
}

/* ---- versions -------------------------------------------------------------------------------- */

// Fills in version and library of a needed symbol, from its version index.
static bool version_needed_find(const struct elf_file *file, GElf_Versym index,
                                struct elf_symbol *ret)
{
    GElf_Shdr header;
    Elf_Data *data;
    if (!section_find(file, SHT_GNU_verneed, &header, &data)) {
        return false;
    }
    int offset = 0;
    GElf_Verneed need;
    for (size_t i = 0; i < header.sh_info && gelf_getverneed(data, offset, &need) != NULL; i++) {
        int aux_offset = offset + (int)need.vn_aux;
        GElf_Vernaux aux;
        for (size_t k = 0; k < need.vn_cnt && gelf_getvernaux(data, aux_offset, &aux) != NULL;
             k++) {
            if (aux.vna_other == index) {
                ret->version = elf_strptr(file->elf, header.sh_link, aux.vna_name);
                ret->library = elf_strptr(file->elf, header.sh_link, need.vn_file);
                return ret->version != NULL && ret->library != NULL;
            }
            aux_offset += (int)aux.vna_next;
        }
        offset += (int)need.vn_next;
    }
    return false;
}

static bool version_defined_find(const struct elf_file *file, GElf_Versym index,
                                 struct elf_symbol *ret)
{
    GElf_Shdr header;
    Elf_Data *data;
    if (!section_find(file, SHT_GNU_verdef, &header, &data)) {
        return false;
    }
    int offset = 0;
    GElf_Verdef definition;
    for (size_t i = 0; i < header.sh_info && gelf_getverdef(data, offset, &definition) != NULL;
         i++) {
        GElf_Verdaux aux;
        if (definition.vd_ndx == index &&
            gelf_getverdaux(data, offset + (int)definition.vd_aux, &aux) != NULL) {
            ret->version = elf_strptr(file->elf, header.sh_link, aux.vda_name);
            return ret->version != NULL;
        }
        offset += (int)definition.vd_next;
    }
    return false;
}

void elf_file_each_symbol(const struct elf_file *file, bool is_defined,
                          void (*visit)(void *ctx, const struct elf_symbol *symbol), void *ctx)
{
    GElf_Shdr header, version_header;
    Elf_Data *data, *versions;
    if (!section_find(file, SHT_GNU_versym, &version_header, &versions) ||
        !section_find(file, SHT_DYNSYM, &header, &data)) {
        return;
    }
    for (size_t i = 1; i < entry_count(&header); i++) {
        GElf_Sym raw;
        GElf_Versym index;
        if (gelf_getsym(data, (int)i, &raw) == NULL ||
            gelf_getversym(versions, (int)i, &index) == NULL ||
            (raw.st_shndx != SHN_UNDEF) != is_defined) {
            continue;
        }
        struct elf_symbol symbol = {
            .name = elf_strptr(file->elf, header.sh_link, raw.st_name),
            .is_weak = GELF_ST_BIND(raw.st_info) == STB_WEAK,
        };
        index &= VERSION_INDEX_MASK;
        if (symbol.name != NULL && (is_defined ? version_defined_find(file, index, &symbol)
                                               : version_needed_find(file, index, &symbol))) {
            visit(ctx, &symbol);
        }
    }
}

/* ---- what stands in it ----------------------------------------------------------------------- */

bool elf_file_has_section(const struct elf_file *file, const char *name)
{
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(file->elf, &names) != 0) {
        return false;
    }
    for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) != NULL;) {
        const char *has = gelf_getshdr(section, &header) != NULL
                              ? elf_strptr(file->elf, names, header.sh_name)
                              : NULL;
        if (has != NULL && strcmp(has, name) == 0) {
            return true;
        }
    }
    return false;
}

bool elf_file_contains(const struct elf_file *file, const void *octets, size_t len)
{
    size_t size = 0;
    const char *all = elf_rawfile(file->elf, &size);
    return all != NULL && memmem(all, size, octets, len) != NULL;
}
