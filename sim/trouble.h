// What goes wrong: faults of the net, and programs that take things away while they are in use.
#pragma once

struct sim;

// Perhaps, by the parameters of the run.
void sim_trouble(struct sim *sim);
