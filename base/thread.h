// Threads are told apart by their thread pointers: asking for one's own is no call.
#pragma once

// For compilers that have no word for it (GCC before 11): x86-64's ABI keeps it where %fs begins.
static inline const void *thread_pointer_by_abi(void)
{
    const void *ret;
    __asm__("mov %%fs:0, %0" : "=r"(ret));
    return ret;
}

static inline const void *thread_pointer(void)
{
#ifdef WEFT_HAVE_THREAD_POINTER
    return __builtin_thread_pointer();
#else
    return thread_pointer_by_abi();
#endif
}
