// What users without a suitable device read. The machine is the shim's.
#include <gtest/gtest.h>

#include "runner/backend/cuda/cuda_backend.h"
#include "runner/base/error.h"
#include "tests/shim/machine.h"

namespace kvscope {
namespace {

std::string why_none(const shim::Machine& machine) {
  const shim::MachineForTest scope(machine);
  std::string why;
  EXPECT_TRUE(cuda_support().devices(why).empty());
  return why;
}

std::string refusal(const shim::Machine& machine, const CudaOptions& options) {
  const shim::MachineForTest scope(machine);
  try {
    cuda_support().open(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "opened";
}

TEST(CudaSupport, SaysWhatIsMissing) {
  shim::Machine machine;
  machine.driver_version = 0;
  EXPECT_EQ(why_none(machine), "no NVIDIA driver: install one");
  machine.driver_version = 12040;
  EXPECT_EQ(why_none(machine),
            "the NVIDIA driver supports CUDA 12.4, this program was built with 13.0: update the "
            "driver");
  machine = {};
  machine.devices.clear();
  EXPECT_EQ(why_none(machine), "no CUDA device: check nvidia-smi and CUDA_VISIBLE_DEVICES");
}

TEST(CudaSupport, ListsDevicesAndWhyOneCannotBeUsed) {
  shim::Machine machine;
  machine.devices.resize(3);
  machine.devices[1].compute_capability = 75;
  machine.devices[2].concurrent_managed_access = false;
  const shim::MachineForTest scope(machine);
  std::string why;
  const auto devices = cuda_support().devices(why);
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[0].compute_capability, 90);
  EXPECT_EQ(devices[0].unusable, "");
  EXPECT_GT(devices[0].free_bytes, 0);
  EXPECT_EQ(devices[1].unusable, "compute capability 7.5 is older than 8.0");
  EXPECT_NE(devices[2].unusable.find("concurrent managed access"), std::string::npos);
}

TEST(CudaSupport, RefusesADeviceThatIsNotThereOrDoesNotSuit) {
  shim::Machine machine;
  EXPECT_EQ(refusal(machine, {.device = 1}),
            "--device 1: there are 1 (from 0): see kvscope doctor");
  EXPECT_EQ(refusal(machine, {.device = -1}),
            "--device -1: there are 1 (from 0): see kvscope doctor");
  machine.devices[0].compute_capability = 61;
  EXPECT_EQ(refusal(machine, {}), "device 0 (CPU shim): compute capability 6.1 is older than 8.0");
}

}  // namespace
}  // namespace kvscope
