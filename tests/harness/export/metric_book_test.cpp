#include "harness/export/metric_book.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

#include "harness/export/metric_catalogue.h"

namespace kvscope {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(MetricBook, WritesTheExpositionFormat) {
  MetricBook book;
  book.add("kvscope_errors_total", {{"kind", "oom"}}, 0);
  book.add("kvscope_errors_total", {{"kind", "io"}}, 2);
  book.set("kvscope_store_size_bytes", {}, 4096);
  book.observe("kvscope_store_transaction_duration_seconds", {}, 0.25);
  EXPECT_EQ(book.text(),
            "# HELP kvscope_errors_total Errors, by kind.\n"
            "# TYPE kvscope_errors_total counter\n"
            "kvscope_errors_total{kind=\"io\"} 2\n"
            "kvscope_errors_total{kind=\"oom\"} 0\n"
            "# HELP kvscope_store_transaction_duration_seconds Time of one SQLite commit.\n"
            "# TYPE kvscope_store_transaction_duration_seconds histogram\n"
            "kvscope_store_transaction_duration_seconds_count 1\n"
            "kvscope_store_transaction_duration_seconds_sum 0.25\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"0.001\"} 0\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"0.005\"} 0\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"0.01\"} 0\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"0.05\"} 0\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"0.1\"} 0\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"0.5\"} 1\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"1\"} 1\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"5\"} 1\n"
            "kvscope_store_transaction_duration_seconds_bucket{le=\"+Inf\"} 1\n"
            "# HELP kvscope_store_size_bytes Size of the database file and its WAL.\n"
            "# TYPE kvscope_store_size_bytes gauge\n"
            "kvscope_store_size_bytes 4096\n");
}

TEST(MetricBook, DropsAndCountsValuesThatAreNotNumbers) {
  MetricBook book;
  book.set("kvscope_store_size_bytes", {}, 1);
  book.set("kvscope_store_size_bytes", {}, kNan);
  book.set("kvscope_store_size_bytes", {}, kInf);
  book.add("kvscope_evicted_tokens_total", {}, -1);  // a counter never goes down
  EXPECT_EQ(
      book.text(),
      "# HELP kvscope_nonfinite_values_total NaN or infinite probe values that were dropped.\n"
      "# TYPE kvscope_nonfinite_values_total counter\n"
      "kvscope_nonfinite_values_total{probe=\"kvscope_evicted_tokens_total\"} 1\n"
      "kvscope_nonfinite_values_total{probe=\"kvscope_store_size_bytes\"} 2\n"
      "# HELP kvscope_store_size_bytes Size of the database file and its WAL.\n"
      "# TYPE kvscope_store_size_bytes gauge\n"
      "kvscope_store_size_bytes 1\n");
}

TEST(MetricBook, EscapesLabelsAndMendsBrokenUtf8) {
  MetricBook book;
  book.add("kvscope_errors_total", {{"kind", "a\"b\\c\nd\xff"}}, 1);
  EXPECT_EQ(book.text(),
            "# HELP kvscope_errors_total Errors, by kind.\n"
            "# TYPE kvscope_errors_total counter\n"
            "kvscope_errors_total{kind=\"a\\\"b\\\\c\\nd?\"} 1\n");
}

TEST(MetricBook, StopsAtTheCapOfSeries) {
  MetricBook book(2);
  for (const char* kind : {"a", "b", "c", "a"}) {
    book.add("kvscope_errors_total", {{"kind", kind}}, 1);
  }
  EXPECT_EQ(book.refused_series(), 1U);
  EXPECT_EQ(book.text(),
            "# HELP kvscope_errors_total Errors, by kind.\n"
            "# TYPE kvscope_errors_total counter\n"
            "kvscope_errors_total{kind=\"a\"} 2\n"
            "kvscope_errors_total{kind=\"b\"} 1\n");
}

TEST(MetricBook, RefusesFamiliesThatAreNotInTheCatalogue) {
  MetricBook book;
  EXPECT_THROW(book.set("kvscope_made_up", {}, 1), std::logic_error);
  EXPECT_THROW(book.set("kvscope_errors_total", {}, 1), std::logic_error);  // a counter
}

TEST(MetricCatalogue, FollowsTheNamingRules) {
  std::set<std::string> names;
  for (const FamilyInfo& family : metric_families()) {
    const std::string name(family.name);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(name.starts_with("kvscope_")) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    EXPECT_EQ(name.ends_with("_total"), family.type == FamilyType::kCounter) << name;
    EXPECT_EQ(family.help.find('\\'), std::string_view::npos) << name;
    EXPECT_EQ(family.buckets.empty(), family.type != FamilyType::kHistogram) << name;
    for (std::size_t i = 1; i < family.buckets.size(); ++i) {
      EXPECT_LT(family.buckets[i - 1], family.buckets[i]) << name;
    }
  }
}

}  // namespace
}  // namespace kvscope
