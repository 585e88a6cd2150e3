// How often a queue pair tries again, as connection managers and attributes say it: three bits.
#pragma once

enum { RETRIES_MAX = 7 }; // of a request without a receive (RNR) that is for ever
