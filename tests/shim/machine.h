// The machine that the runtime finds: its devices, its driver, and what is to go wrong.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

namespace kvscope::shim {

struct Device {
  std::string name = "CPU shim";
  int compute_capability = 90;  // major · 10 + minor
  std::size_t memory_bytes = std::size_t{16} << 30;
  bool concurrent_managed_access = true;
  int n_multiprocessors = 4;
  // The least of the architectures that are built for (8.6, 8.9 and 12.0 have it).
  std::size_t shared_bytes_per_block = std::size_t{99} << 10;
};

struct Machine {
  std::vector<Device> devices{Device{}};
  int driver_version = 13000;  // 0: no driver
  int runtime_version = 13000;
};
Machine& machine();

// A machine for a test; what was there before comes back afterwards.
class MachineForTest {
 public:
  explicit MachineForTest(Machine wanted);
  ~MachineForTest();
  MachineForTest(const MachineForTest&) = delete;

 private:
  Machine before_;
};

// The launch after the next n_before is refused with `error`.
void refuse_launch(int n_before, cudaError_t error);
// The launch after the next n_before is accepted and ends the device: `error` is what every call
// says from then on, until revive_device().
void lose_device(int n_before, cudaError_t error);
void revive_device();

// Bytes of device memory in use (also managed ones), of all devices.
std::size_t allocated_bytes();

// ---- For the shim's own parts.

std::size_t most_shared_bytes();
cudaError_t launch_result();  // of a launch that is about to be put into a stream
bool device_is_lost();
cudaError_t device_state();            // what any call that needs a device says
cudaError_t note(cudaError_t result);  // as the thread's last error, if it is one

}  // namespace kvscope::shim
