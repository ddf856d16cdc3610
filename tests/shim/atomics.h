// Atomic operations and fences of kernels. Relaxed: an atomic orders no other access, as on a
// device.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/shim/engine.h"

namespace kvscope::shim {

template <std::size_t kBytes>
using Word = std::conditional_t<kBytes == 8, std::uint64_t,
                                std::conditional_t<kBytes == 4, std::uint32_t, std::uint16_t>>;

// *p = function(*p); returns what was there.
template <class T, class Function>
T exchange(T* p, Function function) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  let_others_run();
  auto* word = reinterpret_cast<Word<sizeof(T)>*>(p);
  Word<sizeof(T)> old_word = __atomic_load_n(word, __ATOMIC_RELAXED);
  Word<sizeof(T)> new_word;
  T old_value;
  do {
    std::memcpy(&old_value, &old_word, sizeof old_value);
    const T new_value = function(old_value);
    std::memcpy(&new_word, &new_value, sizeof new_value);
  } while (!__atomic_compare_exchange_n(word, &old_word, new_word, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  return old_value;
}

}  // namespace kvscope::shim

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return T(old + value); });
}
template <class T>
T atomicSub(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return T(old - value); });
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return old < value ? old : value; });
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return old < value ? value : old; });
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return T(old | value); });
}
template <class T>
T atomicAnd(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return T(old & value); });
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T) { return value; });
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return kvscope::shim::exchange(p, [&](T old) { return old == expected ? value : old; });
}

inline void __threadfence() { kvscope::shim::fence(); }
inline void __threadfence_block() { kvscope::shim::fence(); }
