// Engine rooms hide every symbol. What the fronts, which live in libraries of their own, must
// reach in them directly is marked here, and stands in the version script besides.
#pragma once

#define WEFT_EXPORT __attribute__((visibility("default")))
