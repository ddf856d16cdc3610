// A whole regular file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace kvscope {

class MappedFile {
 public:
  // Throws IoError if the file is missing, unreadable or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }  // empty for an empty file

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace kvscope
