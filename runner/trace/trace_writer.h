// Writes a trace file. The name appears when everything is on disk; whatever fails before leaves
// nothing behind.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "runner/trace/trace_header.h"

namespace kvscope {

class TraceWriter {
 public:
  // Takes the room on disk at once: a full disk is found before the run and not after it. ids:
  // [facts.n_tokens]; facts.text_bytes is set from the text (which may be empty). Throws IoError.
  TraceWriter(std::filesystem::path file, TraceFacts facts, std::span<const std::int32_t> ids,
              std::string_view text = {});
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Layers in the order of facts.layers. qkv: [n_tokens][row_floats]. Throws IoError, and DataError
  // for numbers that are not finite.
  void add_layer(std::span<const float> qkv);
  // After the last layer: the checksum, and the file gets its name. Throws IoError.
  void finish();

  std::int64_t file_bytes() const { return std::int64_t(layout_.file_bytes); }

 private:
  void write(std::span<const std::byte> bytes);
  void write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }
  [[noreturn]] void fail(int error) const;

  std::filesystem::path file_;
  std::string half_;  // the name it has until it is complete
  TraceFacts facts_;
  TraceLayout layout_;
  int descriptor_ = -1;
  std::size_t n_written_layers_ = 0;
};

}  // namespace kvscope
