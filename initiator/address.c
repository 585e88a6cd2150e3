// Where a subsystem is: nvme+rdma://HOST[:PORT][/NQN[/NSID]], or HOST[:PORT].

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "initiator/agent.h"

static const char scheme[] = "nvme+rdma://";

// Text [at, end) into `ret`, with %XX decoded. False: too long, or not text.
static bool take(const char *at, const char *end, char *ret, size_t capacity)
{
    size_t len = 0;
    while (at < end) {
        unsigned char octet = (unsigned char)*at;
        bool is_encoded = end - at >= 3 && *at == '%' && isxdigit((unsigned char)at[1]) &&
                          isxdigit((unsigned char)at[2]);
        if (is_encoded) {
            const char digits[] = {at[1], at[2], '\0'};
            octet = (unsigned char)strtoul(digits, NULL, 16);
        }
        if (octet <= ' ' || octet == 0x7f || len + 1 >= capacity) {
            return false;
        }
        ret[len++] = (char)octet;
        at += is_encoded ? 3 : 1;
    }
    ret[len] = '\0';
    return true;
}

static int authority_take(const char *at, const char *end, struct weft_nvme_address *ret,
                          char *ret_why)
{
    const char *port = NULL, *host = at, *host_end = end;
    if (at < end && *at == '[') {
        host = at + 1;
        host_end = memchr(at, ']', (size_t)(end - at));
        if (host_end == NULL || (host_end + 1 < end && host_end[1] != ':')) {
            return initiator_why(ret_why, -EINVAL, "an IPv6 number in brackets is [NUMBER]:PORT");
        }
        port = host_end + 1 < end ? host_end + 2 : NULL;
    } else {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (colon != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL) {
            return initiator_why(ret_why, -EINVAL, "an IPv6 number stands in brackets");
        }
        host_end = colon != NULL ? colon : end;
        port = colon != NULL ? colon + 1 : NULL;
    }
    snprintf(ret->port, sizeof ret->port, "%s", WEFT_NVME_PORT);
    if (host == host_end || !take(host, host_end, ret->host, sizeof ret->host)) {
        return initiator_why(ret_why, -EINVAL, "it names no host");
    }
    if (port != NULL && (port == end || !take(port, end, ret->port, sizeof ret->port))) {
        return initiator_why(ret_why, -EINVAL, "it names no port behind the colon");
    }
    return 0;
}

static int nsid_take(const char *text, uint32_t *ret, char *ret_why)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0' || number == 0 || number >= NVME_NSID_ALL) {
        return initiator_why(ret_why, -EINVAL, "%s is not the number of a namespace", text);
    }
    *ret = (uint32_t)number;
    return 0;
}

int weft_nvme_address_parse(const char *text, struct weft_nvme_address *ret, char *ret_why)
{
    bool is_uri = strncmp(text, scheme, sizeof scheme - 1) == 0;
    const char *at = is_uri ? text + sizeof scheme - 1 : text;
    *ret = (struct weft_nvme_address){0};
    if (!is_uri && strstr(text, "://") != NULL) {
        return initiator_why(ret_why, -EINVAL, "it is not %sHOST[:PORT]/NQN", scheme);
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

void weft_nvme_address_format(const struct weft_nvme_address *address, char *ret, size_t capacity)
{
    bool is_number_6 = strchr(address->host, ':') != NULL;
    int len = snprintf(ret, capacity, "%s%s%s%s:%s", scheme, is_number_6 ? "[" : "", address->host,
                       is_number_6 ? "]" : "", address->port);
    if (address->nqn[0] != '\0' && (size_t)len < capacity) {
        len += snprintf(ret + len, capacity - (size_t)len, "/%s", address->nqn);
    }
    if (address->nsid != 0 && (size_t)len < capacity) {
        snprintf(ret + len, capacity - (size_t)len, "/%u", address->nsid);
    }
}
