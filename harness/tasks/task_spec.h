// The --tasks text: NAME[:key=value…] separated by commas, e.g.
// "needle:length=1024:length=2048:samples=20:seed=1,qa,perplexity". A key given again makes a list.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

enum class TaskValue { kInteger, kNumber, kWord };

struct TaskKey {
  std::string_view name;
  std::string_view fallback;  // comma-separated for lists; may be empty
  TaskValue kind = TaskValue::kInteger;
  double least = 0;  // of numbers
  double most = 1e9;
  std::string_view words = {};  // allowed ones, separated by '|'
  bool list = false;
  std::string_view help = {};
};

struct TaskSpec {
  std::string name;
  std::map<std::string, std::vector<std::string>> values;  // all keys, defaults filled in
  std::map<std::string, std::vector<std::string>> written;

  int integer(const std::string& key) const;
  std::uint64_t unsigned64(const std::string& key) const;
  std::vector<int> integers(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  const std::string& word(const std::string& key) const;
  bool was_written(const std::string& key) const { return written.contains(key); }
  std::string canonical() const;  // name and the keys that were written, sorted
};

struct TaskSyntax {
  std::string_view name;
  std::span<const TaskKey> keys;
};

// Throws UsageError: unknown task or key (suggests the nearest), bad or repeated value, the same
// task twice.
std::vector<TaskSpec> parse_task_list(std::string_view text, std::span<const TaskSyntax> known);

}  // namespace kvscope
