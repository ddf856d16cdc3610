// Stacks that one host thread switches between.
#pragma once

#include <cstddef>

namespace kvscope::shim {

struct Fiber {
  void* stack_pointer = nullptr;  // while it does not run
  char* stack = nullptr;
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // ASan's
  void* tsan_fiber = nullptr;
};

// entry() calls enter_fiber() first and never returns. colour: spreads stacks over cache sets.
Fiber make_fiber(void (*entry)(), unsigned colour);
void destroy(Fiber& fiber);
Fiber host_thread();  // the calling one
void enter_fiber();
// Nothing that `from` did happens before what `to` does, as far as ThreadSanitizer knows.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace kvscope::shim
