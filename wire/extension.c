#include "wire/extension.h"

#include <stdio.h>

#include "base/bytes.h"

static const uint8_t magic[8] = {'w', 'e', 'f', 't', '\r', '\n', 0x1a, 0x01};

enum { FLAG_MARKER_WISH = 0x01 };

enum extension_verdict extension_block_parse(struct span private_data, uint32_t request_crc,
                                             struct extension_block *ret)
{
    if (private_data.len < EXTENSION_BLOCK_LEN) {
        return EXTENSION_ABSENT;
    }
    const uint8_t *p = private_data.ptr + private_data.len - EXTENSION_BLOCK_LEN;
    if (memcmp(p + EXTENSION_OFF_MAGIC, magic, sizeof magic) != 0) {
        return EXTENSION_BAD_MAGIC;
    }
    if (p[EXTENSION_OFF_VERSION] != EXTENSION_VERSION) {
        return EXTENSION_VERSION_OTHER;
    }
    if (get_be32(p + EXTENSION_OFF_REQUEST_CRC) != request_crc) {
        return EXTENSION_WRONG_REQUEST;
    }
    *ret = (struct extension_block){
        .request_crc = request_crc,
        .encodings = p[EXTENSION_OFF_ENCODINGS],
        .marker_wish = (p[EXTENSION_OFF_FLAGS] & FLAG_MARKER_WISH) != 0,
        .allotment_len = get_be32(p + EXTENSION_OFF_ALLOTMENT),
    };
    return EXTENSION_OK;
}

size_t extension_block_emit(const struct extension_block *b, uint8_t *buf)
{
    memset(buf, 0, EXTENSION_BLOCK_LEN);
    memcpy(buf + EXTENSION_OFF_MAGIC, magic, sizeof magic);
    put_be32(buf + EXTENSION_OFF_REQUEST_CRC, b->request_crc);
    buf[EXTENSION_OFF_VERSION] = EXTENSION_VERSION;
    buf[EXTENSION_OFF_ENCODINGS] = b->encodings;
    buf[EXTENSION_OFF_FLAGS] = b->marker_wish ? FLAG_MARKER_WISH : 0;
    put_be32(buf + EXTENSION_OFF_ALLOTMENT, b->allotment_len);
    return EXTENSION_BLOCK_LEN;
}

// Empty, or one encoding and at least one part.
static bool is_oneshot_right(uint8_t set)
{
    uint8_t encoding = set & EXTENSION_ONESHOT_ENCODINGS;
    uint8_t parts = set & EXTENSION_ONESHOT_PARTS;
    bool is_one = encoding == EXTENSION_ONESHOT_FLAGS || encoding == EXTENSION_ONESHOT_OPCODE;
    return set == 0 || (set == (encoding | parts) && is_one && parts != 0);
}

uint8_t extension_oneshot_common(uint8_t ours, uint8_t theirs)
{
    uint8_t both = ours & theirs;
    uint8_t parts = both & EXTENSION_ONESHOT_PARTS;
    uint8_t encoding =
        both & EXTENSION_ONESHOT_FLAGS ? EXTENSION_ONESHOT_FLAGS : both & EXTENSION_ONESHOT_OPCODE;
    return encoding != 0 && parts != 0 ? encoding | parts : 0;
}

enum extension_message_verdict extension_message_parse(struct span payload,
                                                       struct extension_message *ret)
{
    const uint8_t *p = payload.ptr;
    if (payload.len != EXTENSION_MESSAGE_LEN) {
        return EXTENSION_MESSAGE_BAD_LEN;
    }
    if (p[EXTENSION_MESSAGE_OFF_VERSION] != EXTENSION_VERSION) {
        return EXTENSION_MESSAGE_VERSION;
    }
    uint8_t kind = p[EXTENSION_MESSAGE_OFF_KIND];
    if (kind < EXTENSION_CHOICES || kind > EXTENSION_TAKEN) {
        return EXTENSION_MESSAGE_KIND;
    }
    uint8_t encoding = p[EXTENSION_MESSAGE_OFF_ENCODING];
    if (!is_oneshot_right(encoding) || (kind != EXTENSION_CHOICES && encoding != 0)) {
        return EXTENSION_MESSAGE_ENCODING;
    }
    *ret = (struct extension_message){
        .kind = kind,
        .encoding = encoding,
        .why = kind == EXTENSION_ALLOTMENT ? p[EXTENSION_MESSAGE_OFF_WHY] : 0,
        .allotment_len = get_be32(p + EXTENSION_MESSAGE_OFF_ALLOTMENT),
    };
    return EXTENSION_MESSAGE_OK;
}

