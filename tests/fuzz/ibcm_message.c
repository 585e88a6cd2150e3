// Any octets as a message of the connection manager: what is taken is told, and is the same message
// when it is emitted and taken again.
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "wire/ibcm.h"
#include "wire/ip_cm.h"
#include "wire/mad.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_header(struct span private_data)
{
    struct ip_cm_header h, again;
    uint8_t octets[IP_CM_HEADER_LEN];
    char line[200];
    if (ip_cm_header_parse(private_data, &h) != IP_CM_OK) {
        return;
    }
    CHECK(ip_cm_header_format(&h, line, sizeof line) == line);
    ip_cm_header_emit(&h, octets);
    CHECK(ip_cm_header_parse(span_of(octets, sizeof octets), &again) == IP_CM_OK);
    CHECK(memcmp(&again.source, &h.source, sizeof h.source) == 0);
    CHECK(memcmp(&again.destination, &h.destination, sizeof h.destination) == 0);
    CHECK(again.source_port == h.source_port && again.is_ipv6 == h.is_ipv6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ibcm_message m, again;
    uint8_t octets[MAD_LEN], octets_again[MAD_LEN];
    char line[400];
    enum ibcm_parse_verdict verdict = ibcm_message_parse(span_of(data, size), &m);
    CHECK(verdict < IBCM_PARSE_VERDICT_COUNT);
    if (verdict != IBCM_PARSE_OK) {
        return 0;
    }
    CHECK(ibcm_message_format(&m, line, sizeof line) == line);
    CHECK(ibcm_message_emit(&m, octets) == MAD_LEN);
    CHECK(ibcm_message_parse(span_of(octets, sizeof octets), &again) == IBCM_PARSE_OK);
    CHECK(ibcm_message_emit(&again, octets_again) == MAD_LEN);
    CHECK(memcmp(octets, octets_again, MAD_LEN) == 0);
    if (m.kind == IBCM_REQ) {
        check_header(m.req.private_data);
    } else if (m.kind == IBCM_SIDR_REQ) {
        check_header(m.sidr_req.private_data);
    }
    return 0;
}
