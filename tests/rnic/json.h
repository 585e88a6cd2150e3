// Is it JSON? For the tests of what a device tells of itself.
#pragma once

// The test fails if it is not one object on a line of its own.
void json_expect(const char *text);
