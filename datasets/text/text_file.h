// Reads plain text as people have it: with a byte-order mark, with CRLF, or broken.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kvscope {

// The file's bytes. Throws IoError when it cannot be read (missing, a folder, no permission).
std::string read_file(const std::filesystem::path& file);

// Offset of the first byte that is not UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing
// above U+10FFFF).
std::optional<std::size_t> first_invalid_utf8(std::string_view bytes);

// UTF-8 text with line feeds: a byte-order mark is dropped, CRLF becomes LF. Throws IoError as
// read_file, DataError when the file is empty, holds white space only or is not UTF-8 (names the
// line).
std::string read_text_file(const std::filesystem::path& file);

// The same for bytes that were read already; `file` is for messages.
std::string utf8_text(std::string text, const std::filesystem::path& file);

}  // namespace kvscope
