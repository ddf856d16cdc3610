// What the sanitizers want to know of fibers and of memory. Weak: one engine object serves plain,
// ASan and TSan programs, and is itself never instrumented, so that sanitizers watch the kernels
// and not the scheduler.
#pragma once

#include <cstddef>

extern "C" {
#define KVSCOPE_SHIM_WEAK __attribute__((weak))
KVSCOPE_SHIM_WEAK void __sanitizer_start_switch_fiber(void**, const void*, size_t);
KVSCOPE_SHIM_WEAK void __sanitizer_finish_switch_fiber(void*, const void**, size_t*);
KVSCOPE_SHIM_WEAK void __asan_poison_memory_region(void const volatile*, size_t);
KVSCOPE_SHIM_WEAK void __asan_unpoison_memory_region(void const volatile*, size_t);
KVSCOPE_SHIM_WEAK void* __tsan_get_current_fiber();
KVSCOPE_SHIM_WEAK void* __tsan_create_fiber(unsigned);
KVSCOPE_SHIM_WEAK void __tsan_destroy_fiber(void*);
KVSCOPE_SHIM_WEAK void __tsan_switch_to_fiber(void*, unsigned);
KVSCOPE_SHIM_WEAK void __tsan_acquire(void*);
KVSCOPE_SHIM_WEAK void __tsan_release(void*);
#undef KVSCOPE_SHIM_WEAK
}

namespace kvscope::shim {

inline bool watched_by_tsan() { return __tsan_create_fiber != nullptr; }

// Everything before release(token) happened before what follows acquire(token).
inline void acquire(void* token) {
  if (__tsan_acquire != nullptr) __tsan_acquire(token);
}
inline void release(void* token) {
  if (__tsan_release != nullptr) __tsan_release(token);
}

inline void poison(const void* p, std::size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(p, bytes);
}
inline void unpoison(const void* p, std::size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(p, bytes);
}

}  // namespace kvscope::shim
