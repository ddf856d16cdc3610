// scripts/prepare-texts on a made-up package folder, and on the real one where it is installed.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "datasets/text/text_file.h"
#include "runner/base/sha256.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

// Runs the script with `folder`/cache as the user's cache; returns its exit code, output lands in
// `folder`/log.
int prepare_texts(const TempFolder& folder, const fs::path& packages,
                  const std::string& arguments = "") {
  const std::string command = "XDG_CACHE_HOME='" + (folder.path() / "cache").string() +
                              "' KVSCOPE_GOCODE='" + packages.string() +
                              "' '" KVSCOPE_SOURCE_DIR "/scripts/prepare-texts' " + arguments +
                              " >'" + (folder.path() / "log").string() + "' 2>&1";
  return WEXITSTATUS(std::system(command.c_str()));
}

fs::path made_up_packages(const TempFolder& folder) {
  const std::string lz4 = "go/github.com/pierrec/lz4/testdata/";
  folder.write(lz4 + "pg1661.txt",
               "\xef\xbb\xbfHeader\r\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\n\r\n"
               "Produced by an anonymous Project Gutenberg volunteer and others\r\n\r\n"
               "  One  line\r\nand its rest. \r\n\r\n\r\nNext.\r\n"
               "\r\nEnd of the Project Gutenberg EBook of X\r\nFooter\r\n");
  folder.write(lz4 + "Mark.Twain-Tom.Sawyer.txt",
               "Credit\n\n  THE ADVENTURES OF TOM SAWYER\nBY\n\nText\n");
  folder.write("go/github.com/andybalholm/brotli/testdata/Isaac.Newton-Opticks.txt",
               "one\ntwo\nthree\n\n_The_ FOURTH\n_edition_.");
  return folder.path() / "go";
}

TEST(PrepareTexts, cleans_each_book) {
  const TempFolder folder;
  ASSERT_EQ(prepare_texts(folder, made_up_packages(folder)), 0);
  const fs::path texts = folder.path() / "cache/kvscope/texts";
  EXPECT_EQ(read_file(folder.path() / "log"), texts.string() + "\n");
  EXPECT_EQ(read_file(texts / "sherlock_holmes.txt"), "One line and its rest.\n\nNext.\n");
  EXPECT_EQ(read_file(texts / "tom_sawyer.txt"), "THE ADVENTURES OF TOM SAWYER BY\n\nText\n");
  EXPECT_EQ(read_file(texts / "opticks.txt"), "The FOURTH edition.\n");
  // Nothing half-written is left beside them.
  EXPECT_EQ(std::distance(fs::directory_iterator(texts), fs::directory_iterator()), 3);
}

TEST(PrepareTexts, leaves_a_finished_book_alone_unless_forced) {
  const TempFolder folder;
  const fs::path packages = made_up_packages(folder);
  const fs::path book = folder.write("cache/kvscope/texts/opticks.txt", "mine");
  ASSERT_EQ(prepare_texts(folder, packages), 0);
  EXPECT_EQ(read_file(book), "mine");
  ASSERT_EQ(prepare_texts(folder, packages, "--force"), 0);
  EXPECT_EQ(read_file(book), "The FOURTH edition.\n");
}

TEST(PrepareTexts, names_the_package_that_is_missing) {
  const TempFolder folder;
  EXPECT_EQ(prepare_texts(folder, folder.path() / "nothing"), 74);
  EXPECT_NE(read_file(folder.path() / "log").find("apt-get install golang-github-pierrec-lz4-dev"),
            std::string::npos);
  EXPECT_EQ(prepare_texts(folder, folder.path(), "--wrong"), 64);
}

TEST(PrepareTexts, makes_the_three_books_from_the_debian_packages) {
  const fs::path packages = "/usr/share/gocode/src";
  if (!fs::exists(packages / "github.com/pierrec/lz4/testdata/pg1661.txt") ||
      !fs::exists(packages / "github.com/andybalholm/brotli/testdata/Isaac.Newton-Opticks.txt")) {
    GTEST_SKIP() << "golang-github-pierrec-lz4-dev and golang-github-andybalholm-brotli-dev are "
                    "not installed";
  }
  const TempFolder folder;
  ASSERT_EQ(prepare_texts(folder, packages), 0);
  const fs::path texts = folder.path() / "cache/kvscope/texts";
  EXPECT_EQ(sha256_file_hex(texts / "sherlock_holmes.txt"),
            "5b0253e10d147d8ca46f4c353ae24750014d62dae52032465cc5ec79a62f5791");
  EXPECT_EQ(sha256_file_hex(texts / "tom_sawyer.txt"),
            "b2bb8109521727aac11177a684dfc8ae902b8a8d47a247567266c33a96cff0ea");
  EXPECT_EQ(sha256_file_hex(texts / "opticks.txt"),
            "fb3f30a7cd308d03da07d6df0b208ab3ff63f3214f2a082c599fb46568054984");
}

}  // namespace
}  // namespace kvscope
