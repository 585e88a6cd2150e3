// What this machine is known by to others: the only place of the node that asks.
#pragma once

enum { MACHINE_NAME_MAX = 256 };

// Its id, machine-id(5), or where it has none, or none yet, its host name.
void machine_name(char ret[MACHINE_NAME_MAX]);
