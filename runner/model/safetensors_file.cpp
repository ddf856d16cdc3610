#include "runner/model/safetensors_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/model/mapped_file.h"

namespace kvscope {
namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;  // of the format itself

std::optional<TensorType> type_of(const std::string& name) {
  if (name == "F32") return TensorType::kF32;
  if (name == "F16") return TensorType::kF16;
  if (name == "BF16") return TensorType::kBF16;
  return std::nullopt;
}

// A JSON array of non-negative integers; none if it is anything else.
std::optional<std::vector<std::uint64_t>> sizes(const nlohmann::json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::uint64_t> out;
  for (const nlohmann::json& item : value) {
    if (!item.is_number_unsigned()) return std::nullopt;
    out.push_back(item.get<std::uint64_t>());
  }
  return out;
}

}  // namespace

std::shared_ptr<const SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  return std::make_shared<const SafetensorsFile>(path.string(), file->bytes(), file);
}

SafetensorsFile::SafetensorsFile(std::string name, std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> owner)
    : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {
  read_header();
}

void SafetensorsFile::fail(const std::string& what) const { throw DataError(name_ + ": " + what); }

void SafetensorsFile::read_header() {
  std::uint64_t length = 0;
  if (bytes_.size() < sizeof length) fail("is no safetensors file: shorter than its first number");
  std::memcpy(&length, bytes_.data(), sizeof length);
  if (length > bytes_.size() - sizeof length || length > kLargestHeader) {
    fail("its header is said to be " + std::to_string(length) +
         " bytes long, more than there are; the file is cut or damaged, fetch it again");
  }
  const auto* text = reinterpret_cast<const char*>(bytes_.data()) + sizeof length;
  const nlohmann::json header =
      nlohmann::json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail("its header is not a JSON object; the file is damaged");
  const std::span<const std::byte> data = bytes_.subspan(sizeof length + length);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string where = "tensor " + kvscope::quoted(name);
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !entry.contains("data_offsets")) {
      fail(where + " is not described by dtype, shape and data_offsets; the file is damaged");
    }
    const auto type_name = entry["dtype"].get<std::string>();
    const auto type = type_of(type_name);
    if (!type) {
      fail(where + " has type " + kvscope::quoted(type_name) +
           ", which is not supported; use a checkpoint of F32, F16 or BF16");
    }
    const auto shape = sizes(entry["shape"]);
    const auto range = sizes(entry["data_offsets"]);
    if (!shape || !range || range->size() != 2) {
      fail(where + " has a shape or range that is not of whole numbers; the file is damaged");
    }
    const std::uint64_t begin = range->front();
    const std::uint64_t end = range->back();
    if (begin > end || end > data.size())
      fail(where + " lies outside the file; it is cut or damaged, fetch it again");
    std::uint64_t n_bytes = block_format(std::uint32_t(*type))->bytes;
    for (const std::uint64_t n : *shape) {
      if (n != 0 && n_bytes > data.size() / n)
        n_bytes = data.size() + 1;  // too big, whatever else
      else
        n_bytes *= n;
    }
    if (n_bytes != end - begin) {
      fail(where + " takes " + std::to_string(end - begin) +
           " bytes, which its shape and type do not; the file is damaged");
    }
    ranges.emplace_back(begin, end);
    tensors_.emplace(name, SafetensorsTensor{*type, *shape, data.subspan(begin, end - begin)});
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) fail("its tensors overlap or leave gaps; the file is damaged");
    covered = end;
  }
  if (covered != data.size()) fail("bytes after its last tensor belong to none; it is damaged");
}

}  // namespace kvscope
