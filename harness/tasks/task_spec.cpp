#include "harness/tasks/task_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "runner/base/error.h"
#include "runner/policies/nearest.h"

namespace kvscope {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

template <typename Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string shown(double bound) {
  std::string text = std::to_string(bound);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

void check_value(std::string_view task, const TaskKey& key, std::string_view value) {
  const std::string where = "task '" + std::string(task) + "': " + std::string(key.name) + "='" +
                            std::string(value) + "' ";
  if (key.kind == TaskValue::kWord) {
    const auto words = split(key.words, '|');
    if (std::ranges::find(words, value) == words.end()) {
      throw UsageError(where + "is none of " + joined(words) + suggestion(value, words));
    }
    return;
  }
  double number = 0;
  std::int64_t whole = 0;
  const bool is_number =
      key.kind == TaskValue::kInteger ? parse_whole(value, whole) : parse_whole(value, number);
  if (key.kind == TaskValue::kInteger) number = static_cast<double>(whole);
  if (!is_number || !std::isfinite(number) || number < key.least || number > key.most) {
    throw UsageError(where + "is no " + (key.kind == TaskValue::kInteger ? "whole " : "") +
                     "number from " + shown(key.least) + " to " + shown(key.most));
  }
}

const TaskSyntax& find_task(std::string_view name, std::span<const TaskSyntax> known) {
  std::vector<std::string_view> names;
  for (const TaskSyntax& task : known) {
    if (task.name == name) return task;
    names.push_back(task.name);
  }
  throw UsageError("unknown task '" + std::string(name) + "'" + suggestion(name, names) +
                   " (known: " + joined(names) + ")");
}

const TaskKey& find_key(std::string_view name, const TaskSyntax& task) {
  std::vector<std::string_view> names;
  for (const TaskKey& key : task.keys) {
    if (key.name == name) return key;
    names.push_back(key.name);
  }
  throw UsageError("task '" + std::string(task.name) + "': unknown key '" + std::string(name) +
                   "'" + suggestion(name, names) + " (known: " + joined(names) + ")");
}

TaskSpec parse_task(std::string_view text, std::span<const TaskSyntax> known) {
  const auto pieces = split(text, ':');
  const TaskSyntax& task = find_task(pieces.front(), known);
  TaskSpec spec;
  spec.name = task.name;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const std::size_t equals = pieces[i].find('=');
    if (equals == std::string_view::npos) {
      throw UsageError("task '" + spec.name + "': '" + std::string(pieces[i]) +
                       "' is not key=value");
    }
    const TaskKey& key = find_key(pieces[i].substr(0, equals), task);
    const std::string value(pieces[i].substr(equals + 1));
    check_value(task.name, key, value);
    auto& values = spec.written[std::string(key.name)];
    if (!values.empty() && !key.list) {
      throw UsageError("task '" + spec.name + "': " + std::string(key.name) + " is given twice");
    }
    if (std::ranges::find(values, value) != values.end()) {
      throw UsageError("task '" + spec.name + "': " + std::string(key.name) + "=" + value +
                       " is given twice");
    }
    values.push_back(value);
  }
  for (const TaskKey& key : task.keys) {
    const std::string name(key.name);
    if (spec.written.contains(name)) {
      spec.values[name] = spec.written[name];
    } else if (key.fallback.empty()) {
      spec.values[name] = {};
    } else {
      for (const auto piece : split(key.fallback, ',')) spec.values[name].emplace_back(piece);
    }
  }
  return spec;
}

}  // namespace

int TaskSpec::integer(const std::string& key) const { return integers(key).at(0); }

std::uint64_t TaskSpec::unsigned64(const std::string& key) const {
  std::uint64_t number = 0;
  parse_whole(values.at(key).at(0), number);
  return number;
}

std::vector<int> TaskSpec::integers(const std::string& key) const {
  std::vector<int> numbers;
  for (const std::string& value : values.at(key)) parse_whole(value, numbers.emplace_back());
  return numbers;
}

std::vector<double> TaskSpec::numbers(const std::string& key) const {
  std::vector<double> numbers;
  for (const std::string& value : values.at(key)) parse_whole(value, numbers.emplace_back());
  return numbers;
}

const std::string& TaskSpec::word(const std::string& key) const { return values.at(key).at(0); }

std::string TaskSpec::canonical() const {
  std::string text = name;
  for (const auto& [key, list] : written) {
    for (const std::string& value : list) text += ":" + key + "=" + value;
  }
  return text;
}

std::vector<TaskSpec> parse_task_list(std::string_view text, std::span<const TaskSyntax> known) {
  std::vector<TaskSpec> specs;
  for (const std::string_view piece : split(text, ',')) {
    TaskSpec spec = parse_task(piece, known);
    for (const TaskSpec& other : specs) {
      if (other.name == spec.name && other.values == spec.values) {
        throw UsageError("task '" + spec.canonical() + "' is listed twice");
      }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace kvscope
