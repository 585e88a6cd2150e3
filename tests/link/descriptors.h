// No descriptor is left over: noted before a link is made, checked after it is destroyed.
#pragma once

void descriptors_note(void);
// How many a program that is started now would inherit.
unsigned descriptors_inherited(void);
unsigned descriptors_more(void); // than when it was noted
void descriptors_check(void);    // there are no more
