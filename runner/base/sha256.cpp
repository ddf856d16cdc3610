#include "runner/base/sha256.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <vector>

#include "runner/base/error.h"

namespace kvscope {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void update(const void* data, std::size_t bytes) {
    check(EVP_DigestUpdate(context_.get(), data, bytes) == 1);
  }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &length) == 1);
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * length);
    for (unsigned int i = 0; i < length; ++i) {
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  static void check(bool ok) {
    if (!ok) throw std::runtime_error("OpenSSL: SHA-256 is not available");
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256_file_hex(const std::filesystem::path& file) {
  const auto fail = [&](const char* why) {
    throw IoError(file.string() + ": cannot be read (" + why + "); check the path and its rights");
  };
  // An ifstream opens a folder without complaint and fails at the first read.
  if (std::filesystem::is_directory(file)) fail("it is a folder");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(std::strerror(errno));
  Sha256 hash;
  std::vector<char> block(std::size_t{1} << 20);
  while (in) {
    in.read(block.data(), std::streamsize(block.size()));
    hash.update(block.data(), std::size_t(in.gcount()));
  }
  if (in.bad()) fail("read error");
  return hash.hex();
}

}  // namespace kvscope
