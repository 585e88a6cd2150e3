// What makes a page of a picture: its style sheet and its script.
#pragma once

extern const char *const page_style;
extern const char *const page_script;
