// What makes a page of a picture: its style sheet and its script.
#pragma once

extern const char *const page_style;
extern const char *const page_script;
extern const char *const page_live_script; // behind it, in a page that comes anew by itself
