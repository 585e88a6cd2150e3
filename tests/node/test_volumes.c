// Volumes as the operator wants them, at the start and by rescans: what is asked of the UMA and
// told to people, beside a configuration file, sources and a UMA that the test has.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "node/host/agent.h"
#include "node/host/config.h"
#include "node/host/found.h"
#include "node/host/secrets.h"
#include "node/host/wish.h"
#include "node/interface/volume.h"
#include "tests/node/done.h"

enum { VOLUME_MAX = 8, NOW = 77 };

static struct host *host;
static struct host_config config;

/* ---- others ---------------------------------------------------------------------------------- */

static struct volume_wish of_file[VOLUME_MAX]; // what the configuration file says now
static size_t of_file_count;
static int file_error, secrets_error, add_error, found_error, standby_error, no_memory_at;
static bool no_sources, uma_is_still, sources_are_still;
static const char *still_there; // a volume that is going
static struct source_host of_sources;
static struct resource rows[3];
static struct resource_table table = {.rows = rows};

int config_read(const char *path, struct host_config *ret, struct why *ret_why)
{
    assert_string_equal(path, "/etc/weft.conf");
    if (file_error != 0) {
        why_say(ret_why, "line 1: no");
        assert_int_equal(config_volume_add(ret, &of_file[0]), 0); // for config_free
        return file_error;
    }
    for (size_t i = 0; i < of_file_count; i++) {
        assert_int_equal(config_volume_add(ret, &of_file[i]), 0);
    }
    return 0;
}

void config_free(struct host_config *it)
{
    free(it->volumes);
    it->volumes = NULL;
    it->volume_count = 0;
}

int config_volume_add(struct host_config *it, const struct volume_wish *wish)
{
    if (no_memory_at > 0 && --no_memory_at == 0) {
        return -ENOMEM;
    }
    struct volume_wish *volumes =
        realloc(it->volumes, (it->volume_count + 1) * sizeof *it->volumes);
    assert_non_null(volumes);
    it->volumes = volumes;
    it->volumes[it->volume_count++] = *wish;
    return 0;
}

int secrets_read(const char *path, struct iscsi_accounts *accounts, struct why *ret_why)
{
    assert_string_equal(path, "/etc/secrets");
    assert_ptr_equal(accounts, &host->accounts);
    if (secrets_error != 0) {
        why_say(ret_why, "no such secrets");
    }
    return secrets_error;
}

// "glob:" has two volumes.
int host_found_add(struct host_config *to, const struct volume_wish *wish, struct sources *sources,
                   void (*say)(void *ctx, const char *line), void *ctx)
{
    assert_ptr_equal(sources, &of_sources);
    assert_ptr_equal(ctx, host);
    if (found_error != 0 && strcmp(wish->name, "bad") == 0) {
        return found_error;
    }
    if (!sources_is(wish->uri)) {
        return config_volume_add(to, wish);
    }
    struct volume_wish found = *wish;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(found.name, sizeof found.name, "found-%u", i);
        assert_int_equal(config_volume_add(to, &found), 0);
    }
    return 0;
}

bool sources_is(const char *uri)
{
    return strncmp(uri, "glob:", 5) == 0;
}

struct sources *sources_create(const struct source_host *parts)
{
    of_sources = *parts;
    return no_sources ? NULL : (struct sources *)&of_sources;
}

void sources_ask(struct sources *sources)
{
    note("ask\n");
}

void sources_sweep(struct sources *sources)
{
    note("sweep\n");
}

bool sources_are_settled(const struct sources *sources)
{
    return sources_are_still;
}

void host_say(void *ctx, const char *line)
{
    assert_ptr_equal(ctx, host);
    note("%s\n", line);
}

void host_say_failure(const char *what, const char *object, const char *why, const char *remedy)
{
    note("%s: %s: %s; %s\n", what, object, why, remedy);
}

instant_ns loop_now(const struct loop *loop)
{
    return NOW;
}

