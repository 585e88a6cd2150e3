// Links with our own TCP over a simulated wire.

#include "base/span.h"
#include "link/packet/packet.h"
#include "link/wire.h"

struct link *wire_attach(struct wire *w, const struct in_addr *addrs, unsigned count)
{
    const struct wire_config *wire = wire_config_of(w);
    struct link_packet_config config = {.tcp = wire->tcp,
                                        .clock = wire->clock,
                                        .clock_ctx = wire->clock_ctx,
                                        .linger_ns = wire->linger_ns,
                                        .trace = wire->trace};
    struct device *end = wire_end_create(w, addrs, count);
    struct link *link;
    if (end == NULL) {
        return NULL;
    }
    wire_draw(w, mspan_of(config.secret, sizeof config.secret));
    return link_packet_create(&config, end, &link) == 0 ? link : NULL;
}
