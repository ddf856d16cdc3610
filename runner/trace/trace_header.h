// The head of a trace file (docs/trace.md): magic, version, and the facts as JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runner/trace/trace.h"

namespace kvscope {

inline constexpr std::string_view kTraceMagic = "KVTRACE\n";
inline constexpr std::uint32_t kTraceVersion = 1;
inline constexpr std::size_t kTraceSumBytes = 64;  // sha-256 in hexadecimal, at the file's end
inline constexpr std::size_t kTraceAlignment = 64;

// Where the parts of a file lie, in bytes from its start.
struct TraceLayout {
  std::uint64_t ids = 0;
  std::uint64_t text = 0;
  std::uint64_t rows = 0;  // of the first recorded layer, aligned
  std::uint64_t layer_bytes = 0;
  std::uint64_t sum = 0;
  std::uint64_t file_bytes = 0;
};
TraceLayout layout_of(const TraceFacts& facts, std::size_t head_bytes);

std::string encode_head(const TraceFacts& facts);

struct TraceHead {
  TraceFacts facts;
  TraceLayout layout;
};
// Of a file that may be anything. Throws DataError that begins with `where`; every number of the
// result is in range, and layout.file_bytes == file.size().
TraceHead decode_head(std::span<const std::byte> file, const std::string& where);

}  // namespace kvscope
