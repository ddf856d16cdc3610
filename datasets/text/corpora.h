// Books and manuals that Debian packages carry, so that a text is at hand without a download.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "datasets/text/documents.h"

namespace kvscope {

struct Corpus {
  std::string_view name;
  std::string_view package;  // that has it
  std::string_view file;     // where the package puts it
  std::string (*cleaned)(std::string text);
};
std::span<const Corpus> corpora();  // sherlock, opticks, policy

// The text, cleaned up: one paragraph a line. Throws UsageError for an unknown name, IoError, which
// names the package to install, where the file is not there, and DataError where it holds something
// else. root: in front of the file's path, for packages that are only unpacked.
TextDocument load_corpus(std::string_view name, const std::filesystem::path& root = "/");

}  // namespace kvscope
