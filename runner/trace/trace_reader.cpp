#include "runner/trace/trace_reader.h"

#include <cmath>
#include <cstring>

#include "runner/base/error.h"
#include "runner/base/half.h"
#include "runner/base/sha256.h"

namespace kvscope {

TraceReader::TraceReader(const std::filesystem::path& file)
    : where_(file.string()), file_(file), head_(decode_head(file_.bytes(), where_)) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::span<const std::byte> summed = bytes.first(head_.layout.sum);
  sha256_ = sha256_hex(summed);
  if (std::memcmp(bytes.data() + head_.layout.sum, sha256_.data(), kTraceSumBytes) != 0)
    throw DataError(where_ + ": its checksum is wrong, the file is damaged; record it again");
  ids_.resize(std::size_t(head_.facts.n_tokens));
  std::memcpy(ids_.data(), bytes.data() + head_.layout.ids, ids_.size() * sizeof(std::int32_t));
}

std::string_view TraceReader::text() const {
  return {reinterpret_cast<const char*>(file_.bytes().data()) + head_.layout.text,
          std::size_t(head_.facts.text_bytes)};
}

std::vector<float> TraceReader::read_layer(std::size_t index) const {
  std::vector<float> qkv(head_.facts.layer_floats());
  const std::byte* from =
      file_.bytes().data() + head_.layout.rows + index * head_.layout.layer_bytes;
  if (head_.facts.store == DType::kBF16) {
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, from + i * sizeof half, sizeof half);
      qkv[i] = from_bf16_bits(half);
    }
  } else {
    std::memcpy(qkv.data(), from, qkv.size() * sizeof(float));
  }
  for (const float value : qkv) {
    if (std::isfinite(value)) continue;
    throw DataError(where_ + ": layer " + std::to_string(head_.facts.layers[index]) +
                    " holds numbers that are not finite; record it again");
  }
  return qkv;
}

}  // namespace kvscope
