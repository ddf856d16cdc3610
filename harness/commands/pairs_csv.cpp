#include "harness/commands/pairs_csv.h"

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>

#include "runner/base/error.h"

namespace kvscope {
namespace {

// Nothing if a quote is not closed.
std::optional<std::vector<std::string>> split_cells(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"' && (quoted || cells.back().empty())) {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return cells;
}

std::optional<double> parse_number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::size_t column_of(const std::vector<std::string>& header, std::string_view name,
                      std::string_view where) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (header[i] == name) return i;
  }
  throw DataError(std::string(where) + " line 1: no column '" + std::string(name) +
                  "': the first line must name the columns cluster, a and b");
}

}  // namespace

std::vector<Pair> parse_pairs_csv(std::string_view text, std::string_view where) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  std::vector<Pair> pairs;
  std::vector<std::string> header;
  std::size_t cluster = 0;
  std::size_t a = 0;
  std::size_t b = 0;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() && !header.empty()) continue;

    const std::string place = std::string(where) + " line " + std::to_string(number);
    const auto cells = split_cells(line);
    if (!cells) throw DataError(place + ": a quote is not closed");
    if (header.empty()) {
      header = *cells;
      cluster = column_of(header, "cluster", where);
      a = column_of(header, "a", where);
      b = column_of(header, "b", where);
      continue;
    }
    if (cells->size() != header.size()) {
      throw DataError(place + ": " + std::to_string(cells->size()) +
                      " cells where the header has " + std::to_string(header.size()));
    }
    const auto number_in = [&](std::size_t column) {
      const auto value = parse_number((*cells)[column]);
      if (!value) {
        throw DataError(place + ": '" + (*cells)[column] + "' in column " + header[column] +
                        " is not a number");
      }
      return *value;
    };
    pairs.push_back({(*cells)[cluster], number_in(a), number_in(b)});
  }
  if (pairs.empty()) throw DataError(std::string(where) + ": no pairs below the header");
  return pairs;
}

}  // namespace kvscope
