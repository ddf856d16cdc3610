#include "harness/commands/machine_facts.h"

#include <gtest/gtest.h>

namespace kvscope {
namespace {

TEST(MachineFacts, ProcessorName) {
  EXPECT_EQ(
      processor_name("processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9654\nflags: x\n"),
      "AMD EPYC 9654");
  EXPECT_EQ(processor_name("model name\t:\n"), "unknown");
  EXPECT_EQ(processor_name("model name"), "unknown");
  EXPECT_EQ(processor_name("BogoMIPS\t: 50.00\n"), "unknown");
  EXPECT_EQ(processor_name(""), "unknown");
}

TEST(MachineFacts, HugePages) {
  EXPECT_EQ(bracketed_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(bracketed_word("always madvise [never]\n"), "never");
  EXPECT_EQ(bracketed_word("]["), "unknown");
  EXPECT_EQ(bracketed_word(""), "unknown");
}

TEST(MachineFacts, NamesTheLibraries) {
  std::vector<std::string> names;
  for (const LibraryVersion& library : machine_facts().libraries) {
    names.push_back(library.name);
    EXPECT_NE(library.version.find('.'), std::string::npos) << library.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"oneDNN", "Highway", "SQLite"}));
}

}  // namespace
}  // namespace kvscope
