// A GGUF file: header, keys, tensor descriptions, and the reading of a few tensors.
#include <memory>

#include "runner/base/error.h"
#include "runner/model/gguf_model.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvscope;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto model = open_gguf_model(std::make_shared<const GgufFile>("fuzz", bytes, nullptr));
    const ModelConfig& c = model->config();
    model->read("output_norm.weight", 1, c.d_model);
    model->read("blk.0.attn_q.weight", c.n_heads * c.head_dim, c.d_model);
  } catch (const DataError&) {  // refused: well
  }
  return 0;
}
