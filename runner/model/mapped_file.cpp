#include "runner/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "runner/base/error.h"

namespace kvscope {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw IoError(path.string() + ": cannot read: " + std::generic_category().message(error) +
                "; check the path and its permissions");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Non-blocking, so that a named pipe is refused below instead of waiting for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail(path, errno);
  if (S_ISDIR(info.st_mode)) {
    throw IoError(path.string() + ": is a folder; give the file inside it");
  }
  if (!S_ISREG(info.st_mode)) {
    throw IoError(path.string() + ": is not a regular file; copy its content to one");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return;
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail(path, errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace kvscope
