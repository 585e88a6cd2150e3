#include "view/tree.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view/address.h"

enum { TEXT_MAX = 64, INDEX_TEXT_MAX = 16 };

// What the files tell of, looked at once for all of them.
struct facts {
    const struct identity *identity;
    struct view_address gids[VIEW_ADDRESS_MAX];
    unsigned gid_count;
};

/* ---- what files say -------------------------------------------------------------------------- */

typedef void say_fn(const struct facts *facts, char ret[TEXT_MAX]);

static void say_name(const struct facts *facts, char ret[TEXT_MAX])
{
    snprintf(ret, TEXT_MAX, "%s", facts->identity->name);
}

static void say_node_type(const struct facts *facts, char ret[TEXT_MAX])
{
    snprintf(ret, TEXT_MAX, "%s", facts->identity->node_type_text);
}

static void say_capabilities(const struct facts *facts, char ret[TEXT_MAX])
{
    snprintf(ret, TEXT_MAX, "0x%08x", facts->identity->port_cap_flags);
}

// Groups of four digits, `count` of them, with colons between.
static void say_groups(const uint8_t *octets, unsigned count, char ret[TEXT_MAX])
{
    int len = 0;
    for (unsigned i = 0; i < count; i++) {
        len += snprintf(ret + len, (size_t)(TEXT_MAX - len), "%s%02x%02x", i > 0 ? ":" : "",
                        octets[2 * i], octets[2 * i + 1]);
    }
}

static void say_guid(const struct facts *facts, char ret[TEXT_MAX])
{
    const uint64_t guid = htobe64(identity_guid(facts->identity));
    say_groups((const uint8_t *)&guid, sizeof guid / 2, ret);
}

/* ---- what files of a GID say ----------------------------------------------------------------- */

typedef void say_gid_fn(const struct facts *facts, unsigned index, char ret[TEXT_MAX]);

static void say_gid(const struct facts *facts, unsigned index, char ret[TEXT_MAX])
{
    const struct in6_addr *addr = &facts->gids[index].addr;
    say_groups(addr->s6_addr, sizeof *addr / 2, ret);
}

static void say_gid_type(const struct facts *facts, unsigned index, char ret[TEXT_MAX])
{
    snprintf(ret, TEXT_MAX, "%s", facts->identity->gid_type_text);
}

static void say_interface(const struct facts *facts, unsigned index, char ret[TEXT_MAX])
{
    snprintf(ret, TEXT_MAX, "%s", facts->gids[index].interface);
}

/* ---- the tables ------------------------------------------------------------------------------ */

// Under the root; % stands for the device's name.
#define BASE   "devices/virtual/weft/%"
#define DEVICE BASE "/infiniband/%"
#define PORT   DEVICE "/ports/1"
#define VERBS  BASE "/infiniband_verbs/%"

// Those above before those within.
static const char *const folders[] = {
    "class",
    "class/infiniband",
    "class/infiniband_verbs",
    "dev",
    "dev/infiniband",
    "devices",
    "devices/virtual",
    "devices/virtual/weft",
    BASE,
    BASE "/infiniband",
    DEVICE,
    DEVICE "/ports",
    PORT,
    PORT "/gids",
    PORT "/pkeys",
    PORT "/gid_attrs",
    PORT "/gid_attrs/types",
    PORT "/gid_attrs/ndevs",
    BASE "/infiniband_verbs",
    VERBS,
    BASE "/net",
};

static const struct file {
    const char *path;
    const char *text; // NULL: `say` has it
    say_fn *say;
} files[] = {
    {BASE "/numa_node", "-1", NULL},
    {DEVICE "/node_type", NULL, say_node_type},
    {DEVICE "/node_desc", NULL, say_name},
    {DEVICE "/node_guid", NULL, say_guid},
    {DEVICE "/fw_ver", WEFT_VERSION, NULL},
    {DEVICE "/sys_image_guid", NULL, say_guid},
    {PORT "/state", "4: ACTIVE", NULL},
    {PORT "/phys_state", "5: LinkUp", NULL},
    {PORT "/link_layer", "Ethernet", NULL},
    {PORT "/lid", "0x0", NULL},
    {PORT "/lid_mask_count", "0", NULL},
    {PORT "/sm_lid", "0x0", NULL},
    {PORT "/sm_sl", "0", NULL},
    {PORT "/rate", "100 Gb/sec (4X EDR)", NULL},
    {PORT "/cap_mask", NULL, say_capabilities},
    {PORT "/pkeys/0", "0xffff", NULL},
    {VERBS "/ibdev", NULL, say_name},
    {VERBS "/abi_version", "1", NULL},
};

// One for each GID, by its index.
static const struct gid_file {
    const char *folder;
    say_gid_fn *say;
} gid_files[] = {
    {PORT "/gids/", say_gid},
    {PORT "/gid_attrs/types/", say_gid_type},
    {PORT "/gid_attrs/ndevs/", say_interface},
};

static const struct name {
    const char *path, *target;
} names[] = {
    {DEVICE "/device", "../.."},
    {VERBS "/device", "../.."},
    {"class/infiniband/%", "../../" DEVICE},
    {"class/infiniband_verbs/%", "../../" VERBS},
    {"dev/infiniband/%", "/dev/null"},
};

