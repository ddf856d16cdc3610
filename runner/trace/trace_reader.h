// Reads a trace file. A file that is cut off, damaged or made to mislead ends in one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/model/mapped_file.h"
#include "runner/trace/trace_header.h"

namespace kvscope {

class TraceReader {
 public:
  // Checks everything but the rows' values. Throws IoError or DataError.
  explicit TraceReader(const std::filesystem::path& file);

  const TraceFacts& facts() const { return head_.facts; }
  std::span<const std::int32_t> ids() const { return ids_; }  // [n_tokens]
  std::string_view text() const;                              // as recorded, may be empty
  const std::string& sha256() const { return sha256_; }       // of all before the sum
  std::int64_t file_bytes() const { return std::int64_t(head_.layout.file_bytes); }

  // Layer facts().layers[index]: [n_tokens][row_floats] raw projections. Throws DataError for
  // numbers that are not finite.
  std::vector<float> read_layer(std::size_t index) const;

 private:
  std::string where_;
  MappedFile file_;
  TraceHead head_;
  std::string sha256_;
  std::vector<std::int32_t> ids_;
};

}  // namespace kvscope
