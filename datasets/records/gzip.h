// Files that may be compressed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvscope {

// A small file can inflate to any size; a data set beyond this is refused.
inline constexpr std::size_t kMostDataBytes = std::size_t{4} << 30;

bool is_gzip(std::string_view bytes);

// Throws DataError (`where` names the file) when the stream is damaged or cut, or holds more than
// `most` bytes.
std::string gunzip(std::string_view bytes, const std::string& where,
                   std::size_t most = kMostDataBytes);

// The file's bytes, inflated if they are gzip. Throws IoError and DataError.
std::string read_data_file(const std::filesystem::path& file);

}  // namespace kvscope
