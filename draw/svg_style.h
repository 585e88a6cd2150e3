// The style sheet of pictures.
#pragma once

// In CSS, without markup around it. Colours are told apart in grey too: by dashes, and by words.
extern const char *const svg_style;
