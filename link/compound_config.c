// Which peers have which link.

#include <errno.h>
#include <string.h>

#include "link/compound.h"
#include "net/addr.h"
#include "text/quantity.h"

enum { PREFIX_TEXT_MAX = 64 };

/* ---- in text --------------------------------------------------------------------------------- */

// "10.1.0.0/16", "10.1.0.7", "*": up to `len` octets of `text`.
static bool prefix_parse(const char *text, size_t len, struct link_compound_rule *ret)
{
    char copy[PREFIX_TEXT_MAX];
    *ret = (struct link_compound_rule){.is_rest = len == 1 && *text == '*'};
    if (ret->is_rest || len >= sizeof copy) {
        return ret->is_rest;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *slash = strchr(copy, '/');
    if (slash != NULL) {
        *slash++ = '\0';
    }
    if (!net_addr_parse(copy, &ret->prefix)) {
        return false;
    }
    uint64_t bits = net_addr_is_ipv4(&ret->prefix) ? 32 : 128, prefix_len = bits;
    if (slash != NULL && !text_number_parse(slash, 0, bits, &prefix_len)) {
        return false;
    }
    ret->prefix_len = (uint8_t)prefix_len;
    return true;
}

static bool is_same(const struct link_compound_rule *a, const struct link_compound_rule *b)
{
    return a->is_rest == b->is_rest && a->prefix_len == b->prefix_len &&
           (a->is_rest || net_addr_has_prefix(&a->prefix, &b->prefix, a->prefix_len));
}

// "tap:weft0,10.0.0.2/24" is named "tap.weft0".
static void name_put(struct link_compound_member *m)
{
    size_t len = strcspn(m->text, ",");
    len = len < sizeof m->name ? len : sizeof m->name - 1;
    memcpy(m->name, m->text, len);
    m->name[len] = '\0';
    char *colon = strchr(m->name, ':');
    if (colon != NULL) {
        *colon = '.';
    }
}

// The member of this text, which may be there already. False: there are too many.
static bool member_put(struct link_compound_config *c, const char *text, size_t len,
                       unsigned *ret_index)
{
    for (unsigned i = 0; i < c->member_count; i++) {
        if (strncmp(c->members[i].text, text, len) == 0 && c->members[i].text[len] == '\0') {
            *ret_index = i;
            return true;
        }
    }
    if (c->member_count == LINK_COMPOUND_MEMBER_MAX) {
        return false;
    }
    struct link_compound_member *m = &c->members[ *ret_index = c->member_count++];
    memcpy(m->text, text, len);
    m->text[len] = '\0';
    name_put(m);
    return true;
}

// "10.1.0.0/16=udp"
static bool rule_put(struct link_compound_config *c, const char *text, size_t len)
{
    struct link_compound_rule rule, inner;
    size_t prefix_len = strcspn(text, "=");
    if (prefix_len >= len || !prefix_parse(text, prefix_len, &rule)) {
        return false;
    }
    const char *member = text + prefix_len + 1;
    size_t member_len = len - prefix_len - 1;
    if (member_len == 0 || member_len >= LINK_COMPOUND_TEXT_MAX ||
        prefix_parse(member, strcspn(member, "=;"), &inner)) {
        return false;
    }
    for (unsigned i = 0; i < c->rule_count; i++) {
        if (is_same(&c->rules[i], &rule)) {
            return false;
        }
    }
    if (c->rule_count == LINK_COMPOUND_RULE_MAX ||
        !member_put(c, member, member_len, &rule.member)) {
        return false;
    }
    c->rules[c->rule_count++] = rule;
    return true;
}

bool link_compound_config_parse(const char *text, struct link_compound_config *ret)
{
    *ret = (struct link_compound_config){.rule_count = 0};
    for (;;) {
        size_t len = strcspn(text, ";");
        if (!rule_put(ret, text, len)) {
            return false;
        }
        if (text[len] == '\0') {
            return true;
        }
        text += len + 1;
        text += strspn(text, " ");
    }
}

/* ---- whose peer it is ------------------------------------------------------------------------ */

static bool is_for(const struct link_compound_rule *rule, const struct net_addr *peer)
{
    return rule->is_rest || net_addr_has_prefix(peer, &rule->prefix, rule->prefix_len);
}

// Of two rules that both are for a peer, the longer prefix; all others' is the shortest.
static bool is_longer(const struct link_compound_rule *a, const struct link_compound_rule *b)
{
    return b == NULL || (!a->is_rest && (b->is_rest || a->prefix_len > b->prefix_len));
}

int link_compound_member_for(const struct link_compound_config *config, const struct sockaddr *peer)
{
    const struct link_compound_rule *best = NULL;
    struct net_addr addr;
    uint16_t port;
    if (!net_addr_from_sockaddr(peer, &addr, &port, NULL)) {
        return -EAFNOSUPPORT;
    }
    for (unsigned i = 0; i < config->rule_count; i++) {
        const struct link_compound_rule *rule = &config->rules[i];
        if (is_for(rule, &addr) && is_longer(rule, best)) {
            best = rule;
        }
    }
    return best == NULL ? -ENETUNREACH : (int)best->member;
}
