// What there is to know about the machine without measuring.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/backend/library_versions.h"

namespace kvscope {

struct MachineFacts {
  std::string processor;    // "AMD EPYC 9654", "unknown"
  std::string huge_pages;   // "always", "madvise", "never", "unknown"
  double load_average = 0;  // of the last minute; NaN if unknown
  std::vector<LibraryVersion> libraries;
};

MachineFacts machine_facts();

// First "model name" of /proc/cpuinfo's text.
std::string processor_name(std::string_view cpuinfo);
// "madvise" of "always [madvise] never".
std::string bracketed_word(std::string_view text);

}  // namespace kvscope
