#include "tests/shim/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <new>

#include "tests/shim/sanitizer_hooks.h"

#ifndef __x86_64__
#error "kernels on the CPU: switching stacks is written for x86-64 only"
#endif

extern "C" void kvscope_shim_switch_stack(void** old_stack_pointer, void* new_stack_pointer);
__asm__(
    ".text\n.p2align 4\n"
    ".globl kvscope_shim_switch_stack\n"
    ".type kvscope_shim_switch_stack,@function\n"
    "kvscope_shim_switch_stack:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\n"
    "movq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
    "ret\n"
    ".size kvscope_shim_switch_stack,.-kvscope_shim_switch_stack\n");

namespace kvscope::shim {
namespace {

constexpr int kSavedRegisters = 6;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kCacheLine = 64;

}  // namespace

Fiber make_fiber(void (*entry)(), unsigned colour) {
  Fiber fiber;
  // ASan's frames are larger by their red zones.
  fiber.stack_bytes = std::size_t{__sanitizer_start_switch_fiber != nullptr ? 256U : 64U} << 10;
  void* mapped = mmap(nullptr, fiber.stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapped, kGuardBytes, PROT_NONE);
  fiber.stack = static_cast<char*>(mapped);
  unpoison(fiber.stack, fiber.stack_bytes);
  auto** top = reinterpret_cast<void**>(fiber.stack + fiber.stack_bytes - colour % 64 * kCacheLine);
  top[-1] = nullptr;  // where entry would return to
  top[-2] = reinterpret_cast<void*>(entry);
  fiber.stack_pointer = top - 2 - kSavedRegisters;
  if (watched_by_tsan()) fiber.tsan_fiber = __tsan_create_fiber(0);
  return fiber;
}

void destroy(Fiber& fiber) {
  if (watched_by_tsan()) __tsan_destroy_fiber(fiber.tsan_fiber);
  munmap(fiber.stack, fiber.stack_bytes);
  fiber = {};
}

Fiber host_thread() {
  Fiber fiber;
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  void* stack = nullptr;
  pthread_attr_getstack(&attributes, &stack, &fiber.stack_bytes);
  pthread_attr_destroy(&attributes);
  fiber.stack = static_cast<char*>(stack);
  if (watched_by_tsan()) fiber.tsan_fiber = __tsan_get_current_fiber();
  return fiber;
}

void enter_fiber() {
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
}

void switch_fiber(Fiber& from, Fiber& to) {
  constexpr unsigned kNoOrder = 1;
  if (__sanitizer_start_switch_fiber != nullptr)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
  if (watched_by_tsan()) __tsan_switch_to_fiber(to.tsan_fiber, kNoOrder);
  kvscope_shim_switch_stack(&from.stack_pointer, to.stack_pointer);
  if (__sanitizer_finish_switch_fiber != nullptr)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
}

}  // namespace kvscope::shim
