// A controller whose pages are asked for, octet by octet, as the NVM Express Base specification 1.4
// has them. What is not named of a page is zero.
#pragma once

#include "tests/node/nvme_stage.h"
#include "tests/octets.h"

enum {
    ABILITIES = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH | VOLUME_CAN_TRIM | VOLUME_CAN_WRITE_ZEROES
};

// Octets of a page from one on, as text or in hexadecimal.
struct piece {
    uint32_t at;
    const char *text, *hex;
};

#define EXPECT_PAGE(line, len, ...)                                                   \
    do {                                                                              \
        const struct piece pieces[] = {__VA_ARGS__};                                  \
        expect_page(line, len, pieces, (unsigned)(sizeof pieces / sizeof pieces[0])); \
    } while (0)

static inline void expect_page(const struct line *line, uint32_t len, const struct piece *pieces,
                               unsigned count)
{
    static uint8_t page[NVME_DATA_LEN_MAX];
    memset(page, 0, len);
    for (unsigned i = 0; i < count; i++) {
        uint8_t *at = page + pieces[i].at;
        if (pieces[i].text != NULL) {
            memcpy(at, pieces[i].text, strlen(pieces[i].text));
        }
        if (pieces[i].hex != NULL) {
            octets_of(pieces[i].hex, at, sizeof page - pieces[i].at);
        }
    }
    assert_int_equal(line_answer(line).status, NVME_OK);
    for (uint32_t i = 0; i < len; i++) {
        if (line->came[i] != page[i]) {
            fail_msg("octet %u is %02x, not %02x", i, line->came[i], page[i]);
        }
    }
}

static struct stage *s;
static struct line *admin;
static uint16_t cntlid;

static inline int begin(void **state)
{
    s = stage_create(ABILITIES);
    s->row.profile.preferred = 4096;
    for (uint8_t i = 0; i < VOLUME_UUID_LEN; i++) {
        s->row.identity.uuid[i] = (uint8_t)(0x10 + i);
        s->row.identity.alias[i] = (uint8_t)(0xa0 + i);
    }
    admin = admin_open(s, STAGE_HOST, 0, &cntlid);
    return 0;
}

static inline int end(void **state)
{
    line_end(admin);
    stage_destroy(s);
    return 0;
}

#define NQN "nqn.2014-08.org.nvmexpress:uuid:10111213-1415-1617-1819-1a1b1c1d1e1f"

/* ---- what is asked --------------------------------------------------------------------------- */

static inline struct answer identify(uint8_t cns, uint32_t nsid, uint16_t from, uint8_t set)
{
    uint8_t sqe[NVME_SQE_LEN];
    memset(admin->came, 0xee, sizeof admin->came);
    sqe_fill(admin, sqe, NVME_ADMIN_IDENTIFY, NVME_IDENTIFY_LEN);
    put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
    sqe[NVME_IDENTIFY_OFF_CNS] = cns;
    put_le16(sqe + NVME_IDENTIFY_OFF_CNS + 2, from);
    sqe[NVME_IDENTIFY_OFF_CSI] = set;
    line_send(admin, sqe);
    return line_answer(admin);
}

static inline struct answer get_log_of(uint32_t nsid, uint8_t lid, uint8_t lsp, uint64_t from,
                                       uint32_t len)
{
    uint8_t sqe[NVME_SQE_LEN];
    memset(admin->came, 0xee, sizeof admin->came);
    sqe_fill(admin, sqe, NVME_ADMIN_GET_LOG_PAGE, len);
    put_le32(sqe + NVME_SQE_OFF_NSID, nsid);
    sqe[NVME_GET_LOG_OFF_LID] = lid;
    sqe[NVME_GET_LOG_OFF_LSP] = lsp;
    put_le16(sqe + NVME_GET_LOG_OFF_NUMDL, (uint16_t)(len / 4 - 1));
    put_le16(sqe + NVME_GET_LOG_OFF_NUMDU, (uint16_t)((len / 4 - 1) >> 16));
    put_le64(sqe + NVME_GET_LOG_OFF_LPO, from);
    line_send(admin, sqe);
    return line_answer(admin);
}

static inline struct answer get_log(uint8_t lid, uint8_t lsp, uint64_t from, uint32_t len)
{
    return get_log_of(0, lid, lsp, from, len);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
