#include "node/rbd/spec.h"

#include <errno.h>
#include <string.h>

#include "text/quantity.h"

static const duration_ns patience_default_ns = 60 * NS_PER_S;
static const duration_ns wait_default_ns = 40 * NS_PER_S; // a dead client is known after 30 s
enum { DEPTH_DEFAULT = 128 };

const char *const ceph_spec_keys[] = {"conf",    "create",   "depth", "id",
                                      "keyring", "patience", "wait",  NULL};

static int refuse(struct why *ret_why, const char *key, const char *value, const char *what)
{
    why_say(ret_why, "%s=%.100s: it must be %s", key, value, what);
    return -EINVAL;
}

/* ---- names ----------------------------------------------------------------------------------- */

// False: it does not fit, or is empty.
static bool name_set(char ret[CEPH_NAME_MAX], const char *text, size_t len)
{
    if (len == 0 || len >= CEPH_NAME_MAX) {
        return false;
    }
    memcpy(ret, text, len);
    ret[len] = '\0';
    return true;
}

static bool object_parse(const char *object, struct ceph_spec *ret)
{
    const char *first = strchr(object, '/');
    if (first == NULL || !name_set(ret->pool, object, (size_t)(first - object))) {
        return false;
    }
    const char *image = first + 1, *second = strchr(image, '/');
    if (second != NULL) {
        if (!name_set(ret->space, image, (size_t)(second - image))) {
            return false;
        }
        image = second + 1;
    }
    const char *at = strchr(image, '@');
    size_t image_len = at != NULL ? (size_t)(at - image) : strlen(image);
    return memchr(image, '/', image_len) == NULL && name_set(ret->image, image, image_len) &&
           (at == NULL || name_set(ret->snapshot, at + 1, strlen(at + 1)));
}

/* ---- parameters ------------------------------------------------------------------------------ */

static int text_take(const struct weft_ddm_target *target, const char *key, char *ret, size_t size,
                     struct why *ret_why)
{
    const char *value = weft_ddm_parameter(target, key);
    if (value == NULL) {
        return 0;
    }
    if (value[0] == '\0' || strlen(value) >= size) {
        return refuse(ret_why, key, value, "something, and not as long");
    }
    memcpy(ret, value, strlen(value) + 1);
    return 0;
}

static int duration_take(const struct weft_ddm_target *target, const char *key, duration_ns *ret,
                         struct why *ret_why)
{
    const char *value = weft_ddm_parameter(target, key);
    if (value == NULL || text_duration_parse(value, ret)) {
        return 0;
    }
    return refuse(ret_why, key, value, "a duration like 500ms or 30s");
}

static int numbers_take(const struct weft_ddm_target *target, struct ceph_spec *ret,
                        struct why *ret_why)
{
    const char *create = weft_ddm_parameter(target, "create");
    const char *depth = weft_ddm_parameter(target, "depth");
    uint64_t number = DEPTH_DEFAULT;
    if (create != NULL && (!text_size_parse(create, &ret->create_len) || ret->create_len == 0)) {
        return refuse(ret_why, "create", create, "a number of octets, with K, M, G, T or P");
    }
    if (create != NULL && ret->snapshot[0] != '\0') {
        return refuse(ret_why, "create", create, "for an image, not for a snapshot");
    }
    if (depth != NULL && !text_number_parse(depth, 1, CEPH_DEPTH_MAX, &number)) {
        return refuse(ret_why, "depth", depth, "1 to 1024");
    }
    ret->depth = (uint32_t)number;
    return 0;
}

int ceph_spec_parse(const struct weft_ddm_target *target, struct ceph_spec *ret,
                    struct why *ret_why)
{
    *ret =
        (struct ceph_spec){.id = "admin", .patience = patience_default_ns, .wait = wait_default_ns};
    if (!object_parse(target->object, ret)) {
        why_say(ret_why, "%.100s: it must be POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]", target->object);
        return -EINVAL;
    }
    int error = numbers_take(target, ret, ret_why);
    if (error != 0 ||
        (error = text_take(target, "conf", ret->conf, sizeof ret->conf, ret_why)) != 0 ||
        (error = text_take(target, "keyring", ret->keyring, sizeof ret->keyring, ret_why)) != 0 ||
        (error = text_take(target, "id", ret->id, sizeof ret->id, ret_why)) != 0 ||
        (error = duration_take(target, "wait", &ret->wait, ret_why)) != 0) {
        return error;
    }
    error = duration_take(target, "patience", &ret->patience, ret_why);
    if (error == 0 && ret->patience < NS_PER_S) {
        return refuse(ret_why, "patience", weft_ddm_parameter(target, "patience"), "1s or more");
    }
    return error;
}
