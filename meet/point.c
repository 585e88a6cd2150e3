#include "meet/point.h"

#include "base/check.h"

uint32_t meeting_point_take(struct meeting_point *point,
                            bool (*is_taken)(const void *ctx, uint32_t qp_num), const void *ctx)
{
    for (unsigned i = 0; i < MEETING_POINT_NUMBERS; i++) {
        uint32_t index = point->index_next++ % MEETING_POINT_NUMBERS;
        uint32_t num = (uint32_t)point->port << MEETING_POINT_BITS | index;
        if (!is_taken(ctx, num)) {
            point->qp_count++;
            return num;
        }
    }
    return 0;
}

bool meeting_point_release(struct meeting_point *point)
{
    CHECK(point->qp_count > 0);
    return --point->qp_count == 0;
}
