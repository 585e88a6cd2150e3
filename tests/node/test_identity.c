// Whose identity a volume has: the name of its origin on this machine, whatever the machine has to
// be known by.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>
#include <cmocka.h>

#include "node/host/agent.h"
#include "node/interface/volume.h"

enum { NAME_MAX_LEN = 255 };

static struct {
    const char *id;   // what the file of the machine's id holds; NULL: there is none
    const char *host; // NULL: the system does not say
    unsigned files, asked;
} machine;

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
    if (strcmp(path, "/etc/machine-id") != 0) {
        return __real_fopen64(path, mode);
    }
    if (machine.id == NULL) {
        return NULL;
    }
    machine.files++;
    return machine.id[0] == '\0' ? __real_fopen64("/dev/null", "re")
                                 : fmemopen((char *)machine.id, strlen(machine.id), "r");
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    machine.files--;
    return __real_fclose(file);
}

int __wrap_gethostname(char *name, size_t len);
int __wrap_gethostname(char *name, size_t len)
{
    assert_int_equal(len, NAME_MAX_LEN);
    machine.asked++;
    return machine.host == NULL || snprintf(name, len, "%s", machine.host) < 0 ? -1 : 0;
}

// As docs/storage-node.md has it: a name of RFC 4122 section 4.3, of a URL.
static void name_of(const char *kind, const char *name, const char *origin, uint8_t ret[16])
{
    char text[1024];
    int len = snprintf(text, sizeof text, "weft:%s:%s:%s", kind, name, origin);
    uuid_generate_sha1(ret, *uuid_get_template("url"), text, (size_t)len);
}

static void a_machine_is_known_by_its_id_or_its_name(void **state)
{
    static char long_id[NAME_MAX_LEN + 2], longest[NAME_MAX_LEN + 1];
    memset(long_id, 'x', NAME_MAX_LEN + 1);
    memset(longest, 'x', NAME_MAX_LEN);
    const struct {
        const char *id, *host, *name;
    } cases[] = {
        {"4a5f\n", "h", "4a5f"},
        {"4a5f", "h", "4a5f"},
        {"4a5f\nmore\n", "h", "4a5f"},
        {long_id, "h", longest},
        {NULL, "h", "h"},
        {long_id, "h", longest},
        {"", "h", "h"},
        {"\n", "h", "h"},
        {NULL, NULL, "localhost"},
        {"uninitialized\n", "h", "h"},
        {NULL, "", "localhost"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct volume_profile profile = {.origin = "file:/a"};
        struct volume_identity found = {0};
        uint8_t uuid[16], nguid[16];
        machine.id = cases[i].id;
        machine.host = cases[i].host;
        machine.asked = machine.files = 0;
        host_identify(NULL, &profile, &found);
        name_of("uuid", cases[i].name, "file:/a", uuid);
        name_of("nguid", cases[i].name, "file:/a", nguid);
        assert_memory_equal(found.uuid, uuid, 16);
        assert_memory_equal(found.alias, nguid, 16);
        assert_int_equal(machine.files, 0);
        bool is_by_id = cases[i].id != NULL && strcmp(cases[i].name, "h") != 0;
        assert_int_equal(machine.asked, is_by_id ? 0 : 1);
    }
}

static void the_longest_origin_counts_to_its_end(void **state)
{
    struct volume_profile profile = {0};
    struct volume_identity found = {0};
    uint8_t uuid[16];
    memset(profile.origin, 'o', sizeof profile.origin - 1);
    machine.id = "4a5f\n";
    host_identify(NULL, &profile, &found);
    name_of("uuid", "4a5f", profile.origin, uuid);
    assert_memory_equal(found.uuid, uuid, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_is_known_by_its_id_or_its_name),
        cmocka_unit_test(the_longest_origin_counts_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
