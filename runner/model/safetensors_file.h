// A .safetensors file: a JSON header with a name, type, shape and byte range for each tensor, then
// their bytes, read in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/model/tensor_type.h"

namespace kvscope {

struct SafetensorsTensor {
  TensorType type;                   // kF32, kF16 or kBF16
  std::vector<std::uint64_t> shape;  // outermost dimension first
  std::span<const std::byte> data;   // at any address
};

// Immutable. Everything is checked when it is opened: the header's length and JSON, each tensor's
// type, shape and range; ranges neither overlap nor leave bytes out.
class SafetensorsFile {
 public:
  // Throws IoError (cannot be read) or DataError (damaged, element type not supported).
  static std::shared_ptr<const SafetensorsFile> open(const std::filesystem::path& path);
  // `owner` keeps `bytes` alive; `name` stands in front of each message.
  SafetensorsFile(std::string name, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> owner);

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::map<std::string, SafetensorsTensor, std::less<>>& tensors() const { return tensors_; }

  [[noreturn]] void fail(const std::string& what) const;  // DataError "NAME: WHAT"

 private:
  void read_header();

  std::string name_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, SafetensorsTensor, std::less<>> tensors_;
};

}  // namespace kvscope
