// A judge of the connection manager's messages: tshark reads a capture with one of each, and finds
// in every field what was put there. The headers before them are written out here, so that nothing
// but the messages is of our making.
#include "base/bytes.h"
#include "tests/golden.h"
#include "tests/wire/ibcm_samples.h"
#include "wire/ibcm.h"
#include "wire/mad.h"

enum {
    LINKTYPE_RAW = 101,
    IP_LEN = 20,
    UDP_LEN = 8,
    BTH_AND_DETH_LEN = 20,
    ICRC_LEN = 4,
    PACKET_LEN = IP_LEN + UDP_LEN + BTH_AND_DETH_LEN + MAD_LEN + ICRC_LEN,
};

static bool has_tshark(void)
{
    FILE *in = popen("command -v tshark", "r");
    assert_non_null(in);
    bool has_line = fgetc(in) != EOF;
    pclose(in);
    return has_line;
}

static void pcap_head(FILE *out)
{
    const uint32_t head[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, LINKTYPE_RAW};
    fwrite(head, sizeof head, 1, out);
}

static void pcap_packet(FILE *out, const struct ibcm_message *m)
{
    static const uint8_t bth_and_deth[BTH_AND_DETH_LEN] = {
        0x64, 0x00, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 9, 0x80, 0x01, 0, 0, 0, 0, 0, 1,
    };
    const uint32_t record[4] = {0, 0, PACKET_LEN, PACKET_LEN};
    uint8_t packet[PACKET_LEN] = {0x45, 0, 0,   0, 0, 0, 0x40, 0, 64, 17,
                                  0,    0, 192, 0, 2, 1, 192,  0, 2,  2};
    uint8_t *udp = packet + IP_LEN, *bth = udp + UDP_LEN;
    put_be16(packet + 2, PACKET_LEN);
    put_be16(udp, 0xc000);
    put_be16(udp + 2, 4791);
    put_be16(udp + 4, PACKET_LEN - IP_LEN);
    memcpy(bth, bth_and_deth, sizeof bth_and_deth);
    ibcm_message_emit(m, bth + BTH_AND_DETH_LEN);
    fwrite(record, sizeof record, 1, out);
    fwrite(packet, sizeof packet, 1, out);
}

// What tshark finds of these fields in a capture of the one message.
static void tshark_says(const struct ibcm_message *m, const char *fields, char *ret, size_t len)
{
    char path[] = "/tmp/weft-ibcm-XXXXXX", command[2048], names[1024], *save;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    pcap_head(out);
    pcap_packet(out, m);
    fclose(out);
    int at = snprintf(command, sizeof command, "tshark -r %s -T fields -E separator=/s", path);
    snprintf(names, sizeof names, "%s", fields);
    for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        at += snprintf(command + at, sizeof command - (size_t)at, " -e infiniband.%s", name);
    }
    snprintf(command + at, sizeof command - (size_t)at, " 2>/dev/null");
    FILE *in = popen(command, "r");
    assert_non_null(in);
    size_t got = fread(ret, 1, len - 1, in);
    assert_int_equal(pclose(in), 0);
    ret[got] = '\0';
    remove(path);
}

#define MAD_FIELDS "mad.mgmtclass mad.classversion mad.method mad.transactionid mad.attributeid "