// ROOT/ENTRY with the device's name in it.
static bool expand(const char *root, const char *entry, const struct identity *identity,
                   char ret[TREE_PATH_MAX])
{
    const size_t name_len = strlen(identity->name);
    size_t len = (size_t)snprintf(ret, TREE_PATH_MAX, "%s", root);
    for (const char *c = entry; *c != '\0'; c++) {
        const char *text = *c == '%' ? identity->name : c;
        const size_t text_len = *c == '%' ? name_len : 1;
        if (len + text_len >= TREE_PATH_MAX) {
            return false;
        }
        memcpy(ret + len, text, text_len);
        len += text_len;
    }
    ret[len] = '\0';
    return true;
}

bool tree_device_path(const char *root, const struct identity *identity, char ret[TREE_PATH_MAX])
{
    return expand(root, "/" DEVICE, identity, ret);
}

bool tree_verbs_path(const char *root, const struct identity *identity, char ret[TREE_PATH_MAX])
{
    return expand(root, "/" VERBS, identity, ret);
}

/* ---- making it ------------------------------------------------------------------------------- */

static int folder_make(const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

// Over what another process, or this one, has written, which is the same: so it is never empty.
static int file_write(const char *path, const char *text)
{
    char line[TEXT_MAX + 1];
    const int len = snprintf(line, sizeof line, "%s\n", text);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        return -errno;
    }
    const int error = write(fd, line, (size_t)len) != len || ftruncate(fd, len) != 0 ? -EIO : 0;
    close(fd);
    return error;
}

static int name_make(const char *path, const char *target)
{
    return symlink(target, path) == 0 || errno == EEXIST ? 0 : -errno;
}

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static int folders_make(const char *root, const struct identity *identity)
{
    char path[TREE_PATH_MAX];
    int error = 0;
    for (size_t i = 0; error == 0 && i < COUNT(folders); i++) {
        expand(root, folders[i], identity, path);
        error = folder_make(path);
    }
    return error;
}

static int files_make(const char *root, const struct facts *facts)
{
    char path[TREE_PATH_MAX], text[TEXT_MAX];
    int error = 0;
    for (size_t i = 0; error == 0 && i < COUNT(files); i++) {
        if (files[i].say != NULL) {
            files[i].say(facts, text);
        }
        expand(root, files[i].path, facts->identity, path);
        error = file_write(path, files[i].say != NULL ? text : files[i].text);
    }
    return error;
}

static int gid_files_make(const char *root, const struct facts *facts, unsigned index)
{
    char folder[TREE_PATH_MAX], path[TREE_PATH_MAX + INDEX_TEXT_MAX], text[TEXT_MAX];
    int error = 0;
    for (size_t i = 0; error == 0 && i < COUNT(gid_files); i++) {
        expand(root, gid_files[i].folder, facts->identity, folder);
        snprintf(path, sizeof path, "%s%u", folder, index);
        gid_files[i].say(facts, index, text);
        error = file_write(path, text);
    }
    return error;
}

static int names_make(const char *root, const struct facts *facts)
{
    char path[TREE_PATH_MAX], target[TREE_PATH_MAX];
    int error = 0;
    for (size_t i = 0; error == 0 && i < COUNT(names); i++) {
        expand(root, names[i].path, facts->identity, path);
        expand("", names[i].target, facts->identity, target);
        error = name_make(path, target);
    }
    return error;
}

// A network interface that the device speaks over.
static int interface_make(const char *root, const struct facts *facts, unsigned index)
{
    const char *interface = facts->gids[index].interface;
    char folder[TREE_PATH_MAX], path[TREE_PATH_MAX + IF_NAMESIZE], target[64];
    expand(root, BASE "/net/", facts->identity, folder);
    snprintf(path, sizeof path, "%s%s", folder, interface);
    snprintf(target, sizeof target, "/sys/class/net/%s", interface);
    return name_make(path, target);
}

// The longest of the paths: if it has room, all have.
static bool has_room(const char *root, const struct identity *identity)
{
    char path[TREE_PATH_MAX];
    return expand(root, "/" PORT "/gid_attrs/types/00", identity, path);
}

int tree_make(const char *root, const struct identity *identity)
{
    char base[TREE_PATH_MAX];
    struct facts facts = {.identity = identity};
    if (!has_room(root, identity)) {
        return -ENAMETOOLONG;
    }
    facts.gid_count = view_addresses_find(identity, facts.gids);
    snprintf(base, sizeof base, "%s/", root);
    int error = folders_make(base, identity);
    error = error != 0 ? error : files_make(base, &facts);
    error = error != 0 ? error : names_make(base, &facts);
    for (unsigned i = 0; error == 0 && i < facts.gid_count; i++) {
        error = gid_files_make(base, &facts, i);
        error = error != 0 ? error : interface_make(base, &facts, i);
    }
    return error;
}

/* ---- removing it ----------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    remove(path);
    return 0;
}

void tree_remove(const char *root)
{
    const int descriptors_max = 8;
    nftw(root, remove_one, descriptors_max, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
