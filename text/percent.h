// Percent-encoding (RFC 3986, section 2.1): a % and two hexadecimal digits stand for an octet. A %
// that they do not follow stands for itself.
#pragma once

#include <stddef.h>

// The octet that the text [*at, end), which is not empty, begins with; *at moves behind it.
unsigned char text_percent_take(const char **at, const char *end);

// Decodes a text in place. It may end earlier for those who ask strlen: %00 is an octet too.
void text_percent_decode(char *text);
