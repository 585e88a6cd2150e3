// What is known, for logs and scripts: the tables of the screen as text, or an object of JSON.
#pragma once

#include <stdio.h>
#include <time.h>

#include "cli/top/model.h"

// The tables that have rows, each with its titles, behind a line with the time.
void top_print_text(FILE *out, const struct top_model *model, time_t at);
// One line.
void top_print_json(FILE *out, const struct top_model *model, time_t at);
