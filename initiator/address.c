// Where a subsystem is: nvme+rdma://HOST[:PORT][/NQN[/NSID]], nvme+tcp://..., or HOST[:PORT].

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "initiator/agent.h"
#include "text/endpoint.h"
#include "text/percent.h"
#include "text/quantity.h"

static const char *const schemes[] = {
    [WEFT_NVME_RDMA] = "nvme+rdma://", [WEFT_NVME_TCP] = "nvme+tcp://"};

enum { SCHEME_COUNT = sizeof schemes / sizeof schemes[0] };

// Text [at, end) into `ret`, with %XX decoded. False: too long, or not text.
static bool take(const char *at, const char *end, char *ret, size_t capacity)
{
    size_t len = 0;
    while (at < end) {
        unsigned char octet = text_percent_take(&at, end);
        if (octet <= ' ' || octet == 0x7f || len + 1 >= capacity) {
            return false;
        }
        ret[len++] = (char)octet;
    }
    ret[len] = '\0';
    return true;
}

static int authority_take(const char *at, const char *end, struct weft_nvme_address *ret,
                          struct why *ret_why)
{
    struct text_endpoint e;
    switch (text_endpoint_split(at, (size_t)(end - at), &e)) {
    case TEXT_ENDPOINT_OK:
        break;
    case TEXT_ENDPOINT_BRACKET:
        return initiator_why(ret_why, -EINVAL, "an IPv6 number in brackets is [NUMBER]:PORT");
    case TEXT_ENDPOINT_BARE_6:
        return initiator_why(ret_why, -EINVAL, "an IPv6 number stands in brackets");
    }
    snprintf(ret->port, sizeof ret->port, "%s", WEFT_NVME_PORT);
    if (e.host_len == 0 || !take(e.host, e.host + e.host_len, ret->host, sizeof ret->host)) {
        return initiator_why(ret_why, -EINVAL, "it names no host");
    }
    if (e.port != NULL &&
        (e.port_len == 0 || !take(e.port, e.port + e.port_len, ret->port, sizeof ret->port))) {
        return initiator_why(ret_why, -EINVAL, "it names no port behind the colon");
    }
    if (!text_port_exists(ret->port, strlen(ret->port))) {
        return initiator_why(ret_why, -EINVAL, "there is no port %s", ret->port);
    }
    return 0;
}

static int nsid_take(const char *text, uint32_t *ret, struct why *ret_why)
{
    uint64_t number;
    if (!text_number_parse(text, 1, NVME_NSID_ALL - 1, &number)) {
        return initiator_why(ret_why, -EINVAL, "%s is not the number of a namespace", text);
    }
    *ret = (uint32_t)number;
    return 0;
}

// What stands behind the scheme; `text` itself: none is there.
static const char *scheme_take(const char *text, struct weft_nvme_address *ret)
{
    *ret = (struct weft_nvme_address){0};
    for (unsigned i = 0; i < SCHEME_COUNT; i++) {
        size_t len = strlen(schemes[i]);
        if (strncmp(text, schemes[i], len) == 0) {
            ret->transport = (enum weft_nvme_transport)i;
            return text + len;
        }
    }
    return text;
}

static int parse(const char *text, struct weft_nvme_address *ret, struct why *ret_why)
{
    const char *at = scheme_take(text, ret);
    if (at == text && strstr(text, "://") != NULL) {
        return initiator_why(ret_why, -EINVAL, "it is not %sHOST[:PORT]/NQN, nor %s...",
                             schemes[WEFT_NVME_RDMA], schemes[WEFT_NVME_TCP]);
    }
    const char *authority_end = at + strcspn(at, "/");
    int error = authority_take(at, authority_end, ret, ret_why);
    if (error != 0 || *authority_end == '\0' || authority_end[1] == '\0') {
        return error;
    }
    const char *nqn = authority_end + 1, *nqn_end = nqn + strcspn(nqn, "/");
    if (nqn_end - nqn >= NVME_NQN_MAX || !take(nqn, nqn_end, ret->nqn, NVME_NQN_MAX)) {
        return initiator_why(ret_why, -EINVAL, "the NQN is longer than %d octets, or no text",
                             NVME_NQN_MAX - 1);
    }
    return *nqn_end == '/' && nqn_end[1] != '\0' ? nsid_take(nqn_end + 1, &ret->nsid, ret_why) : 0;
}

int weft_nvme_address_parse(const char *text, struct weft_nvme_address *ret, char *ret_why)
{
    struct why why = {""};
    return initiator_tell(ret_why, &why, parse(text, ret, &why));
}

void weft_nvme_address_format(const struct weft_nvme_address *address, char *ret, size_t capacity)
{
    char endpoint[WEFT_NVME_NAME_MAX + WEFT_NVME_PORT_MAX + 3];
    text_endpoint_format(address->host, address->port, endpoint, sizeof endpoint);
    int len = snprintf(ret, capacity, "%s%s", schemes[address->transport], endpoint);
    if (address->nqn[0] != '\0' && (size_t)len < capacity) {
        len += snprintf(ret + len, capacity - (size_t)len, "/%s", address->nqn);
    }
    if (address->nsid != 0 && (size_t)len < capacity) {
        snprintf(ret + len, capacity - (size_t)len, "/%u", address->nsid);
    }
}
