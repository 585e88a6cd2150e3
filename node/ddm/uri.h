// A URI of a device, taken apart.
#pragma once

#include "node/interface/rta_ddm.h"
#include "node/interface/uma_rta.h"

enum { URI_SCHEME_MAX = 8, URI_PARAMETER_MAX = 16 };

struct uri {
    char text[UNIT_URI_MAX];             // cut into strings; the rest points into it
    const char *schemes[URI_SCHEME_MAX]; // filters, then the driver
    unsigned scheme_count;
    const char *object;
    struct ddm_parameter parameters[URI_PARAMETER_MAX];
    unsigned parameter_count;
};

// 0 or -EINVAL, with the reason in `ret_why`.
int uri_parse(const char *text, struct uri *ret, struct why *ret_why);
