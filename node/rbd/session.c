#include "node/rbd/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

enum { FSID_MAX = 40 };

static int fail(struct why *ret_why, int error, const char *what, const char *object)
{
    why_say(ret_why, "%s %.150s: %s", what, object, strerror(-error));
    return error;
}

/* ---- the cluster ----------------------------------------------------------------------------- */

// What the driver's promises rest on, whatever the configuration says: no write is answered before
// the cluster has it, what is broken is shut out, and nothing waits for ever.
static int settings_make(rados_t cluster, const struct ceph_spec *spec)
{
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%llu",
             (unsigned long long)((spec->patience + NS_PER_S - 1) / NS_PER_S));
    const struct {
        const char *key, *value;
    } settings[] = {
        {"rbd_cache", "false"},
        {"rbd_plugins", ""}, // persistent caches
        {"rbd_blocklist_on_break_lock", "true"},
        {"rados_osd_op_timeout", seconds},
        {"rados_mon_op_timeout", seconds},
        {"client_mount_timeout", "10"},
        {"keyring", spec->keyring[0] != '\0' ? spec->keyring : NULL},
    };
    int error = 0;
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0] && error == 0; i++) {
        if (settings[i].value != NULL) {
            error = rados_conf_set(cluster, settings[i].key, settings[i].value);
        }
    }
    return error;
}

static int cluster_open(const struct ceph_spec *spec, rados_t *ret, struct why *ret_why)
{
    char name[CEPH_NAME_MAX + 8];
    const char *conf = spec->conf[0] != '\0' ? spec->conf : NULL;
    snprintf(name, sizeof name, "client.%s", spec->id);
    int error = rados_create2(ret, "ceph", name, 0);
    if (error != 0) {
        return fail(ret_why, error, "Ceph's client", name);
    }
    error = rados_conf_read_file(*ret, conf);
    if (error != 0) {
        fail(ret_why, error, "Ceph's configuration", conf != NULL ? conf : "(conf= names one)");
    } else if ((error = settings_make(*ret, spec)) != 0) {
        fail(ret_why, error, "a setting of Ceph's client", name);
    } else if ((error = rados_connect(*ret)) != 0) {
        fail(ret_why, error, "no connection with the cluster as", name);
    }
    if (error != 0) {
        rados_shutdown(*ret);
    }
    return error;
}

static int pool_open(rados_t cluster, const struct ceph_spec *spec, rados_ioctx_t *ret,
                     struct why *ret_why)
{
    int error = rados_ioctx_create(cluster, spec->pool, ret);
    if (error != 0) {
        return fail(ret_why, error, "the pool", spec->pool);
    }
    rados_ioctx_set_namespace(*ret, spec->space);
    rados_set_pool_full_try(*ret); // a full pool is an error, not a wait
    return 0;
}

/* ---- the image ------------------------------------------------------------------------------- */

static int image_create(struct session *s, const struct ceph_spec *spec, struct why *ret_why)
{
    int order = 0; // as the configuration says
    int error = rbd_create(s->pool, spec->image, spec->create_len, &order);
    return error == 0 || error == -EEXIST ? 0 : fail(ret_why, error, "making image", spec->image);
}

static int image_open_once(struct session *s, const struct session_wish *wish)
{
    const struct ceph_spec *spec = wish->spec;
    const char *snapshot = spec->snapshot[0] != '\0' ? spec->snapshot : NULL;
    int error = wish->fence == NULL ? rbd_open_read_only(s->pool, spec->image, &s->image, snapshot)
                                    : rbd_open(s->pool, spec->image, &s->image, NULL);
    s->image = error == 0 ? s->image : NULL;
    return error;
}

static int image_open(struct session *s, const struct session_wish *wish, struct why *ret_why)
{
    const struct ceph_spec *spec = wish->spec;
    int error = image_open_once(s, wish);
    if (error == -ENOENT && wish->may_create && spec->create_len > 0) {
        error = image_create(s, spec, ret_why);
        if (error != 0) {
            return error;
        }
        error = image_open_once(s, wish);
    }
    if (error == -ENOENT && wish->may_create) {
        why_say(ret_why, "there is no image %.110s (create=SIZE makes one)", spec->image);
    } else if (error != 0 && spec->snapshot[0] != '\0') {
        fail(ret_why, error, "the image, or its snapshot", spec->snapshot);
    } else if (error != 0) {
        fail(ret_why, error, "the image", spec->image);
    }
    return error;
}

