#include "harness/commands/input.h"

#include <nlohmann/json.hpp>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {

std::string read_exact_text(const std::filesystem::path& file) {
  std::string text = read_file(file);
  if (text.empty()) throw DataError(file.string() + " is empty: give a text with words in it");
  if (const auto offset = first_invalid_utf8(text)) {
    throw DataError(file.string() + " is not UTF-8 (byte " + std::to_string(*offset) +
                    "): convert it, for example with iconv");
  }
  return text;
}

void check_ids(std::span<const std::int32_t> ids, std::int32_t n_vocab, std::string_view where) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= n_vocab) {
      throw DataError(std::string(where) + ": id " + std::to_string(ids[i]) + " at index " +
                      std::to_string(i) + " is outside the model's vocabulary of " +
                      std::to_string(n_vocab));
    }
  }
}

std::vector<std::int32_t> parse_ids(std::string_view json_text, std::string_view where) {
  const auto fault = [&] {
    return DataError(std::string(where) + ": a JSON array of token ids is wanted, like [1, 2, 3]");
  };
  const auto array = nlohmann::json::parse(json_text, nullptr, false);
  if (!array.is_array() || array.empty()) throw fault();
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (const auto& value : array) {
    // A number beyond int64 parses as unsigned or as float, never as a wrapped integer.
    if (!value.is_number_integer() || value.is_number_float()) throw fault();
    const auto id = value.get<std::int64_t>();
    if (id < 0 || id > INT32_MAX) throw fault();
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

std::vector<NumberedLine> read_lines(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  std::vector<NumberedLine> lines;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    ++number;
    if (!line.empty()) lines.push_back({number, std::move(line)});
    begin = end + 1;
  }
  return lines;
}

}  // namespace kvscope
