// A config.json of any architecture.
#include <nlohmann/json.hpp>

#include "runner/base/error.h"
#include "runner/model/folder_model.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvscope;
  const auto config = nlohmann::json::parse(data, data + size, nullptr, false);
  if (!config.is_object()) return 0;
  try {
    read_config(JsonSettings("fuzz", config), "fuzz");
  } catch (const DataError&) {  // refused: well
  }
  return 0;
}
