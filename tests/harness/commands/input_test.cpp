#include "harness/commands/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "harness/commands/pairs_csv.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using ::testing::ElementsAre;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

TEST(ParseIds, TakesAnArrayOfIntegers) {
  EXPECT_THAT(parse_ids("[1, 0,\n 49151]", "x"), ElementsAre(1, 0, 49151));
}

TEST(ParseIds, RefusesEverythingElse) {
  for (const char* bad : {"", "[]", "{}", "[1.0]", "[-1]", "[1, \"2\"]", "[[1]]", "[1", "null",
                          "[2147483648]", "[18446744073709551615]", "[1e3]"}) {
    EXPECT_THROW(parse_ids(bad, "x"), DataError) << bad;
  }
  EXPECT_EQ(message_of([] { parse_ids("{}", "ids.json"); }),
            "ids.json: a JSON array of token ids is wanted, like [1, 2, 3]");
}

TEST(CheckIds, NamesTheIdAndItsPlace) {
  const std::vector<std::int32_t> ids = {3, 320};
  EXPECT_NO_THROW(check_ids(ids, 321, "x"));
  EXPECT_EQ(message_of([&] { check_ids(ids, 320, "ids.json"); }),
            "ids.json: id 320 at index 1 is outside the model's vocabulary of 320");
}

TEST(ReadLines, KeepsNumbersAndLeavesEmptyLinesOut) {
  const std::string file = ::testing::TempDir() + "kvscope_lines.txt";
  std::ofstream(file, std::ios::binary) << "a\r\n\nb";
  const auto lines = read_lines(file);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "a");
  EXPECT_EQ(lines[1].number, 3);
  EXPECT_EQ(lines[1].text, "b");
  std::remove(file.c_str());
}

TEST(PairsCsv, FindsColumnsByNameInAnyOrder) {
  const auto pairs = parse_pairs_csv(
      "\xEF\xBB\xBF"
      "b,note,cluster,a\r\n1e-3,x,\"book, one\",-2\r\n\n",
      "x");
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].cluster, "book, one");
  EXPECT_EQ(pairs[0].a, -2.0);
  EXPECT_EQ(pairs[0].b, 0.001);
}

TEST(PairsCsv, NamesTheLineOfAFault) {
  EXPECT_EQ(message_of([] { parse_pairs_csv("cluster,a\n", "p.csv"); }),
            "p.csv line 1: no column 'b': the first line must name the columns cluster, a and b");
  EXPECT_EQ(message_of([] { parse_pairs_csv("cluster,a,b\nx,1\n", "p.csv"); }),
            "p.csv line 2: 2 cells where the header has 3");
  EXPECT_EQ(message_of([] { parse_pairs_csv("cluster,a,b\nx,1,\n", "p.csv"); }),
            "p.csv line 2: '' in column b is not a number");
  EXPECT_EQ(message_of([] { parse_pairs_csv("cluster,a,b\nx,1,2,\"\n", "p.csv"); }),
            "p.csv line 2: a quote is not closed");
  EXPECT_EQ(message_of([] { parse_pairs_csv("cluster,a,b\n", "p.csv"); }),
            "p.csv: no pairs below the header");
}

}  // namespace
}  // namespace kvscope
