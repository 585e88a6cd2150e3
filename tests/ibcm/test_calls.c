// One agent alone: what its calls refuse, what its requests say, and when it tries again.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "ibcm/ibcm.h"
#include "wire/ibcm.h"
#include "wire/ip_cm.h"

enum { NOW = 5 };

static struct ibcm *ibcm;
static struct ibcm_config config;
static struct ibcm_message sent; // the last
static uint8_t sent_mad[MAD_LEN];
static unsigned sent_count;
static struct ibcm_params params;
static struct ibcm_target target;

static bool put(void *ctx, const struct ibcm_ends *ends, const uint8_t *mad)
{
    memcpy(sent_mad, mad, MAD_LEN);
    sent_count++;
    return ibcm_message_parse(span_of(sent_mad, MAD_LEN), &sent) == IBCM_PARSE_OK;
}

static int begin(void **state)
{
    config = ibcm_config_default();
    config.sink.put = put;
    config.ca_guid = 0x1122334455667788;
    config.conn_max = 2;
    config.half_open_max = 1;
    sent_count = 0;
    params = (struct ibcm_params){.qp_num = 0x123456, .path_mtu = 3, .retry_count = 6};
    target =
        (struct ibcm_target){.ends = {.local = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
                                      .remote = {.s6_addr = {[10] = 0xff, 0xff, 192, 0, 2, 2}}},
                             .ps = IP_CM_PS_TCP,
                             .port = 7471,
                             .source_port = 4000};
    ibcm = ibcm_create(&config);
    return ibcm == NULL;
}

static int end(void **state)
{
    ibcm_destroy(ibcm);
    return 0;
}

static struct ibcm_conn *call(int *ret_error)
{
    return ibcm_connect(ibcm, &target, &params, NULL, NOW, ret_error);
}

static void defaults_are_those_of_other_hosts(void **state)
{
    const struct ibcm_config c = ibcm_config_default();
    assert_int_equal(c.path_mtu_max, 5);
    assert_int_equal(c.packet_lifetime, 16);
    assert_int_equal(c.response_timeout, 18);
    assert_int_equal(c.service_timeout, 24);
    assert_int_equal(c.ack_delay, 15);
    assert_int_equal(c.max_cm_retries, 15);
    assert_int_equal(c.conn_max, 16384);
    assert_int_equal(c.half_open_max, 4096);
    assert_int_equal(c.source_max, 2048);
    assert_int_equal(c.answers_max, 1000);
}

static void path_mtu_is_one_of_five(void **state)
{
    static const int errors[] = {-EINVAL, 0, 0, 0, 0, 0, -EINVAL};
    for (uint8_t mtu = 0; mtu <= 6; mtu++) {
        int error = 1;
        params.path_mtu = mtu;
        struct ibcm_conn *conn = call(&error);
        assert_int_equal(error, errors[mtu]);
        assert_int_equal(conn != NULL, error == 0);
        if (conn != NULL) {
            ibcm_destroy(ibcm);
            ibcm = ibcm_create(&config);
        }
    }
    assert_int_equal(sent_count, 5);
}

static void who_has_no_place_hears_so(void **state)
{
    int error;
    assert_non_null(call(&error));
    assert_non_null(ibcm_resolve(ibcm, &target, (struct span){0}, NULL, NOW, &error));
    assert_int_equal(error, 0);
    assert_null(call(&error));
    assert_int_equal(error, -EAGAIN);
    error = 0;
    assert_null(ibcm_resolve(ibcm, &target, (struct span){0}, NULL, NOW, &error));
    assert_int_equal(error, -EAGAIN);
    assert_int_equal(sent_count, 2);
}

static void request_says_what_the_owner_has(void **state)
{
    int error;
    params.ack_timeout = 9;
    params.hop_limit = 7;
    params.traffic_class = 0x68;
    params.flow_label = 0xabcde;
    params.rnr_retry_count = 5;
    params.responder_resources = 3;
    params.initiator_depth = 2;
    params.has_srq = true;
    params.has_flow_control = true;
    params.transport = IBCM_TRANSPORT_UC;
    params.qkey = 0x12345;
    assert_non_null(call(&error));
    assert_int_equal(sent.kind, IBCM_REQ);
    assert_int_equal(sent.req.qp_num, 0x123456);
    assert_int_equal(sent.req.path_mtu, 3);
    assert_int_equal(sent.req.retry_count, 6);
    assert_int_equal(sent.req.rnr_retry_count, 5);
    assert_int_equal(sent.req.responder_resources, 3);
    assert_int_equal(sent.req.initiator_depth, 2);
    assert_true(sent.req.has_srq);
    assert_true(sent.req.has_flow_control);
    assert_int_equal(sent.req.transport, IBCM_TRANSPORT_UC);
    assert_int_equal(sent.req.qkey, 0x12345);
    assert_int_equal(sent.req.primary.hop_limit, 7);
    assert_int_equal(sent.req.primary.traffic_class, 0x68);
    assert_int_equal(sent.req.primary.flow_label, 0xabcde);
    assert_int_equal(sent.req.primary.local_ack_timeout, 9);
    assert_int_equal(sent.req.service_id, ip_cm_service_id(IP_CM_PS_TCP, 7471));
    assert_int_equal(sent.req.max_cm_retries, config.max_cm_retries);
}

