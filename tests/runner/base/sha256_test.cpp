#include "runner/base/sha256.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "runner/base/error.h"

namespace kvscope {
namespace {

// FIPS 180-2, appendix B, and the well-known hash of nothing.
TEST(Sha256, KnownVectors) {
  EXPECT_EQ(sha256_hex(std::string_view()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, BytesAndTextAgree) {
  const std::string text("a\0b", 3);
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(text))), sha256_hex(text));
  EXPECT_NE(sha256_hex(text), sha256_hex("a"));
}

TEST(Sha256, FileLongerThanOneBlock) {
  const auto file =
      std::filesystem::temp_directory_path() / ("kvscope_sha256_" + std::to_string(::getpid()));
  const std::string text(3'000'001, 'x');
  std::ofstream(file, std::ios::binary) << text;
  EXPECT_EQ(sha256_file_hex(file), sha256_hex(text));
  std::filesystem::remove(file);
}

TEST(Sha256, UnreadableFilesAreIoErrors) {
  EXPECT_THROW(sha256_file_hex("/nonexistent/file"), IoError);
  EXPECT_THROW(sha256_file_hex(std::filesystem::temp_directory_path()), IoError);
}

}  // namespace
}  // namespace kvscope
