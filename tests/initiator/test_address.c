// Addresses of subsystems as text.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <weft/nvme.h>

static struct weft_nvme_address address;
static char why[WEFT_NVME_WHY_MAX];

static void expect(const char *text, const char *host, const char *port, const char *nqn,
                   uint32_t nsid)
{
    assert_int_equal(weft_nvme_address_parse(text, &address, why), 0);
    assert_string_equal(address.host, host);
    assert_string_equal(address.port, port);
    assert_string_equal(address.nqn, nqn);
    assert_int_equal(address.nsid, nsid);
}

static void expect_refusal(const char *text, const char *said)
{
    assert_int_equal(weft_nvme_address_parse(text, &address, why), -EINVAL);
    if (strstr(why, said) == NULL) {
        fail_msg("%s: '%s' is not in '%s'", text, said, why);
    }
}

static void right_ones_are_taken_apart(void **state)
{
    expect("nvme+rdma://192.0.2.1:4421/nqn.2014-08.org:x/3", "192.0.2.1", "4421",
           "nqn.2014-08.org:x", 3);
    expect("nvme+rdma://[2001:db8::1]:9/nqn.x", "2001:db8::1", "9", "nqn.x", 0);
    expect("nvme+rdma://[::1]", "::1", "4420", "", 0);
    expect("storage.example", "storage.example", "4420", "", 0);
    expect("storage.example:1", "storage.example", "1", "", 0);
    expect("nvme+rdma://h/a%2fb", "h", "4420", "a/b", 0);
    expect("nvme+rdma://h/a%2f", "h", "4420", "a/", 0); // at the very end
    expect("nvme+rdma://h/a%2", "h", "4420", "a%2", 0);
    expect("nvme+rdma://h/a%2g%g2", "h", "4420", "a%2g%g2", 0);
    expect("nvme+rdma://h/", "h", "4420", "", 0);
}

static void the_scheme_says_the_transport(void **state)
{
    static const char *const uris[] = {"nvme+rdma://h:4420/n/1", "nvme+tcp://h:4420/n/1"};
    char again[64];
    for (unsigned i = 0; i < 2; i++) {
        expect(uris[i], "h", "4420", "n", 1);
        assert_int_equal(address.transport, i == 0 ? WEFT_NVME_RDMA : WEFT_NVME_TCP);
        weft_nvme_address_format(&address, again, sizeof again);
        assert_string_equal(again, uris[i]);
    }
    expect("h:4420/n", "h", "4420", "n", 0);
    assert_int_equal(address.transport, WEFT_NVME_RDMA);
}

static void wrong_ones_are_refused(void **state)
{
    char long_name[400];
    memset(long_name, 'n', sizeof long_name - 1);
    memcpy(long_name, "h/", 2);
    long_name[sizeof long_name - 1] = '\0';
    expect_refusal("", "names no host");
    expect_refusal("nvme+rdma://", "names no host");
    expect_refusal("nvme+fc://h/n", "it is not nvme+rdma://");
    expect_refusal("h:", "no port");
    expect_refusal("h:65536", "there is no port 65536");
    expect_refusal("nvme+tcp://[::1]:99999/nqn.x", "there is no port 99999");
    expect_refusal("2001:db8::1", "in brackets");
    expect_refusal("[::1", "in brackets");
    expect_refusal("[::1]x", "in brackets");
    expect_refusal("h/n/0", "not the number of a namespace");
    expect_refusal("h/n/4294967295", "not the number of a namespace");
    expect_refusal("h/n/1x", "not the number of a namespace");
    expect_refusal("h/a%00b", "no text");
    expect_refusal(long_name, "longer than");
}

static void a_reason_is_as_long_as_the_caller_has_room(void **state)
{
    char text[2 * WEFT_NVME_WHY_MAX], room[WEFT_NVME_WHY_MAX + 1];
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "h/n/", 4);
    text[sizeof text - 1] = '\0';
    memset(room, '#', sizeof room);
    assert_int_equal(weft_nvme_address_parse(text, &address, room), -EINVAL);
    assert_int_equal(strlen(room), WEFT_NVME_WHY_MAX - 1);
    assert_int_equal(room[WEFT_NVME_WHY_MAX], '#');
}

static void nobody_needs_a_reason(void **state)
{
    assert_int_equal(weft_nvme_address_parse("h:", &address, NULL), -EINVAL);
}

static void what_was_taken_apart_is_put_together(void **state)
{
    static const char *const texts[] = {"nvme+rdma://192.0.2.1:4421/nqn.x/3",
                                        "nvme+rdma://[2001:db8::1]:9/nqn.x", "nvme+rdma://h:4420"};
    char text[600], cut[12];
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(weft_nvme_address_parse(texts[i], &address, why), 0);
        weft_nvme_address_format(&address, text, sizeof text);
        assert_string_equal(text, texts[i]);
        weft_nvme_address_format(&address, cut, sizeof cut);
        assert_int_equal(strncmp(cut, texts[i], sizeof cut - 1), 0);
    }
}

static void a_text_is_cut_where_the_room_ends(void **state)
{
    static const char whole[] = "nvme+rdma://host:77/nqn.a/1234";
    char text[sizeof whole + 1];
    assert_int_equal(weft_nvme_address_parse(whole, &address, NULL), 0);
    for (size_t room = 1; room <= sizeof whole; room++) {
        memset(text, '#', sizeof text);
        weft_nvme_address_format(&address, text, room);
        assert_int_equal(strlen(text), room - 1);
        assert_memory_equal(text, whole, room - 1);
        assert_int_equal(text[room], '#');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_ones_are_taken_apart),
        cmocka_unit_test(the_scheme_says_the_transport),
        cmocka_unit_test(wrong_ones_are_refused),
        cmocka_unit_test(a_reason_is_as_long_as_the_caller_has_room),
        cmocka_unit_test(nobody_needs_a_reason),
        cmocka_unit_test(what_was_taken_apart_is_put_together),
        cmocka_unit_test(a_text_is_cut_where_the_room_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
