// Private to mem/: showing regions (mem_table_show).
#pragma once

struct mem_table;
struct slot;

// Harmless where nothing is shown, or the region is none that is.
void mirror_show(struct mem_table *table, const struct slot *region);
// When it returns, nobody else writes into the region any more.
void mirror_withdraw(struct mem_table *table, const struct slot *region);