int wish_standby_check(const struct volume_wish *wish, bool is_alone, struct why *ret_why)
{
    note("%s", is_alone ? "process " : "");
    if (standby_error != 0) {
        why_say(ret_why, "it cannot stand by");
    }
    return standby_error;
}

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &table;
}

void nvme_subsystem_nqn(const struct resource *volume, char ret[NVME_NQN_MAX])
{
    snprintf(ret, NVME_NQN_MAX, "nqn.%s", volume->name);
}

void iscsi_name(const struct resource *row, char ret[ISCSI_NAME_MAX])
{
    snprintf(ret, ISCSI_NAME_MAX, "iqn.%s", row->name);
}

int uma_volume_add(struct uma *uma, const struct volume_wish *wish, instant_ns now)
{
    assert_int_equal(now, NOW);
    note("add %s in %s%s%s\n", wish->name, wish->unit, wish->is_alone ? ", alone" : "",
         wish->read_only ? ", to be read" : "");
    return add_error;
}

int uma_volume_remove(struct uma *uma, const char *name, instant_ns now)
{
    assert_int_equal(now, NOW);
    note("remove %s\n", name);
    return 0;
}

int uma_volume_allow(struct uma *uma, const struct volume_wish *wish)
{
    note("allow %s %u\n", wish->name, wish->allow_count);
    return 0;
}

int uma_volume_rate_set(struct uma *uma, const struct volume_wish *wish)
{
    note("rate %s %u\n", wish->name, (unsigned)wish->rate.iops);
    return 0;
}

bool uma_has_volume(const struct uma *uma, const char *name)
{
    return still_there != NULL && strcmp(name, still_there) == 0;
}

void uma_rescan(struct uma *uma, instant_ns now)
{
    assert_int_equal(now, NOW);
    note("rescan\n");
}

