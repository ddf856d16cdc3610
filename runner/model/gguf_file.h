// A GGUF file (versions 2 and 3, little endian): typed metadata and tensor descriptions, read in
// place.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/model/tensor_type.h"

namespace kvscope {

enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

struct GgufValue {
  GgufType type;
  GgufType element;                   // of an array, else = type
  std::uint64_t count;                // elements of an array, else 1
  std::span<const std::byte> values;  // without type and count
};

struct GgufTensor {
  TensorType type;
  std::array<std::uint64_t, 4> dims;  // [n_in][n_out][1][1]: row length first; all ≥ 1
  std::span<const std::byte> data;    // whole blocks
};

// Immutable; views point into the file's bytes and live as long as it. Everything is checked when
// it is opened: each count, length, offset and product against the file's size, so that no later
// access can leave it.
class GgufFile {
 public:
  // Throws IoError (cannot be read) or DataError (not GGUF, truncated, damaged, version or tensor
  // type not supported).
  static std::shared_ptr<const GgufFile> open(const std::filesystem::path& path);
  // `owner` keeps `bytes` alive; `name` stands in front of each message.
  GgufFile(std::string name, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Metadata. None if the key is absent; DataError if it has another type or, for integers, does
  // not fit.
  bool has(std::string_view key) const { return values_.contains(key); }
  std::optional<std::int64_t> integer(std::string_view key) const;  // any integer type
  std::optional<double> real(std::string_view key) const;           // F32 or F64
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  const std::map<std::string_view, GgufValue>& metadata() const { return values_; }

  const GgufTensor* tensor(std::string_view name) const;  // null if absent
  const std::map<std::string_view, GgufTensor>& tensors() const { return tensors_; }

  [[noreturn]] void fail(const std::string& what) const;  // DataError "NAME: WHAT"

 private:
  const GgufValue* scalar(std::string_view key, std::string_view wanted) const;
  const GgufValue* array(std::string_view key, std::string_view wanted) const;
  [[noreturn]] void fail_type(std::string_view key, const GgufValue& value,
                              std::string_view wanted) const;

  std::string name_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::map<std::string_view, GgufValue> values_;
  std::map<std::string_view, GgufTensor> tensors_;
};

// For messages: one line whatever the bytes are, shortened, in quotes.
std::string quoted(std::string_view text);

}  // namespace kvscope