static void request_says_what_the_device_has(void **state)
{
    int error;
    assert_non_null(call(&error));
    assert_int_equal(sent.req.ca_guid, config.ca_guid);
    assert_int_equal(sent.req.local_timeout, config.response_timeout);
    assert_int_equal(sent.req.remote_timeout, config.response_timeout);
    assert_int_equal(sent.req.pkey, 0xffff);
    assert_int_equal(sent.req.primary.local_lid, IBCM_LID_NONE);
    assert_int_equal(sent.req.primary.remote_lid, IBCM_LID_NONE);
    assert_memory_equal(&sent.req.primary.local_gid, &target.ends.local, sizeof(struct in6_addr));
    assert_memory_equal(&sent.req.primary.remote_gid, &target.ends.remote, sizeof(struct in6_addr));
}

// As the IP CM service has it, whatever the kind of request and the family.
static void requests_say_from_which_address_and_port_they_are(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        struct ip_cm_header h;
        int error;
        bool is_ipv6 = i % 2 == 1, is_datagram = i / 2 == 1;
        target.ends.local.s6_addr[0] = is_ipv6 ? 0xfd : 0;
        target.ends.remote.s6_addr[0] = is_ipv6 ? 0xfd : 0;
        ibcm_destroy(ibcm);
        ibcm = ibcm_create(&config);
        assert_non_null(is_datagram
                            ? ibcm_resolve(ibcm, &target, span_of("data", 4), NULL, NOW, &error)
                            : call(&error));
        struct span said = is_datagram ? sent.sidr_req.private_data : sent.req.private_data;
        assert_int_equal(ip_cm_header_parse(said, &h), IP_CM_OK);
        assert_int_equal(h.is_ipv6, is_ipv6);
        assert_int_equal(h.source_port, 4000);
        assert_memory_equal(&h.source, &target.ends.local, sizeof h.source);
        assert_memory_equal(&h.destination, &target.ends.remote, sizeof h.destination);
        if (is_datagram) {
            assert_int_equal(sent.sidr_req.pkey, 0xffff);
            assert_int_equal(sent.sidr_req.service_id, ip_cm_service_id(IP_CM_PS_TCP, 7471));
            assert_memory_equal(said.ptr + IP_CM_HEADER_LEN, "data", 4);
        }
    }
}

// There and back takes twice as long as there, and one more in the exponent is twice.
static void what_the_owner_leaves_open_is_by_the_packet_lifetime(void **state)
{
    int error;
    assert_non_null(call(&error));
    assert_int_equal(sent.req.primary.local_ack_timeout, config.packet_lifetime + 1);
}

static void request_is_said_again_when_there_is_no_answer(void **state)
{
    int error;
    instant_ns wait = 2 * ib_time_ns(config.packet_lifetime) + ib_time_ns(config.response_timeout);
    assert_non_null(call(&error));
    assert_int_equal(ibcm_next_deadline(ibcm), NOW + wait);
    uint8_t first[MAD_LEN];
    memcpy(first, sent_mad, MAD_LEN);
    ibcm_on_deadline(ibcm, NOW + wait - 1);
    assert_int_equal(sent_count, 1);
    ibcm_on_deadline(ibcm, NOW + wait);
    assert_int_equal(sent_count, 2);
    assert_memory_equal(sent_mad, first, MAD_LEN);
    assert_int_equal(ibcm_counters(ibcm)->repeats, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_those_of_other_hosts),
        TEST(path_mtu_is_one_of_five),
        TEST(who_has_no_place_hears_so),
        TEST(request_says_what_the_owner_has),
        TEST(request_says_what_the_device_has),
        TEST(requests_say_from_which_address_and_port_they_are),
        TEST(what_the_owner_leaves_open_is_by_the_packet_lifetime),
        TEST(request_is_said_again_when_there_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
