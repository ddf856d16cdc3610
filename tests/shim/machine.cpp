#include "tests/shim/machine.h"

#include <atomic>
#include <utility>

namespace kvscope::shim {
namespace {

struct Trouble {
  std::atomic<int> launches_until_refused{-1};
  std::atomic<cudaError_t> refusal{cudaSuccess};
  std::atomic<int> launches_until_lost{-1};
  std::atomic<cudaError_t> loss{cudaSuccess};
  std::atomic<bool> is_lost{false};
};
Trouble& trouble() {
  static Trouble one;
  return one;
}

// Counts down to zero, once.
bool is_due(std::atomic<int>& launches) { return launches >= 0 && launches-- == 0; }

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

Machine& machine() {
  static Machine one;
  return one;
}

MachineForTest::MachineForTest(Machine wanted) : before_(std::exchange(machine(), wanted)) {}
MachineForTest::~MachineForTest() { machine() = before_; }

void refuse_launch(int n_before, cudaError_t error) {
  trouble().refusal = error;
  trouble().launches_until_refused = n_before;
}

void lose_device(int n_before, cudaError_t error) {
  trouble().loss = error;
  trouble().launches_until_lost = n_before;
}

void revive_device() {
  trouble().launches_until_refused = trouble().launches_until_lost = -1;
  trouble().is_lost = false;
}

std::size_t most_shared_bytes() {
  return machine().devices.empty() ? Device{}.shared_bytes_per_block
                                   : machine().devices[0].shared_bytes_per_block;
}

bool device_is_lost() { return trouble().is_lost; }

cudaError_t device_state() {
  const Machine& here = machine();
  if (here.driver_version / 1000 < here.runtime_version / 1000) return cudaErrorInsufficientDriver;
  if (here.devices.empty()) return cudaErrorNoDevice;
  if (trouble().is_lost) return trouble().loss;
  return cudaSuccess;
}

cudaError_t launch_result() {
  if (const cudaError_t state = device_state(); state != cudaSuccess) return state;
  if (is_due(trouble().launches_until_refused)) return trouble().refusal;
  if (is_due(trouble().launches_until_lost)) trouble().is_lost = true;
  return cudaSuccess;
}

cudaError_t note(cudaError_t result) {
  if (result != cudaSuccess) last_error = result;
  return result;
}

}  // namespace kvscope::shim

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(kvscope::shim::last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return kvscope::shim::last_error; }

}  // extern "C"
