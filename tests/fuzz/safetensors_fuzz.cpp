// The header of a safetensors file.
#include "runner/base/error.h"
#include "runner/model/safetensors_file.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvscope;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const SafetensorsFile file("fuzz", bytes, nullptr);
    for (const auto& [name, tensor] : file.tensors()) {
      // Every byte is within the file.
      for (const std::byte b : tensor.data) [[maybe_unused]] volatile std::byte read = b;
    }
  } catch (const DataError&) {  // refused: well
  }
  return 0;
}
