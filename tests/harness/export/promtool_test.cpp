// Our page as Prometheus' own checker reads it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "harness/export/live_metrics.h"
#include "harness/export/metric_book.h"
#include "harness/export/metric_catalogue.h"

namespace kvscope {
namespace {

// One series in every family.
std::string full_page() {
  MetricBook book;
  const MetricBook::Labels arm = {
      {"model_name", "a\\b \"c\""}, {"policy", "h2o:norm=mean"}, {"budget", "256tok"}};
  for (const FamilyInfo& family : metric_families()) {
    switch (family.type) {
      case FamilyType::kGauge:
        book.set(family.name, arm, 0.5);
        break;
      case FamilyType::kCounter:
        book.add(family.name, arm, 3);
        break;
      case FamilyType::kHistogram:
        book.observe(family.name, arm, std::numeric_limits<double>::quiet_NaN());
        book.observe(family.name, arm, 0.01);
        break;
    }
  }
  return book.text();
}

struct Checked {
  int status;
  std::string output;
};

Checked check(const std::string& page) {
  const std::string file = ::testing::TempDir() + "kvscope_page.prom";
  std::FILE* out = std::fopen(file.c_str(), "w");
  std::fwrite(page.data(), 1, page.size(), out);
  std::fclose(out);
  std::FILE* pipe = ::popen(("promtool check metrics < '" + file + "' 2>&1").c_str(), "r");
  std::string output;
  char block[1024];
  while (const std::size_t n = std::fread(block, 1, sizeof(block), pipe)) output.append(block, n);
  const int status = ::pclose(pipe);
  std::remove(file.c_str());
  return {status, output};
}

TEST(Promtool, AcceptsEveryFamilyWithoutALint) {
  if (std::system("command -v promtool > /dev/null") != 0) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not on the PATH";
  }
  const Checked checked = check(full_page());
  EXPECT_EQ(checked.status, 0) << checked.output;
  EXPECT_EQ(checked.output, "");
  EXPECT_NE(check("kvscope_broken{ 1\n").status, 0);  // the check can fail
}

}  // namespace
}  // namespace kvscope
