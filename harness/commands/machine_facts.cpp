#include "harness/commands/machine_facts.h"

#include <sqlite3.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace kvscope {
namespace {

constexpr const char* kUnknown = "unknown";

std::string read_file(const char* path) {  // empty if it cannot be read
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string processor_name(std::string_view cpuinfo) {
  constexpr std::string_view kKey = "model name";
  const std::size_t key = cpuinfo.find(kKey);
  if (key == std::string_view::npos) return kUnknown;  // not every architecture has it
  const std::string_view line = cpuinfo.substr(key, cpuinfo.find('\n', key) - key);
  const std::size_t colon = line.find(':');
  const std::size_t begin = line.find_first_not_of(": \t", colon);
  if (colon == std::string_view::npos || begin == std::string_view::npos) return kUnknown;
  return std::string(line.substr(begin));
}

std::string bracketed_word(std::string_view text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return kUnknown;
  return std::string(text.substr(open + 1, close - open - 1));
}

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.processor = processor_name(read_file("/proc/cpuinfo"));
  facts.huge_pages = bracketed_word(read_file("/sys/kernel/mm/transparent_hugepage/enabled"));
  std::array<double, 1> load{};
  facts.load_average = ::getloadavg(load.data(), 1) == 1 ? load[0] : std::nan("");
  facts.libraries = backend_libraries();
  facts.libraries.push_back({"SQLite", sqlite3_libversion()});
  return facts;
}

}  // namespace kvscope