bool uma_is_settled(const struct uma *uma)
{
    return uma_is_still;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void wish_set(struct volume_wish *wish, const char *name)
{
    *wish = (struct volume_wish){.allow_count = 1};
    snprintf(wish->name, sizeof wish->name, "%s", name);
    snprintf(wish->uri, sizeof wish->uri, "file:/%s", name);
    snprintf(wish->allow[0], sizeof wish->allow[0], "friend");
}

// The first `file_count` of these stand in the file too.
static void wanted(size_t file_count, size_t count, const char *const *names)
{
    config.volume_count = count;
    config.file_volume_count = of_file_count = file_count;
    for (size_t i = 0; i < count; i++) {
        wish_set(&config.volumes[i], names[i]);
    }
    memcpy(of_file, config.volumes, sizeof of_file);
}

static int set_up(void **state)
{
    static struct volume_wish volumes[VOLUME_MAX];
    host = calloc(1, sizeof *host);
    assert_non_null(host);
    config = (struct host_config){
        .path = "/etc/weft.conf", .volumes = volumes, .iscsi_secrets = "/etc/secrets"};
    host->config = &config;
    file_error = secrets_error = add_error = found_error = standby_error = no_memory_at = 0;
    no_sources = false;
    uma_is_still = sources_are_still = true;
    still_there = NULL;
    done[0] = '\0';
    wanted(2, 3, (const char *const[]){"a", "b", "c"});
    return 0;
}

static int tear_down(void **state)
{
    config_free(&host->in_file);
    config_free(&host->wanted);
    config_free(&host->coming);
    free(host);
    return 0;
}

static void start(void)
{
    assert_int_equal(host_volumes_add(host), 0);
    done[0] = '\0';
}

static void rescan(const char *lines)
{
    struct why why = {""};
    assert_int_equal(host_rescan(host, host_note_said, host, &why), 0);
    assert_string_equal(why.text, "");
    expect(lines);
}

/* ---- the start ------------------------------------------------------------------------------- */

static void volumes_of_the_file_come_before_those_of_the_command_line(void **state)
{
    assert_int_equal(host_volumes_add(host), 0);
    expect("sweep\n"
           "process add a in a, alone\n"
           "process add b in b, alone\n"
           "process add c in c, alone\n");
    assert_int_equal(host->in_file.volume_count, 2);
    assert_int_equal(host->wanted.volume_count, 3);
}

static void what_a_source_has_is_served_in_its_place(void **state)
{
    snprintf(config.volumes[1].uri, sizeof config.volumes[1].uri, "glob:/srv/*");
    assert_int_equal(host_volumes_add(host), 0);
    expect("sweep\n"
           "process add a in a, alone\n"
           "process add found-0 in found-0, alone\n"
           "process add found-1 in found-1, alone\n"
           "process add c in c, alone\n");
}

static void a_volume_has_the_rta_that_it_or_the_operator_names(void **state)
{
    static const struct {
        enum host_rta rta;
        const char *unit; // of the volume
        size_t count;     // of volumes
        bool has_file, takes_volumes, is_source, is_read_only;
        const char *done;
    } cases[] = {
        {HOST_RTA_EACH, "", 1, .done = "process add v in v, alone\n"},
        {HOST_RTA_EACH, "", 2, true, true, .done = "process add v in v, alone\n"},
        {HOST_RTA_EACH, "own", 1, .done = "add v in own\n"},
        {HOST_RTA_ONE, "", 1, .done = "process add v in all, alone\n"},
        {HOST_RTA_ONE, "", 2, .done = "add v in all\n"},
        {HOST_RTA_ONE, "", 1, .has_file = true, .done = "add v in all\n"},
        {HOST_RTA_ONE, "", 1, .takes_volumes = true, .done = "add v in all\n"},
        {HOST_RTA_ONE, "", 1, .is_source = true, .done = "add v in all\n"},
        {HOST_RTA_ONE, "own", 1, .done = "add v in own\n"},
        {HOST_RTA_HOST, "", 1, .done = "add v in all, alone\n"},
        {HOST_RTA_HOST, "", 1, .is_read_only = true, .done = "add v in all, alone, to be read\n"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct volume_wish wish;
        struct why why = {""};
        wish_set(&wish, "v");
        snprintf(wish.unit, sizeof wish.unit, "%s", cases[i].unit);
        snprintf(config.volumes[0].uri, UNIT_URI_MAX, "%s", cases[i].is_source ? "glob:x" : "x");
        config.rta = cases[i].rta;
        config.volume_count = cases[i].count;
        config.path = cases[i].has_file ? "/etc/weft.conf" : NULL;
        config.takes_volumes = cases[i].takes_volumes;
        config.is_read_only = cases[i].is_read_only;
        assert_int_equal(host_volume_add(host, &wish, &why), 0);
        expect(cases[i].done);
    }
}

static void a_volume_that_may_not_stand_by_is_not_asked_for(void **state)
{
    struct volume_wish wish;
    struct why why = {""};
    wish_set(&wish, "v");
    wish.read_only = true;
    standby_error = -EINVAL;
    assert_int_equal(host_volume_add(host, &wish, &why), -EINVAL);
    assert_string_equal(why.text, "it cannot stand by");
    expect("process ");
    standby_error = 0;
    assert_int_equal(host_volume_add(host, &wish, &why), 0);
    expect("process add v in v, alone, to be read\n");
}

static void a_start_that_fails_says_why(void **state)
{
    static const struct {
        int add, standby, found, no_memory_at;
        bool no_sources;
        int error;
        const char *done;
    } cases[] = {
        {.add = -EEXIST,
         .error = -EEXIST,
         .done = "sweep\nprocess add a in a, alone\ncannot serve: a: there is a volume of this "
                 "name; give each volume a name of its own, and fewer of them\n"},
        {.add = -ENOTUNIQ,
         .error = -ENOTUNIQ,
         .done = "sweep\nprocess add a in a, alone\ncannot serve: a: another volume has this NSID "
                 "of the NQN, or LUN of the target; give each volume a name of its own, and fewer "
                 "of them\n"},
        {.add = -ENOSPC,
         .error = -ENOSPC,
         .done = "sweep\nprocess add a in a, alone\ncannot serve: a: there are too many volumes; "
                 "give each volume a name of its own, and fewer of them\n"},
        {.standby = -EINVAL,
         .error = -EINVAL,
         .done = "sweep\nprocess cannot serve: a: it cannot stand by; see TWO NODES in "
                 "weft-serve(1)\n"},
        {.found = -EEXIST,
         .error = -EEXIST,
         .done = "cannot serve: these volumes: bad: there is another volume of this name; give "
                 "each volume a name of its own, and fewer of them\n"},
        {.found = -ENOMEM,
         .error = -ENOMEM,
         .done = "cannot serve: these volumes: bad: Cannot allocate memory; give each volume a "
                 "name of its own, and fewer of them\n"},
        {.no_sources = true,
         .error = -ENOMEM,
         .done = "cannot serve: these volumes: Cannot allocate memory; give each volume a name of "
                 "its own, and fewer of them\n"},
        {.no_memory_at = 1,
         .error = -ENOMEM,
         .done = "cannot serve: these volumes: Cannot allocate memory; give each volume a name of "
                 "its own, and fewer of them\n"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tear_down(state);
        set_up(state);
        snprintf(config.volumes[2].name, VOLUME_NAME_MAX, "bad");
        add_error = cases[i].add;
        standby_error = cases[i].standby;
        found_error = cases[i].found;
        no_memory_at = cases[i].no_memory_at;
        no_sources = cases[i].no_sources;
        assert_int_equal(host_volumes_add(host), cases[i].error);
        expect(cases[i].done);
    }
}

/* ---- sources --------------------------------------------------------------------------------- */

static void a_target_is_the_nodes_own_by_either_name(void **state)
{
    static const struct {
        const char *name;
        bool is_own;
    } cases[] = {{"nqn.a", true},  {"iqn.a", true},  {"nqn.b", true}, {"iqn.b", true},
                 {"nqn.c", false}, {"iqn.c", false}, {"a", false},    {"", false}};
    start();
    table.count = 2;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(rows[i].name, sizeof rows[i].name, "%c", (char)('a' + i));
    }
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(of_sources.is_own(of_sources.ctx, cases[i].name), cases[i].is_own);
    }
}

static void what_sources_say_is_the_hosts(void **state)
{
    start();
    of_sources.say(of_sources.ctx, "a line");
    expect("a line\n");
    assert_false(host->has_news);
    of_sources.on_change(of_sources.ctx);
    assert_true(host->has_news);
}

static void all_is_settled_when_everybody_is(void **state)
{
    start();
    for (unsigned i = 0; i < 16; i++) {
        uma_is_still = (i & 1) == 0;
        sources_are_still = (i & 2) == 0;
        host->has_news = (i & 4) != 0;
        host->coming.volume_count = i >> 3;
        assert_int_equal(host_volumes_are_settled(host), i == 0);
    }
    host->coming.volume_count = 0;
}

/* ---- rescans --------------------------------------------------------------------------------- */

static void a_rescan_that_finds_the_same_opens_nothing(void **state)
{
    start();
    rescan("ask\nsweep\nrescan\n");
    config.path = NULL; // then the file as it was last read is meant
    of_file_count = 0;
    rescan("ask\nsweep\nrescan\n");
}

static void volumes_come_and_go(void **state)
{
    start();
    wish_set(&of_file[0], "d");
    rescan("ask\nsweep\nremove a\nvolume a: removed\nvolume d: added\n"
           "process add d in d, alone\nrescan\n");
    of_file_count = 0;
    rescan("ask\nsweep\nremove d\nvolume d: removed\nremove b\nvolume b: removed\nrescan\n");
    assert_int_equal(host->wanted.volume_count, 1);
    assert_int_equal(host->in_file.volume_count, 0);
}

enum change {
    OTHER_URI,
    OTHER_UNIT,
    READ_ONLY,
    STANDING_BY,
    A_UUID,
    AN_NGUID,
    OTHER_NGUID,
    OTHER_SUBSYSTEM,
    OTHER_NSID,
    OTHER_TARGET,
    OTHER_LUN,
    DEVICE_CHANGES,
    MORE_CLIENTS = DEVICE_CHANGES,
    OTHER_CLIENTS,
    OTHER_IOPS,
    OTHER_BPS,
    CHANGES
};

static void change(struct volume_wish *wish, enum change what)
{
    struct volume_place *subsystem = &wish->places[VOLUME_IN_SUBSYSTEM];
    struct volume_place *target = &wish->places[VOLUME_IN_TARGET];
    wish->uri[0] = what == OTHER_URI ? 'F' : 'f';
    wish->unit[0] = what == OTHER_UNIT ? 'u' : '\0';
    wish->read_only = what == READ_ONLY;
    wish->may_stand_by = what == STANDING_BY;
    wish->has_uuid = what == A_UUID;
    wish->has_alias = what == AN_NGUID;
    wish->identity.alias[VOLUME_UUID_LEN - 1] = what == OTHER_NGUID;
    subsystem->group[0] = what == OTHER_SUBSYSTEM ? 's' : '\0';
    subsystem->member = what == OTHER_NSID;
    target->group[0] = what == OTHER_TARGET ? 't' : '\0';
    target->member = what == OTHER_LUN;
    wish->allow_count = what == MORE_CLIENTS ? 2 : 1;
    wish->allow[0][0] = what == OTHER_CLIENTS ? 'F' : 'f';
    wish->rate.iops = what == OTHER_IOPS ? 5 : 0;
    wish->rate.bps = what == OTHER_BPS ? 6 : 0;
}

static void a_volume_that_is_otherwise_is_opened_anew(void **state)
{
    start();
    for (enum change what = 0; what < DEVICE_CHANGES; what++) {
        change(&of_file[1], what);
        assert_int_equal(host_rescan(host, host_note_said, host, NULL), 0);
        assert_non_null(strstr(done, "sweep\nremove b\nvolume b: opened anew\n"));
        assert_null(strstr(done, "remove a"));
        done[0] = '\0';
    }
}

static void other_clients_and_rates_leave_it_open(void **state)
{
    static const char *const lines[] = {
        [MORE_CLIENTS] = "ask\nsweep\nallow b 2\nvolume b: other clients\nrescan\n",
        [OTHER_CLIENTS] = "ask\nsweep\nallow b 1\nvolume b: other clients\nrescan\n",
        [OTHER_IOPS] = "ask\nsweep\nallow b 1\nvolume b: other clients\nrate b 5\n"
                       "volume b: another rate\nrescan\n",
        [OTHER_BPS] = "ask\nsweep\nrate b 0\nvolume b: another rate\nrescan\n",
    };
    start();
    for (enum change what = DEVICE_CHANGES; what < CHANGES; what++) {
        change(&of_file[1], what);
        rescan(lines[what]);
    }
}

// Its name is free when the old one has gone.
static void what_is_opened_anew_waits_for_its_name(void **state)
{
    start();
    still_there = "b";
    change(&of_file[1], OTHER_URI);
    rescan("ask\nsweep\nremove b\nvolume b: opened anew\nrescan\n");
    assert_false(host_volumes_are_settled(host));
    change(&of_file[1], READ_ONLY); // and is another before that
    rescan("ask\nsweep\nremove b\nvolume b: opened anew\nrescan\n");
    assert_int_equal(host->coming.volume_count, 1);
    still_there = NULL;
    host_volumes_come(host);
    expect("process add b in b, alone, to be read\n");
    assert_true(host_volumes_are_settled(host));
}

static void what_waited_and_is_wanted_no_more_does_not_come(void **state)
{
    start();
    still_there = "b";
    change(&of_file[0], OTHER_URI);
    change(&of_file[1], OTHER_URI);
    rescan("ask\nsweep\nremove a\nvolume a: opened anew\nremove b\nvolume b: opened anew\n"
           "process add a in a, alone\nrescan\n");
    of_file_count = 1;
    still_there = NULL;
    rescan("ask\nsweep\nremove b\nvolume b: removed\nrescan\n");
}

static void others_that_wait_go_on_waiting(void **state)
{
    start();
    still_there = "a";
    change(&of_file[0], OTHER_URI);
    assert_int_equal(host_rescan(host, host_note_said, host, NULL), 0);
    done[0] = '\0';
    of_file_count = 1; // b goes, which did not wait
    rescan("ask\nsweep\nremove b\nvolume b: removed\nrescan\n");
    assert_int_equal(host->coming.volume_count, 1);
    assert_string_equal(host->coming.volumes[0].name, "a");
}

static void a_volume_that_cannot_come_is_told_of(void **state)
{
    start();
    change(&of_file[1], OTHER_URI);
    add_error = -ENOSPC;
    rescan("ask\nsweep\nremove b\nvolume b: opened anew\nprocess add b in b, alone\n"
           "volume not added: b: there are too many volumes; remove that one, or one of them\n"
           "rescan\n");
    assert_int_equal(host->coming.volume_count, 0);
    add_error = 0;
    change(&of_file[1], READ_ONLY);
    no_memory_at = 6; // behind two that the file has and three that are wanted
    rescan("ask\nsweep\nremove b\nvolume b: not added: no memory\nrescan\n");
}

static void a_rescan_that_fails_changes_nothing(void **state)
{
    static const struct {
        int secrets, file, found;
        const char *why, *done;
    } cases[] = {
        {.secrets = -EACCES, .why = "no such secrets", .done = "ask\n"},
        {.file = -EINVAL, .why = "line 1: no", .done = "ask\n"},
        {.found = -EEXIST, .why = "bad: there is another volume of this name", .done = "ask\n"},
        {.found = -ENOMEM, .why = "bad: Cannot allocate memory", .done = "ask\n"},
    };
    start();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct why why = {""};
        wish_set(&of_file[0], "d");
        wish_set(&of_file[1], "bad");
        secrets_error = cases[i].secrets;
        file_error = cases[i].file;
        found_error = cases[i].found;
        assert_int_equal(host_rescan(host, host_note_said, host, &why),
                         cases[i].secrets + cases[i].file + cases[i].found);
        assert_string_equal(why.text, cases[i].why);
        expect(cases[i].done);
        assert_string_equal(host->wanted.volumes[0].name, "a");
        assert_int_equal(host->wanted.volume_count, 3);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(volumes_of_the_file_come_before_those_of_the_command_line),
        TEST(what_a_source_has_is_served_in_its_place),
        TEST(a_volume_has_the_rta_that_it_or_the_operator_names),
        TEST(a_volume_that_may_not_stand_by_is_not_asked_for),
        TEST(a_start_that_fails_says_why),
        TEST(a_target_is_the_nodes_own_by_either_name),
        TEST(what_sources_say_is_the_hosts),
        TEST(all_is_settled_when_everybody_is),
        TEST(a_rescan_that_finds_the_same_opens_nothing),
        TEST(volumes_come_and_go),
        TEST(a_volume_that_is_otherwise_is_opened_anew),
        TEST(other_clients_and_rates_leave_it_open),
        TEST(what_is_opened_anew_waits_for_its_name),
        TEST(what_waited_and_is_wanted_no_more_does_not_come),
        TEST(others_that_wait_go_on_waiting),
        TEST(a_volume_that_cannot_come_is_told_of),
        TEST(a_rescan_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
