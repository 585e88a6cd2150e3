// Which sanitizer this is built with: gcc defines a macro for each, clang answers __has_feature.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define IS_ADDRESS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_ADDRESS_SANITIZED 1
#endif
#endif
#ifndef IS_ADDRESS_SANITIZED
#define IS_ADDRESS_SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define IS_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_THREAD_SANITIZED 1
#endif
#endif
#ifndef IS_THREAD_SANITIZED
#define IS_THREAD_SANITIZED 0
#endif

#define IS_SANITIZED (IS_ADDRESS_SANITIZED || IS_THREAD_SANITIZED)
