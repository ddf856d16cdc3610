// A model's keys in a GGUF file: "llama.block_count" read as "block_count", with one-line errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/model/gguf_file.h"

namespace kvscope {

class GgufKeys {
 public:
  // prefix: the architecture's name in the file. Both must outlive this.
  GgufKeys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  const GgufFile& file() const { return file_; }
  std::string key(std::string_view name) const { return prefix_ + "." + std::string(name); }
  bool has(std::string_view name) const { return file_.has(key(name)); }

  // Positive sizes and numbers; `fallback` < 1 (or none): required.
  int positive(std::string_view name, int fallback = 0) const;
  double positive_real(std::string_view name, std::optional<double> fallback = std::nullopt) const;

  [[noreturn]] void fail(const std::string& what) const { file_.fail(what); }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace kvscope
