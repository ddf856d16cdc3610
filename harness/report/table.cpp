#include "harness/report/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace kvscope {
namespace {

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
}

std::string print(const char* format, int precision, double value) {
  std::array<char, 400> buffer{};  // "%.*f" of the largest double needs 310 digits
  const int n = std::snprintf(buffer.data(), buffer.size(), format, precision, value);
  return {buffer.data(), static_cast<std::size_t>(std::min<int>(n, int(buffer.size()) - 1))};
}

}  // namespace

Table::Table(std::vector<std::string> header)
    : header_(std::move(header)), align_(header_.size(), Align::kRight) {
  if (!align_.empty()) align_.front() = Align::kLeft;
}

Table& Table::align(std::size_t column, Align align) {
  align_.at(column) = align;
  return *this;
}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != header_.size()) throw std::logic_error("a table row of another width");
  for (std::string& cell : cells) cell = printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::string Table::text() const {
  std::vector<std::size_t> width(header_.size());
  for (std::size_t c = 0; c < header_.size(); ++c) {
    width[c] = display_width(header_[c]);
    for (const auto& row : rows_) {
      if (!row.empty()) width[c] = std::max(width[c], display_width(row[c]));
    }
  }
  std::size_t total = header_.empty() ? 0 : 2 * (header_.size() - 1);
  for (const std::size_t w : width) total += w;
  const std::string rule(total, '-');

  const auto line_of = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c > 0) line += "  ";
      const std::string pad(width[c] - display_width(cells[c]), ' ');
      line += align_[c] == Align::kRight ? pad + cells[c] : cells[c] + pad;
    }
    return line;
  };
  std::string out;
  append_line(out, line_of(header_));
  append_line(out, rule);
  for (const auto& row : rows_) append_line(out, row.empty() ? rule : line_of(row));
  return out;
}

std::string format_fixed(double value, int decimals) {
  return std::isfinite(value) ? print("%.*f", decimals, value) : "-";
}

std::string format_significant(double value, int digits) {
  return std::isfinite(value) ? print("%.*g", digits, value) : "-";
}

std::string format_percent(double ratio, int decimals) {
  return std::isfinite(ratio) ? format_fixed(100.0 * ratio, decimals) + " %" : "-";
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = double(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {  // would print as 1024.0
    value /= 1024.0;
    ++unit;
  }
  return format_fixed(value, 1) + " " + kUnits[unit];
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 59.95) return format_fixed(seconds, 1) + " s";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const auto two = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (whole < 3600) return std::to_string(whole / 60) + " min " + two(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + two(whole % 3600 / 60) + " min";
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace kvscope
