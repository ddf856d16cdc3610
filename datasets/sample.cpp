#include "datasets/sample.h"

#include "runner/base/sha256.h"

namespace kvscope {
namespace {

void append_le32(std::string& bytes, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    bytes.push_back(static_cast<char>((value >> shift) & 0xffU));
  }
}

// A string with its length in front, so that two lists of strings never join to the same bytes.
void append_string(std::string& bytes, const std::string& text) {
  append_le32(bytes, static_cast<std::uint32_t>(text.size()));
  bytes += text;
}

}  // namespace

std::string Dataset::key() const {
  std::string bytes;
  append_string(bytes, name);
  append_string(bytes, version);
  for (const Sample& sample : samples) {
    append_string(bytes, sample.key);
    append_string(bytes, sample.input_sha256);
    append_string(bytes, sample.cluster_key);
    append_le32(bytes, static_cast<std::uint32_t>(sample.golds.size()));
    for (const std::string& gold : sample.golds) append_string(bytes, gold);
    append_le32(bytes, static_cast<std::uint32_t>(sample.max_new_tokens));
    append_le32(bytes, static_cast<std::uint32_t>(sample.answer_cut));
    if (!sample.scorer.empty()) append_string(bytes, sample.scorer);
  }
  for (const TextWindow& window : windows) {
    append_string(bytes, window.key);
    append_string(bytes, window.input_sha256);
    append_string(bytes, window.cluster_key);
  }
  return sha256_hex(std::string_view(bytes));
}

std::string input_hash(std::span<const std::int32_t> prompt, std::span<const std::int32_t> prefix,
                       std::span<const std::int32_t> gold) {
  std::string bytes;
  for (const auto ids : {prompt, prefix, gold}) {
    append_le32(bytes, static_cast<std::uint32_t>(ids.size()));
    for (const std::int32_t id : ids) append_le32(bytes, static_cast<std::uint32_t>(id));
  }
  return sha256_hex(std::string_view(bytes));
}

}  // namespace kvscope