size_t extension_message_emit(const struct extension_message *m, uint8_t *buf)
{
    memset(buf, 0, EXTENSION_MESSAGE_LEN);
    buf[EXTENSION_MESSAGE_OFF_VERSION] = EXTENSION_VERSION;
    buf[EXTENSION_MESSAGE_OFF_KIND] = (uint8_t)m->kind;
    buf[EXTENSION_MESSAGE_OFF_ENCODING] = m->encoding;
    buf[EXTENSION_MESSAGE_OFF_WHY] = m->why;
    put_be32(buf + EXTENSION_MESSAGE_OFF_ALLOTMENT, m->allotment_len);
    return EXTENSION_MESSAGE_LEN;
}

static const char *oneshot_format(uint8_t set, char *buf, size_t len)
{
    snprintf(buf, len, "%s%s%s%s", set & EXTENSION_ONESHOT_FLAGS ? " oneshot-flags" : "",
             set & EXTENSION_ONESHOT_OPCODE ? " oneshot-opcode" : "",
             set & EXTENSION_ONESHOT_ADVERTISE ? " advertise" : "",
             set & EXTENSION_ONESHOT_CLOSE ? " close" : "");
    return buf;
}

const char *extension_block_format(const struct extension_block *b, char *buf, size_t len)
{
    char oneshot[64];
    snprintf(buf, len, "extensions: request_crc=0x%08x%s%s allotment=%u", b->request_crc,
             oneshot_format(b->encodings, oneshot, sizeof oneshot),
             b->marker_wish ? " marker-wish" : "", b->allotment_len);
    return buf;
}

static const char *const kind_names[] = {
    [EXTENSION_CHOICES] = "choices",
    [EXTENSION_ALLOTMENT] = "allotment changed",
    [EXTENSION_TAKEN] = "allotment taken",
};

const char *extension_message_format(const struct extension_message *m, char *buf, size_t len)
{
    char oneshot[64];
    snprintf(buf, len, "extension message: %s%s allotment=%u", kind_names[m->kind],
             oneshot_format(m->encoding, oneshot, sizeof oneshot), m->allotment_len);
    return buf;
}

const char *extension_verdict_name(enum extension_verdict verdict)
{
    static const char *const names[EXTENSION_VERDICT_COUNT] = {
        [EXTENSION_OK] = "ok",
        [EXTENSION_ABSENT] = "no room for an extension block",
        [EXTENSION_BAD_MAGIC] = "no extension block",
        [EXTENSION_VERSION_OTHER] = "extension block of an unknown version",
        [EXTENSION_WRONG_REQUEST] = "extension block answers another Request",
    };
    return names[verdict];
}

const char *extension_message_verdict_name(enum extension_message_verdict verdict)
{
    static const char *const names[EXTENSION_MESSAGE_VERDICT_COUNT] = {
        [EXTENSION_MESSAGE_OK] = "ok",
        [EXTENSION_MESSAGE_BAD_LEN] = "extension message of a wrong length",
        [EXTENSION_MESSAGE_VERSION] = "extension message of an unknown version",
        [EXTENSION_MESSAGE_KIND] = "extension message of an unknown kind",
        [EXTENSION_MESSAGE_ENCODING] = "extension message with a wrong one-shot encoding",
    };
    return names[verdict];
}
