#include "harness/export/textfile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runner/base/error.h"

namespace kvscope {

void replace_file(const std::filesystem::path& file, std::string_view contents) {
  const std::string target = file.string();
  // Collectors read *.prom: the half-written file must not end so.
  std::string half = target + ".XXXXXX";
  const int descriptor = ::mkstemp(half.data());
  const auto fail = [&](const std::string& where) {
    const std::string reason = std::strerror(errno);
    if (descriptor >= 0) {
      ::close(descriptor);
      ::unlink(half.c_str());
    }
    throw IoError("cannot write " + where + ": " + reason);
  };
  if (descriptor < 0) fail(target);
  while (!contents.empty()) {
    const ssize_t n = ::write(descriptor, contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(target);
    contents.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fchmod(descriptor, 0644) != 0 || ::fsync(descriptor) != 0) fail(target);
  if (::rename(half.c_str(), target.c_str()) != 0) fail(target);
  ::close(descriptor);
}

}  // namespace kvscope
