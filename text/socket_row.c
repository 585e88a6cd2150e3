#include "text/socket_row.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_OF_WORD = 8, WORDS_OF_IPV6 = 4 };

// Words in the order of the machine, in hexadecimal: one of IPv4, four of IPv6.
static bool address_parse(const char *text, struct in6_addr *ret)
{
    uint32_t words[WORDS_OF_IPV6] = {0};
    const size_t digits = strlen(text);
    if (digits != DIGITS_OF_WORD && digits != sizeof words * 2) {
        return false;
    }
    for (size_t i = 0; i * DIGITS_OF_WORD < digits; i++) {
        if (sscanf(text + i * DIGITS_OF_WORD, "%8" SCNx32, &words[i]) != 1) {
            return false;
        }
    }
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    const size_t len = digits / 2;
    memcpy(ret->s6_addr + sizeof *ret - len, words, len);
    return true;
}

bool text_socket_row_parse(const char *line, struct text_socket_row *ret)
{
    char local[2 * sizeof ret->addr + 1];
    return sscanf(line,
                  "%*d: %32[0-9A-F]:%4" SCNx16 " %*s %*s %*s %*s %*s %" SCNu32 " %*s %" SCNu64,
                  local, &ret->port, &ret->uid, &ret->inode) == 4 &&
           address_parse(local, &ret->addr);
}

bool text_socket_row_is_at(const struct text_socket_row *row, const struct in6_addr *addr)
{
    static const struct in6_addr any, any_ipv4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    return IN6_ARE_ADDR_EQUAL(&row->addr, addr) || IN6_ARE_ADDR_EQUAL(&row->addr, &any) ||
           IN6_ARE_ADDR_EQUAL(&row->addr, &any_ipv4);
}
