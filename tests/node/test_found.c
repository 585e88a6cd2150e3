// What a pattern finds: which files, in which order, under which names, and how many.

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/discovery/sources.h"
#include "node/host/config.h"
#include "node/host/found.h"
#include "node/host/wish.h"
#include "node/interface/request.h"
#include "node/loop/loop.h"

enum { PATH_LEN = 256, SAID_MAX = 1024 };

static char place[] = "/tmp/weft-found.XXXXXX";
static char said[SAID_MAX]; // the last line
static struct loop *loop;
static struct sources *sources;

static void say(void *ctx, const char *line)
{
    snprintf(said, sizeof said, "%s", line);
}

static void on_change(void *ctx)
{
}

static int make_place(void **state)
{
    loop = loop_create();
    const struct source_host host = {.loop = loop, .on_change = on_change, .say = say};
    sources = loop != NULL ? sources_create(&host) : NULL;
    return mkdtemp(place) != NULL && sources != NULL ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    return remove(path);
}

static int remove_place(void **state)
{
    sources_destroy(sources);
    loop_destroy(loop);
    return nftw(place, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void file_make(const char *folder, const char *name)
{
    char path[2 * PATH_LEN];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void folder_make(char ret[PATH_LEN], const char *name)
{
    snprintf(ret, PATH_LEN, "%s/%s", place, name);
    assert_int_equal(mkdir(ret, 0700), 0);
}

// What FOLDER/`rest` finds, beside what is there already.
static void find(struct host_config *to, const char *folder, const char *rest)
{
    char text[2 * PATH_LEN];
    struct volume_wish wish;
    struct why why = {""};
    snprintf(text, sizeof text, "%s/%s", folder, rest);
    said[0] = '\0';
    assert_int_equal(wish_parse(text, &wish, &why), 0);
    assert_true(sources_is(wish.uri));
    assert_int_equal(host_found_add(to, &wish, sources, say, NULL), 0);
}

static void assert_is(const struct volume_wish *wish, const char *name, const char *folder,
                      const char *rest)
{
    char uri[2 * PATH_LEN];
    snprintf(uri, sizeof uri, "file:%s/%s", folder, rest);
    assert_string_equal(wish->name, name);
    assert_string_equal(wish->uri, uri);
    assert_true(wish->source != 0);
}

static void files_are_found_in_the_order_of_their_names(void **state)
{
    struct host_config found = {0};
    char folder[PATH_LEN], inner[PATH_LEN], prefixed[PATH_LEN + 8];
    folder_make(folder, "order");
    folder_make(inner, "order/folder.img");
    file_make(folder, "b.img");
    file_make(folder, "a.img");
    file_make(folder, ".hidden.img");
    file_make(folder, "c.txt");
    find(&found, folder, "?iops=5&allow=me");
    assert_int_equal(found.volume_count, 3);
    assert_is(&found.volumes[0], "a.img", folder, "a.img");
    assert_is(&found.volumes[1], "b.img", folder, "b.img");
    assert_is(&found.volumes[2], "c.txt", folder, "c.txt");
    assert_int_equal(found.volumes[2].rate.iops, 5);
    assert_string_equal(found.volumes[2].allow[0], "me");
    config_free(&found);
    snprintf(prefixed, sizeof prefixed, "glob:%s", folder);
    find(&found, prefixed, "[b-c].*?direct=on");
    assert_int_equal(found.volume_count, 2);
    assert_is(&found.volumes[0], "b.img", folder, "b.img?direct=on");
    config_free(&found);
    assert_string_equal(said, "");
}

static void names_that_look_like_uris_are_files(void **state)
{
    struct host_config found = {0};
    char folder[PATH_LEN];
    folder_make(folder, "odd");
    file_make(folder, "a?direct=on");
    file_make(folder, "b%41");
    file_make(folder, "c\n");
    find(&found, folder, "");
    assert_int_equal(found.volume_count, 3);
    assert_is(&found.volumes[0], "a_direct_on", folder, "a%3fdirect=on");
    assert_is(&found.volumes[1], "b_41", folder, "b%2541");
    assert_is(&found.volumes[2], "c_", folder, "c%0a");
    config_free(&found);
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
    struct host_config found = {0};
    char one[PATH_LEN], two[PATH_LEN];
    folder_make(one, "one");
    folder_make(two, "two");
    file_make(one, "disk");
    file_make(two, "disk");
    find(&found, one, "");
    find(&found, two, "");
    assert_int_equal(found.volume_count, 2);
    assert_is(&found.volumes[1], "disk-2", two, "disk");
    config_free(&found);
}

static void there_are_no_more_than_volumes_can_be(void **state)
{
    struct host_config found = {0};
    char folder[PATH_LEN], prefixed[PATH_LEN + 8], name[16];
    folder_make(folder, "many");
    for (unsigned i = NODE_VOLUME_COUNT_MAX + 5; i-- > 0;) {
        snprintf(name, sizeof name, "%04u", i);
        file_make(folder, name);
    }
    find(&found, folder, "");
    assert_int_equal(found.volume_count, NODE_VOLUME_COUNT_MAX);
    assert_is(&found.volumes[0], "0000", folder, "0000");
    snprintf(name, sizeof name, "%04u", NODE_VOLUME_COUNT_MAX - 1);
    assert_is(&found.volumes[NODE_VOLUME_COUNT_MAX - 1], name, folder, name);
    assert_non_null(strstr(said, "5 volumes are not served: they are too many"));
    snprintf(prefixed, sizeof prefixed, "glob:%s", folder);
    find(&found, prefixed, "0000");
    assert_int_equal(found.volume_count, NODE_VOLUME_COUNT_MAX);
    assert_non_null(strstr(said, "1 volumes are not served"));
    config_free(&found);
}

static void a_folder_that_is_not_there_has_nothing(void **state)
{
    struct host_config found = {0};
    find(&found, place, "none/");
    assert_int_equal(found.volume_count, 0);
    assert_non_null(strstr(said, "No such file or directory"));
}

static void what_is_no_pattern_stands_for_itself(void **state)
{
    struct host_config found = {0};
    struct volume_wish wish;
    struct why why = {""};
    assert_int_equal(wish_parse("ram:1M", &wish, &why), 0);
    assert_int_equal(host_found_add(&found, &wish, sources, say, NULL), 0);
    assert_int_equal(found.volume_count, 1);
    assert_int_equal(found.volumes[0].source, 0);
    config_free(&found);
}

static void a_pattern_is_the_last_component_alone(void **state)
{
    static const char *const bad[] = {
        "glob:/srv/*/disk",       "glob:/srv/",     "glob:", "/srv/a?b*/",
        "glob:/srv/*?colour=red", "ram+glob:/srv/*"};
    static const char *const good[] = {"glob:*.img", "glob:/*", "log+glob:/srv/a"};
    struct volume_wish wish;
    struct why why;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_true(wish_parse(bad[i], &wish, &why) != 0);
    }
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(wish_parse(good[i], &wish, &why), 0);
    }
}

/* ---- the sources themselves ------------------------------------------------------------------ */

static void note_name(void *ctx, const struct source_found *found)
{
    size_t len = strlen(ctx);
    snprintf((char *)ctx + len, PATH_LEN - len, "%s ", found->name);
}

static void a_source_lasts_as_long_as_somebody_wants_it(void **state)
{
    char folder[PATH_LEN], uris[3][2 * PATH_LEN], names[PATH_LEN];
    unsigned numbers[3];
    struct source_status status;
    folder_make(folder, "wanted");
    file_make(folder, "a.img");
    file_make(folder, "b.img");
    sources_sweep(sources); // of other tests
    sources_sweep(sources);
    assert_int_equal(sources_at(sources, 0, &status), 0);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(uris[i], sizeof uris[i], "%s%s/%c*", i == 2 ? "log+glob:" : "glob:", folder,
                 (char)('a' + i));
        numbers[i] = sources_want(sources, uris[i]);
        assert_true(numbers[i] > (i > 0 ? numbers[i - 1] : 0));
        assert_int_equal(sources_want(sources, uris[i]), numbers[i]); // it is there
    }
    for (unsigned i = 0; i < 3; i++) {
        names[0] = '\0';
        assert_int_equal(sources_at(sources, i, &status), numbers[i]);
        assert_int_equal(sources_each(sources, numbers[i], note_name, names), 0);
        assert_string_equal(names, i == 0 ? "a.img " : i == 1 ? "b.img " : "");
        assert_string_equal(sources_uri(sources, numbers[i]), uris[i]);
    }
    assert_int_equal(sources_at(sources, 3, &status), 0);
    assert_true(sources_are_settled(sources));
    sources_ask(sources);

    sources_sweep(sources); // all were wanted
    assert_int_equal(sources_want(sources, uris[1]), numbers[1]);
    sources_sweep(sources);
    assert_int_equal(sources_at(sources, 0, &status), numbers[1]);
    assert_int_equal(sources_at(sources, 1, &status), 0);
    assert_null(sources_uri(sources, numbers[0]));
    assert_int_equal(sources_each(sources, numbers[0], note_name, names), 0);
    assert_true(sources_want(sources, uris[0]) > numbers[2]); // no number comes twice
    sources_sweep(sources);
    sources_sweep(sources);
    assert_int_equal(sources_at(sources, 0, &status), 0);
}

