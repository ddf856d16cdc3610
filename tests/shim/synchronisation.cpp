// Barriers, warp operations and the ends of threads: who may go on, and who will wait for ever.
#include <cstring>

#include "tests/shim/engine_state.h"
#include "tests/shim/sanitizer_hooks.h"

namespace kvscope::shim {

const char* file_name(SourcePlace place) {
  const char* slash = std::strrchr(place.file, '/');
  return slash != nullptr ? slash + 1 : place.file;
}

bool same(SourcePlace a, SourcePlace b) {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

void Engine::make_ready(Thread& thread) {
  thread.state = State::kReady;
  schedule_.make_ready(thread.id);
}

void Engine::switch_to(Thread& thread) {
  if (&thread == current_) return;
  Thread& from = *current_;
  current_ = &thread;
  threadIdx = thread.index;
  ++statistics().switches;
  switch_fiber(from.fiber, thread.fiber);
}

void Engine::run_next() {
  const int next = schedule_.take();
  if (next < 0) shim::fail("deadlock: no thread can run");
  switch_to(threads_[next]);
}

void Engine::let_others_run() {
  if (schedule_.order() != Order::kRandom || schedule_.draw(4) != 0) return;
  make_ready(*current_);
  release(&exit_token_);  // should it never come to exit
  run_next();
}

void Engine::fence() {
  acquire(&fence_token_);
  release(&fence_token_);
  let_others_run();
}

void Engine::exit_thread() {
  Thread& self = *current_;
  Warp& warp = warps_[self.id / 32];
  self.state = State::kExited;
  ++n_exited_;
  warp.exited |= self.lane_bit();
  release(&exit_token_);
  for (int i = 0; i < warp.n_meetings; ++i) {
    const Meeting& meeting = warp.meetings[i];
    if ((meeting.mask & self.lane_bit()) != 0 && meeting.readers == 0)
      shim::fail("thread exits while lanes of its warp wait for it");
  }
  if (barriers_[generation_ % 2].arrived > 0)
    shim::fail("barrier divergence: thread exits while others wait");
  if (n_exited_ == n_threads_) {
    switch_to(host_);
  } else {
    run_next();
  }
}

void Engine::release_barrier(Barrier& barrier) {
  barrier.arrived = 0;
  ++generation_;
  if (schedule_.order() == Order::kRandom) schedule_.draw_ranks();
  for (unsigned i = 0; i < n_threads_; ++i) {
    if (threads_[i].state == State::kAtBarrier) make_ready(threads_[i]);
  }
}

int Engine::barrier(int predicate, SourcePlace place) {
  Thread& self = *current_;
  Barrier& barrier = barriers_[generation_ % 2];
  self.place = place;
  ++statistics().barriers;
  if (n_exited_ > 0) shim::fail("barrier divergence: %u threads have exited", n_exited_);
  if (barrier.arrived == 0) {
    barrier.place = place;
    barrier.predicates = 0;
  } else if (!same(barrier.place, place)) {
    shim::fail("barrier divergence: %s:%u meets %s:%u", file_name(place), place.line,
               file_name(barrier.place), barrier.place.line);
  }
  barrier.predicates += predicate;
  self.state = State::kAtBarrier;
  release(&barrier.order_token);
  if (++barrier.arrived == n_threads_) release_barrier(barrier);
  run_next();
  acquire(&barrier.order_token);
  return barrier.predicates;
}

// The meeting of these lanes that waits for more of them, or a new one.
Meeting& Engine::open_meeting(Warp& warp, std::uint32_t mask, WarpOperation operation,
                              SourcePlace place) {
  Meeting* unused = nullptr;
  for (int i = 0; i < warp.n_meetings; ++i) {
    Meeting& meeting = warp.meetings[i];
    if (meeting.mask == 0) {
      if (unused == nullptr) unused = &meeting;
      continue;
    }
    if (meeting.readers > 0) continue;  // complete, still being read
    if ((meeting.mask & mask) == 0) continue;
    if (meeting.mask != mask) {
      shim::fail("warp operations with overlapping but different masks: %s:%u and %s:%u",
                 file_name(place), place.line, file_name(meeting.place), meeting.place.line);
    }
    if (meeting.operation != operation || !same(meeting.place, place)) {
      shim::fail("divergent warp operation: %s:%u meets %s:%u", file_name(place), place.line,
                 file_name(meeting.place), meeting.place.line);
    }
    return meeting;
  }
  if (unused == nullptr) unused = &warp.meetings[warp.n_meetings++];
  unused->mask = mask;
  unused->arrived = unused->readers = 0;
  unused->operation = operation;
  unused->place = place;
  return *unused;
}

Meeting& Engine::meet(std::uint32_t mask, std::uint64_t value, WarpOperation operation,
                      SourcePlace place, const OperandWords* operands) {
  Thread& self = *current_;
  Warp& warp = warps_[self.id / 32];
  self.place = place;
  ++statistics().warp_operations;
  if ((mask & self.lane_bit()) == 0) {
    shim::fail("lane is not named in its own mask at %s:%u", file_name(place), place.line);
  }
  if ((mask & ~warp.present) != 0) {
    shim::fail("mask names lanes that the block does not have at %s:%u", file_name(place),
               place.line);
  }
  if ((mask & warp.exited) != 0)
    shim::fail("mask names exited lanes at %s:%u", file_name(place), place.line);
  Meeting& meeting = open_meeting(warp, mask, operation, place);
  meeting.values[self.lane()] = value;
  if (operands != nullptr) meeting.operands[self.lane()] = *operands;
  meeting.arrived |= self.lane_bit();
  self.state = State::kAtWarpOperation;
  release(&meeting.order_token);
  if (meeting.arrived == mask) {
    meeting.readers = unsigned(__builtin_popcount(mask));
    const unsigned first = self.id - self.lane();
    for (unsigned i = 0; i < 32; ++i) {
      if ((mask >> i & 1) != 0) make_ready(threads_[first + i]);
    }
  }
  run_next();
  acquire(&meeting.order_token);
  return meeting;
}

Meeting& meet(std::uint32_t mask, std::uint64_t value, WarpOperation operation, SourcePlace place) {
  return engine().meet(mask, value, operation, place, nullptr);
}
Meeting& meet(const OperandWords& operands, SourcePlace place) {
  return engine().meet(~0U, 0, WarpOperation::kProduct, place, &operands);
}
void leave(Meeting& meeting) {
  if (--meeting.readers == 0) meeting.mask = 0;
}
int barrier(int predicate, SourcePlace place) { return engine().barrier(predicate, place); }
void fence() { engine().fence(); }
void let_others_run() { engine().let_others_run(); }

}  // namespace kvscope::shim