static const struct {
    enum ibcm_kind kind;
    const char *fields;
    const char *expected;
} questions[] = {
    {IBCM_REQ, MAD_FIELDS "cm.req cm.req.serviceid.protocol cm.req.serviceid.dport",
     "0x07 0x02 0x03 0xf1f2f3f4f5f6f700 0x0010 0x01020304 0x06 0x1144\n"},
    {IBCM_REQ,
     "cm.req.localcaguid cm.req.localqkey cm.req.localqpn cm.req.responderres cm.req.initdepth "
     "cm.req.remoteresptout cm.req.transpsvctype cm.req.e2eflowctrl cm.req.startpsn "
     "cm.req.localresptout cm.req.retrcount cm.req.pkey cm.req.pppmtu cm.req.rnrretrcount "
     "cm.req.maxcmretr cm.req.srq cm.req.ext_transport",
     "0x1112131415161718 0x21222324 0x313233 0x07 0x09 0x12 0x01 0x01 0x414243 0x11 0x05 0xffff "
     "0x03 0x06 0x0f 0x01 0x00\n"},
    // Without flow label and packet rate, which this tshark reads one octet too short.
    {IBCM_REQ,
     "cm.req.prim_locallid cm.req.prim_remotelid cm.req.prim_localgid_ipv4 "
     "cm.req.prim_remotegid_ipv4 cm.req.prim_tfcclass cm.req.prim_hoplim cm.req.prim_sl "
     "cm.req.prim_subnetlocal cm.req.prim_localacktout",
     "65535 65535 192.0.2.1 192.0.2.2 0x68 0x40 0x04 0x01 0x13\n"},
    {IBCM_REQ,
     "cm.req.ip_cm.majv cm.req.ip_cm.minv cm.req.ip_cm.ipv cm.req.ip_cm.sport "
     "cm.req.ip_cm.sip4 cm.req.ip_cm.dip4",
     "0x00 0x00 0x04 0x9c40 192.0.2.1 192.0.2.2\n"},
    {IBCM_REP,
     MAD_FIELDS "cm.rep cm.rep.remotecommid cm.rep.localqkey cm.rep.localqpn cm.rep.startpsn "
                "cm.rep.respres cm.rep.initdepth cm.rep.tgtackdelay cm.rep.failoveracc "
                "cm.rep.e2eflowctrl cm.rep.rnrretrcount cm.rep.srq cm.rep.localcaguid",
     "0x07 0x02 0x03 0xf1f2f3f4f5f6f703 0x0013 0x01020304 0x05060708 0x21222324 0x313233 "
     "0x414243 0x07 0x09 0x0f 0x01 0x01 0x06 0x01 0x1112131415161718\n"},
    {IBCM_RTU, MAD_FIELDS "cm.rtu.localcommid cm.rtu.remotecommid",
     "0x07 0x02 0x03 0xf1f2f3f4f5f6f704 0x0014 0x01020304 0x05060708\n"},
    {IBCM_REJ,
     MAD_FIELDS "cm.rej.localcommid cm.rej.remotecommid cm.rej.msgrej cm.rej.rejinfolen "
                "cm.rej.reason",
     "0x07 0x02 0x03 0xf1f2f3f4f5f6f702 0x0012 0x01020304 0x05060708 0x01 0x03 0x001c\n"},
    {IBCM_DREQ, MAD_FIELDS "cm.dreq.localcommid cm.dreq.remotecommid cm.req.remoteqpneecn",
     "0x07 0x02 0x03 0xf1f2f3f4f5f6f705 0x0015 0x01020304 0x05060708 0x313233\n"},
    {IBCM_DREP, MAD_FIELDS "cm.drsp.localcommid cm.drsp.remotecommid",
     "0x07 0x02 0x03 0xf1f2f3f4f5f6f706 0x0016 0x01020304 0x05060708\n"},
    // Of these this tshark knows the header alone.
    {IBCM_MRA, MAD_FIELDS, "0x07 0x02 0x03 0xf1f2f3f4f5f6f701 0x0011\n"},
    {IBCM_SIDR_REQ, MAD_FIELDS, "0x07 0x02 0x03 0xf1f2f3f4f5f6f707 0x0017\n"},
    {IBCM_SIDR_REP, MAD_FIELDS, "0x07 0x02 0x03 0xf1f2f3f4f5f6f708 0x0018\n"},
};

static void tshark_finds_in_each_field_what_was_put_there(void **state)
{
    if (!has_tshark()) {
        print_message("SKIP: no program tshark\n");
        skip();
    }
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const struct ibcm_message m = ibcm_sample(questions[i].kind);
        char said[4096];
        tshark_says(&m, questions[i].fields, said, sizeof said);
        assert_string_equal(said, questions[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tshark_finds_in_each_field_what_was_put_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
