// What is said of a tap device, in text.

#include <stdlib.h>
#include <string.h>

#include "link/device/tap.h"
#include "net/addr.h"
#include "net/iface.h"
#include "text/quantity.h"

enum { ITEM_MAX = 64 };

// "10.0.0.2/24"
static bool own_addr_add(char *text, struct device_tap_config *c)
{
    char *slash = strchr(text, '/');
    struct net_iface_addr *a = &c->addrs[c->addr_count];
    uint64_t prefix_len;
    if (slash == NULL || c->addr_count == NET_IFACE_ADDR_MAX) {
        return false;
    }
    *slash = '\0';
    if (!net_addr_parse(text, &a->addr) || net_addr_is_any(&a->addr) ||
        net_addr_is_multicast(&a->addr) ||
        !text_number_parse(slash + 1, 0, net_addr_is_ipv4(&a->addr) ? 32 : 128, &prefix_len)) {
        return false;
    }
    a->prefix_len = (uint8_t)prefix_len;
    c->addr_count++;
    return true;
}

static bool gateway_set(const char *text, struct device_tap_config *c)
{
    struct net_addr addr;
    if (!net_addr_parse(text, &addr)) {
        return false;
    }
    *(net_addr_is_ipv4(&addr) ? &c->gateway_ipv4 : &c->gateway_ipv6) = addr;
    return true;
}

static bool item_apply(char *item, struct device_tap_config *c)
{
    static const char gateway[] = "gateway=", mtu[] = "mtu=", ttl[] = "ttl=";
    uint64_t number = 0;
    if (strncmp(item, gateway, sizeof gateway - 1) == 0) {
        return gateway_set(item + sizeof gateway - 1, c);
    }
    if (strncmp(item, mtu, sizeof mtu - 1) == 0) {
        bool is_good = text_number_parse(item + sizeof mtu - 1, NET_MTU_MIN, NET_MTU_MAX, &number);
        c->mtu = (uint16_t)number;
        return is_good;
    }
    if (strncmp(item, ttl, sizeof ttl - 1) == 0) {
        bool is_good = text_number_parse(item + sizeof ttl - 1, 1, UINT8_MAX, &number);
        c->ttl = (uint8_t)number;
        return is_good;
    }
    if (strcmp(item, "nooffload") == 0) {
        c->offloads = false;
        return true;
    }
    return own_addr_add(item, c);
}

// The next item, up to a comma; false: it is too long.
static bool item_take(const char **text, char item[ITEM_MAX])
{
    size_t len = strcspn(*text, ",");
    if (len >= ITEM_MAX) {
        return false;
    }
    memcpy(item, *text, len);
    item[len] = '\0';
    *text += len;
    *text += **text == ',';
    return true;
}

bool device_tap_config_parse(const char *text, struct device_tap_config *ret)
{
    char item[ITEM_MAX];
    *ret = (struct device_tap_config){.offloads = true, .is_tun = strncmp(text, "tun:", 4) == 0};
    if (!ret->is_tun && strncmp(text, "tap:", 4) != 0) {
        return false;
    }
    text += 4;
    if (!item_take(&text, item) || *item == '\0' || strlen(item) >= TAP_NAME_LEN) {
        return false;
    }
    memcpy(ret->name, item, strlen(item) + 1);
    while (*text != '\0') {
        if (!item_take(&text, item) || !item_apply(item, ret)) {
            return false;
        }
    }
    return ret->addr_count > 0;
}
