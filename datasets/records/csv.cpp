#include "datasets/records/csv.h"

#include "runner/base/error.h"

namespace kvscope {

std::vector<CsvRow> parse_csv(std::string_view text, const std::string& where) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<CsvRow> rows;
  CsvRow row{1, {}};
  std::string field;
  bool quoted = false;      // inside quotes
  bool was_quoted = false;  // the field had some, so that it is a field even if empty
  int line = 1;
  const auto end_row = [&] {
    const bool blank = row.fields.empty() && field.empty() && !was_quoted;
    if (!blank) {
      row.fields.push_back(std::move(field));
      rows.push_back(std::move(row));
    }
    field.clear();
    was_quoted = false;
    row = {line + 1, {}};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        field.push_back('"');
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        field.push_back(c);
      }
    } else if (c == '"' && field.empty()) {
      quoted = was_quoted = true;
    } else if (c == ',') {
      row.fields.push_back(std::move(field));
      field.clear();
      was_quoted = false;
    } else if (c == '\n') {
      end_row();
    } else if (c != '\r' || i + 1 == text.size() || text[i + 1] != '\n') {
      field.push_back(c);
    }
    if (c == '\n') ++line;
  }
  if (quoted) {
    throw DataError(where + ", line " + std::to_string(row.line) +
                    ": a quoted field is never closed");
  }
  end_row();
  return rows;
}

}  // namespace kvscope
