#include "datasets/records/record_file.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "datasets/json/json_file.h"
#include "datasets/records/csv.h"
#include "datasets/records/gzip.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Brackets are followed outside strings.
class Nesting {
 public:
  void see(char c) {
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else {
        in_string_ = c != '"';
      }
      return;
    }
    in_string_ = c == '"';
    if (c == '{' || c == '[') deepest_ = std::max(deepest_, ++depth_);
    if (c == '}' || c == ']') --depth_;
  }
  int depth() const { return depth_; }
  int deepest() const { return deepest_; }
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  int deepest_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// Why `text` is no record; nothing if it is, which `value` then holds.
std::optional<std::string> fault_of(std::string_view text, json& value) {
  Nesting nesting;
  for (const char c : text) nesting.see(c);
  if (nesting.deepest() > kMostDepth) {
    return "nested deeper than " + std::to_string(kMostDepth);
  }
  try {
    value = parse_json(text, {});
  } catch (const DataError&) {
    return "not valid JSON";
  }
  if (!value.is_object()) return "no JSON object";
  return std::nullopt;
}

void add_record(RecordFile& file, std::string_view text, int line) {
  json value;
  if (auto fault = fault_of(text, value)) {
    file.bad.push_back({line, std::move(*fault)});
  } else {
    file.records.push_back({std::move(value), line});
  }
}

// Calls add(begin, end, line) with each element of the array that `text` is.
void split_array(RecordFile& file, std::string_view text) {
  Nesting nesting;
  std::size_t begin = 1;
  int line = 1;
  int begin_line = 1;
  bool blank = true;  // nothing of the element so far
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool outside = !nesting.in_string();
    nesting.see(c);
    const bool ends =
        outside && ((c == ',' && nesting.depth() == 1) || (c == ']' && nesting.depth() == 0));
    if (ends) {
      if (!blank) add_record(file, text.substr(begin, i - begin), begin_line);
      begin = i + 1;
      blank = true;
      if (c == ']') return;
    } else if (i > 0 && blank && kSpace.find(c) == std::string_view::npos) {
      begin_line = line;
      blank = false;
    }
    if (c == '\n') ++line;
  }
  file.bad.push_back({line, "the array is never closed"});
}

void split_lines(RecordFile& file, std::string_view text) {
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    ++line;
    const std::string_view record = trimmed(text.substr(begin, end - begin));
    if (!record.empty()) add_record(file, record, line);
    begin = end + 1;
  }
}

void read_csv(RecordFile& file, std::string_view text) {
  const auto rows = parse_csv(text, file.path.string());
  if (rows.empty()) return;
  const auto& header = rows.front().fields;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (rows[r].fields.size() != header.size()) {
      file.bad.push_back({rows[r].line, std::to_string(rows[r].fields.size()) +
                                            " fields where the header has " +
                                            std::to_string(header.size())});
      continue;
    }
    json value = json::object();
    for (std::size_t f = 0; f < header.size(); ++f) value[header[f]] = rows[r].fields[f];
    file.records.push_back({std::move(value), rows[r].line});
  }
}

// One object over several lines, or lines of which the first is broken: what the file as a whole
// says.
bool is_one_object(std::string_view text, json& value) {
  const std::string_view first = trimmed(text.substr(0, text.find('\n')));
  const bool one_line = first.size() == text.size();
  if (!one_line && json::accept(first)) return false;
  return !fault_of(text, value);
}

}  // namespace

RecordFile read_record_file(const std::filesystem::path& path) {
  RecordFile file;
  file.path = path;
  const std::string bytes = read_data_file(path);
  std::string_view text = bytes;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const std::string_view body = trimmed(text);
  if (body.empty()) throw DataError(path.string() + " is empty");
  // Lines before the first record count.
  const auto blank = body.data() - text.data();
  const int first_line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + blank, '\n'));
  json value;
  if (body.front() == '[') {
    file.container = Container::kJsonArray;
    split_array(file, body);
  } else if (body.front() == '{') {
    if (is_one_object(body, value)) {
      file.container = Container::kJsonObject;
      file.records.push_back({std::move(value), 1});
    } else {
      split_lines(file, body);
    }
  } else if (path.extension() == ".csv" || path.stem().extension() == ".csv") {
    file.container = Container::kCsv;
    read_csv(file, body);
  } else {
    throw DataError(path.string() + ", line " + std::to_string(first_line) +
                    ": neither JSON nor a .csv file");
  }
  for (Record& record : file.records) record.line += first_line - 1;
  for (SkippedRecord& record : file.bad) record.line += first_line - 1;
  if (file.records.empty()) {
    throw DataError(file.bad.empty()
                        ? path.string() + " holds no record"
                        : file.place(file.bad.front().line) + ": " + file.bad.front().reason);
  }
  return file;
}

}  // namespace kvscope
