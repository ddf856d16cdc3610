#include "harness/report/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/report/time_text.h"

namespace kvscope {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Table, AlignsColumnsByCharactersNotBytes) {
  Table table({"arm", "mean", "± s.e."});
  table.add_row({"h2o", "0.5", "0.1"});
  table.add_rule();
  table.add_row({"ŝnapkv", "10.25", "-"});
  EXPECT_EQ(table.text(),
            "arm      mean  ± s.e.\n"
            "---------------------\n"
            "h2o       0.5     0.1\n"
            "---------------------\n"
            "ŝnapkv  10.25       -\n");
}

TEST(Table, LeavesNoSpacesAtLineEnds) {
  Table table({"a", "b"});
  table.align(1, Table::Align::kLeft);
  table.add_row({"x", "long"});
  table.add_row({"y", ""});
  EXPECT_EQ(table.text(), "a  b\n-------\nx  long\ny\n");
}

TEST(Table, KeepsAnAnswerWithLineFeedsOnOneLine) {
  Table table({"output"});
  table.add_row({"two\nlines\tand\x1b[31m"});
  EXPECT_EQ(table.text(), "output\n------------------\ntwo lines and [31m\n");
}

TEST(Table, RefusesRowsOfAnotherWidth) {
  Table table({"a", "b"});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
}

TEST(Format, MissingNumbersAreADash) {
  EXPECT_EQ(format_fixed(kNan, 2), "-");
  EXPECT_EQ(format_significant(std::numeric_limits<double>::infinity(), 3), "-");
  EXPECT_EQ(format_percent(kNan, 1), "-");
  EXPECT_EQ(format_duration(kNan), "-");
  EXPECT_EQ(utc_text(kNan), "-");
}

TEST(Format, Numbers) {
  EXPECT_EQ(format_fixed(2.345, 1), "2.3");
  EXPECT_EQ(format_significant(0.000012345, 3), "1.23e-05");
  EXPECT_EQ(format_percent(0.125, 1), "12.5 %");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(46'080), "45.0 KiB");
  EXPECT_EQ(format_bytes(1'048'575), "1.0 MiB");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(245.4), "4 min 05 s");
  EXPECT_EQ(format_duration(7380), "2 h 03 min");
  EXPECT_EQ(utc_text(1772373909.9), "2026-03-01 14:05:09");
}

TEST(Format, LargestNumberDoesNotOverflowTheBuffer) {
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::max(), 2).size(), 312U);
}

}  // namespace
}  // namespace kvscope
