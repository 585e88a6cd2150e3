// The extension message, as the rooms above RDMAP see it: queue pairs speak of its content only.
#pragma once

#include "wire/extension.h"
