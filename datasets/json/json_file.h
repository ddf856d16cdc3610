// Reads JSON as evaluation data sets have it, which is not always JSON.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace kvscope {

// Tolerates a byte-order mark, CRLF and raw control characters (tabs, line feeds) inside strings.
// Throws IoError when the file cannot be read and DataError, naming file and line, when it is no
// JSON.
nlohmann::json read_json_file(const std::filesystem::path& file);

// The same for text already read; `where` stands for the file in messages.
nlohmann::json parse_json(std::string_view text, const std::string& where);

}  // namespace kvscope
