// Reading what users name on the command line; every fault is one line that names the file and the
// place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

// The file's bytes as they are (read_text_file of datasets drops byte-order marks and carriage
// returns: ids would shift). Throws IoError, or DataError for an empty text or one that is not
// UTF-8 (names the byte).
std::string read_exact_text(const std::filesystem::path& file);

// Throws DataError if an id is outside the vocabulary. `where` names the source.
void check_ids(std::span<const std::int32_t> ids, std::int32_t n_vocab, std::string_view where);

// A JSON array of token ids. Throws DataError; `where` names the source.
std::vector<std::int32_t> parse_ids(std::string_view json_text, std::string_view where);

// Lines of a JSONL file, empty ones left out, each with its number (from 1).
struct NumberedLine {
  int number = 0;
  std::string text;
};
std::vector<NumberedLine> read_lines(const std::filesystem::path& file);

}  // namespace kvscope
