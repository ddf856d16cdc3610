// Plain-text tables for people. Programs read --json instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

class Table {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };

  // The first column is aligned left, the others right, unless align() says otherwise.
  explicit Table(std::vector<std::string> header);
  Table& align(std::size_t column, Align align);

  // Throws std::logic_error unless there is one cell for each column. Cells are UTF-8; control
  // characters become spaces.
  void add_row(std::vector<std::string> cells);
  void add_rule();  // a line between groups of rows

  bool empty() const { return rows_.empty(); }
  // Columns two spaces apart, a rule under the header, each line ends in '\n' and has no spaces at
  // its end.
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<Align> align_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// "-" for values that are not finite, so that a missing number never reads as zero.
std::string format_fixed(double value, int decimals);
std::string format_significant(double value, int digits);  // shortest of fixed and scientific form
std::string format_percent(double ratio, int decimals);    // 0.125 → "12.5 %"
std::string format_bytes(std::int64_t bytes);              // 1,536 → "1.5 KiB"
std::string format_duration(double seconds);               // "0.8 s", "4 min 05 s", "2 h 03 min"

// Terminal columns of UTF-8 text, one a code point.
std::size_t display_width(std::string_view text);

}  // namespace kvscope