// Settings that are kept with the image or its pool go before a client's own.
static int cache_check(rbd_image_t image, struct why *ret_why)
{
    static rbd_config_option_t none[1];
    int count = 0;
    int error = rbd_config_image_list(image, none, &count);
    rbd_config_option_t *options = error == -ERANGE ? calloc((size_t)count, sizeof *options) : NULL;
    error = options != NULL ? rbd_config_image_list(image, options, &count) : error;
    if (error != 0) {
        free(options);
        return fail(ret_why, error, "the image's", "settings");
    }
    for (int i = 0; i < count; i++) {
        bool is_cache = strcmp(options[i].name, "rbd_cache") == 0;
        error = is_cache && strcmp(options[i].value, "false") != 0 ? -EINVAL : error;
    }
    if (options != NULL) {
        rbd_config_image_list_cleanup(options, count);
    }
    free(options);
    if (error != 0) {
        why_say(ret_why,
                "the image's or pool's own settings have rbd_cache on, by which writes "
                "would be lost with a process: rbd config image set IMAGE rbd_cache false");
    }
    return error;
}

static int features_check(rbd_image_t image, struct why *ret_why)
{
    uint64_t features = 0;
    int error = rbd_get_features(image, &features);
    if (error != 0) {
        return fail(ret_why, error, "the image's", "features");
    }
    if ((features & RBD_FEATURE_EXCLUSIVE_LOCK) == 0) {
        why_say(ret_why, "the image cannot be locked: rbd feature enable IMAGE exclusive-lock");
        return -EINVAL;
    }
    return cache_check(image, ret_why);
}

// Who the image is.
static int facts_find(struct session *s, const struct ceph_spec *spec, struct why *ret_why)
{
    rbd_image_info_t info;
    char fsid[FSID_MAX] = "", id[WEFT_DDM_INSTANCE_MAX - 24] = "";
    uint64_t snapshot = 0;
    int error = rados_cluster_fsid(s->cluster, fsid, sizeof fsid);
    error = error < 0 ? error : rbd_stat(s->image, &info, sizeof info);
    error = error != 0 ? error : rbd_get_id(s->image, id, sizeof id);
    if (error == 0 && spec->snapshot[0] != '\0') {
        error = rbd_snap_get_id(s->image, spec->snapshot, &snapshot);
    }
    if (error != 0) {
        return fail(ret_why, error, "the facts of image", spec->image);
    }
    struct image_facts *facts = &s->facts;
    facts->len = info.size;
    snprintf(facts->place, sizeof facts->place, "%s/%s/%s/%s@%s", fsid, spec->pool, spec->space,
             spec->image, spec->snapshot);
    snprintf(facts->instance, sizeof facts->instance, "%s@%llu", id, (unsigned long long)snapshot);
    return 0;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static int lock_take(struct session *s, const struct session_wish *wish, struct why *ret_why)
{
    int error = features_check(s->image, ret_why);
    if (error == 0 && (error = fence_enter(wish->fence, s->facts.place, &wish->patience)) != 0) {
        bool is_busy = error == -EBUSY;
        why_say(ret_why, "%s",
                is_busy ? "another process has it open through weft" : strerror(-error));
        return error;
    }
    if (error == 0) {
        error = fence_take(wish->fence, s->cluster, s->image, &wish->patience, &s->is_unbroken,
                           ret_why);
    }
    s->has_lock = error == 0;
    return error == -EBUSY ? 0 : error;
}

int session_open(const struct session_wish *wish, struct session *ret, struct why *ret_why)
{
    *ret = (struct session){.has_lock = wish->fence == NULL, .is_unbroken = true};
    int error = cluster_open(wish->spec, &ret->cluster, ret_why);
    if (error != 0) {
        return error;
    }
    error = pool_open(ret->cluster, wish->spec, &ret->pool, ret_why);
    if (error != 0) {
        rados_shutdown(ret->cluster);
        return error;
    }
    if (wish->fence != NULL && (error = fence_begin(wish->fence, ret->cluster)) != 0) {
        fail(ret_why, error, "the keepsake of image", wish->spec->image);
    }
    error = error == 0 ? image_open(ret, wish, ret_why) : error;
    error = error == 0 ? facts_find(ret, wish->spec, ret_why) : error;
    if (error == 0 && wish->fence != NULL) {
        error = lock_take(ret, wish, ret_why);
    }
    if (error != 0) {
        session_close(ret);
    }
    return error;
}

void session_close(struct session *s)
{
    if (s->image != NULL) {
        rbd_close(s->image);
        s->image = NULL;
    }
    rados_ioctx_destroy(s->pool);
    rados_shutdown(s->cluster);
}
