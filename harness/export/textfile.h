// Files that others read while they are replaced.
#pragma once

#include <filesystem>
#include <string_view>

namespace kvscope {

// Writes beside the target, syncs and renames: a reader sees the old or the new contents. Readable
// by all. Throws IoError.
void replace_file(const std::filesystem::path& file, std::string_view contents);

}  // namespace kvscope
