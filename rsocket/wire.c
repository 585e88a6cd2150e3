// What rsockets say to each other before data flows: 40 octets of private data in the MPA Request
// and Reply. Numbers are in network byte order here, and in their host's everywhere else.

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "rsocket/rsocket.h"

//   OFFSET SIZE FIELD
//    0      1   version: 1
//    1      1   flags: 1 the host is big-endian, 2 iomaps are known
//    2      2   credits
//    4      3   reserved
//    7      1   entries of the iomap table, scaled
//    8     16   list of places: address 8, key 4, entries 4
//   24     16   first place: address 8, key 4, octets 4
enum {
    OFF_VERSION = 0,
    OFF_FLAGS = 1,
    OFF_CREDITS = 2,
    OFF_IOMAP = 7,
    OFF_LIST = 8,
    OFF_FIRST = 24,
    SGE_OFF_KEY = 8,
    SGE_OFF_LENGTH = 12,
};

enum { VERSION = 1, FLAG_BIG_ENDIAN = 1, FLAG_IOMAP = 2 };

static const uint8_t own_order = BYTE_ORDER == BIG_ENDIAN ? FLAG_BIG_ENDIAN : 0;

// One octet for counts up to 127 * 256: plain up to 128, in units of 256 with the highest bit
// above.
static uint8_t count_scale(uint32_t count)
{
    return count <= 128 ? (uint8_t)count : (uint8_t)(128 | count >> 8);
}

static uint16_t count_unscale(uint8_t scaled)
{
    return scaled <= 128 ? scaled : (uint16_t)((scaled & 127) << 8);
}

uint16_t rs_iomap_count_fit(uint32_t wanted)
{
    if (wanted > 128 && wanted < 256) {
        wanted = 256; // below, the unit would round it down to none
    }
    return count_unscale(count_scale(wanted < RS_IOMAP_MAX ? wanted : RS_IOMAP_MAX));
}

static void sge_emit(const struct rs_sge *sge, uint8_t *buf)
{
    uint64_t addr = htobe64(sge->addr);
    uint32_t key = htobe32(sge->key), length = htobe32(sge->length);
    memcpy(buf, &addr, sizeof addr);
    memcpy(buf + SGE_OFF_KEY, &key, sizeof key);
    memcpy(buf + SGE_OFF_LENGTH, &length, sizeof length);
}

static struct rs_sge sge_parse(const uint8_t *octets)
{
    uint64_t addr;
    uint32_t key, length;
    memcpy(&addr, octets, sizeof addr);
    memcpy(&key, octets + SGE_OFF_KEY, sizeof key);
    memcpy(&length, octets + SGE_OFF_LENGTH, sizeof length);
    return (struct rs_sge){.addr = be64toh(addr), .key = be32toh(key), .length = be32toh(length)};
}

void rs_hello_emit(const struct rs_hello *hello, uint8_t buf[RS_HELLO_LEN])
{
    memset(buf, 0, RS_HELLO_LEN);
    buf[OFF_VERSION] = VERSION;
    buf[OFF_FLAGS] = FLAG_IOMAP | own_order;
    buf[OFF_CREDITS] = (uint8_t)(hello->credits >> 8);
    buf[OFF_CREDITS + 1] = (uint8_t)hello->credits;
    buf[OFF_IOMAP] = count_scale(hello->iomap_count);
    sge_emit(&hello->list, buf + OFF_LIST);
    sge_emit(&hello->first, buf + OFF_FIRST);
}

int rs_hello_parse(const uint8_t *octets, size_t len, struct rs_hello *ret)
{
    if (len < RS_HELLO_LEN) {
        return EPROTO;
    }
    if (octets[OFF_VERSION] != VERSION || (octets[OFF_FLAGS] & FLAG_BIG_ENDIAN) != own_order) {
        return ENOTSUP;
    }
    *ret = (struct rs_hello){
        .credits = (uint16_t)(octets[OFF_CREDITS] << 8 | octets[OFF_CREDITS + 1]),
        .list = sge_parse(octets + OFF_LIST),
        .first = sge_parse(octets + OFF_FIRST),
    };
    if ((octets[OFF_FLAGS] & FLAG_IOMAP) != 0) {
        ret->iomap_count = count_unscale(octets[OFF_IOMAP]);
    }
    return ret->list.length > 0 ? 0 : EPROTO;
}
