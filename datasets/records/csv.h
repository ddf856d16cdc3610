// CSV as RFC 4180 has it: quoted fields may hold commas, quotes and line feeds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

struct CsvRow {
  int line = 0;  // on which the row begins, from 1
  std::vector<std::string> fields;
};

// All rows, the header first; empty lines are left out, a byte-order mark and CRLF are tolerated.
// Throws DataError (file and line) where a quote is never closed.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& where);

}  // namespace kvscope