static void what_names_one_device_is_no_source(void **state)
{
    static const char *const devices[] = {"file:/srv/a", "ram:1M", "nbd:/x", ""};
    char one[UNIT_URI_MAX];
    struct why why = {""};
    for (unsigned i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        assert_false(sources_is(devices[i]));
        assert_int_equal(sources_check(devices[i], one, &why), -EINVAL);
        assert_string_equal(why.text, "it names one device");
        assert_int_equal(sources_want(sources, devices[i]), 0);
    }
    assert_int_equal(sources_check("log+glob:/srv/*.img?direct=on", one, &why), 0);
    assert_memory_equal(one, "log+file:", 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found_in_the_order_of_their_names),
        cmocka_unit_test(names_that_look_like_uris_are_files),
        cmocka_unit_test(a_name_that_is_taken_gets_a_number),
        cmocka_unit_test(there_are_no_more_than_volumes_can_be),
        cmocka_unit_test(a_folder_that_is_not_there_has_nothing),
        cmocka_unit_test(what_is_no_pattern_stands_for_itself),
        cmocka_unit_test(a_pattern_is_the_last_component_alone),
        cmocka_unit_test(what_names_one_device_is_no_source),
        cmocka_unit_test(a_source_lasts_as_long_as_somebody_wants_it),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
