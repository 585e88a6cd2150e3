// What people and programs are told of volumes.

#include <json-c/json.h>
#include <stdio.h>
#include <uuid/uuid.h>

#include "cli/say.h"
#include "cli/volume.h"
#include "text/show.h"

int volume_say_failed(const char *what, const char *uri, const char *remedy, const char *why)
{
    say_error(what, uri, remedy, "%s", why);
    return EXIT_FAILED;
}

const char *volume_uuid(const struct volume_facts *facts, char ret[VOLUME_UUID_MAX])
{
    snprintf(ret, VOLUME_UUID_MAX, "-");
    if (facts->has_uuid) {
        uuid_unparse_lower(facts->uuid, ret);
    }
    return ret;
}

static void hex_add(struct json_object *to, const char *key, const uint8_t octets[16])
{
    char text[33];
    json_object_object_add(to, key, json_object_new_string(text_hex(octets, 16, text)));
}

struct json_object *volume_json(const struct volume_facts *facts)
{
    struct json_object *object = json_object_new_object();
    char uuid[VOLUME_UUID_MAX];
    json_object_object_add(object, "uri", json_object_new_string(facts->uri));
    json_object_object_add(object, facts->name_key, json_object_new_string(facts->name));
    if (facts->nsid != 0) {
        json_object_object_add(object, "nsid", json_object_new_int64(facts->nsid));
    }
    json_object_object_add(object, "size", json_object_new_uint64(facts->len));
    json_object_object_add(object, "block_size", json_object_new_int64(facts->block_len));
    json_object_object_add(object, "read_only", json_object_new_boolean(facts->is_read_only));
    if (facts->has_uuid) {
        json_object_object_add(object, "uuid", json_object_new_string(volume_uuid(facts, uuid)));
    }
    if (facts->has_nguid) {
        hex_add(object, "nguid", facts->nguid);
    }
    return object;
}
