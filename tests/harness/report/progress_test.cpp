#include "harness/report/progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace kvscope {
namespace {

// A stream in memory and a clock by hand.
class ProgressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = std::tmpfile();
    ASSERT_NE(file_, nullptr);
  }
  void TearDown() override { std::fclose(file_); }

  Progress::Options options(bool terminal) {
    Progress::Options options;
    options.stream = file_;
    options.terminal = terminal;
    options.clock = [this] { return time_; };
    return options;
  }
  std::string written() {
    std::string text(static_cast<std::size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

  std::FILE* file_ = nullptr;
  double time_ = 100.0;
};

TEST_F(ProgressTest, WritesPlainLinesAtASlowPaceWhereThereIsNoTerminal) {
  {
    Progress progress("sweep", 40, "samples", options(false));
    time_ += 4;
    progress.advance(8);  // too early for a line
    time_ += 6;
    progress.advance(12);
    time_ += 10;
    progress.stage("qa");
    progress.advance(20);
  }
  EXPECT_EQ(written(),
            "sweep: 0/40 samples\n"
            "sweep: 20/40 samples, 2 samples/s, 10.0 s left\n"
            "sweep: 20/40 samples, 1 samples/s, 20.0 s left: qa\n"
            "sweep: 40/40 samples in 20.0 s\n");
}

TEST_F(ProgressTest, DrawsABarOnATerminalAndErasesItAtTheEnd) {
  {
    Progress progress("sweep", 4, "samples", options(true));
    time_ += 2;
    progress.advance(2);
  }
  EXPECT_EQ(written(),
            "\r\033[Ksweep [........................] 0/4 samples"
            "\r\033[Ksweep [############............] 2/4 samples, 1 samples/s, 2.0 s left"
            "\r\033[Ksweep: 2/4 samples in 2.0 s\n");
}

TEST_F(ProgressTest, DoesNotCountResumedSamplesForTheRate) {
  {
    Progress progress("sweep", 100, "samples", options(false), 90);
    time_ += 10;
    progress.advance(5);
  }
  EXPECT_EQ(written(),
            "sweep: 90/100 samples\n"
            "sweep: 95/100 samples, 0.5 samples/s, 10.0 s left\n"
            "sweep: 95/100 samples in 10.0 s\n");
}

TEST_F(ProgressTest, PutsNotesOnALineOfTheirOwn) {
  {
    Progress progress("sweep", 1, "samples", options(true));
    progress.note("skipped: h2o@0.100");
  }
  EXPECT_EQ(written(),
            "\r\033[Ksweep [........................] 0/1 samples"
            "\r\033[Kskipped: h2o@0.100\n"
            "\r\033[Ksweep [........................] 0/1 samples"
            "\r\033[Ksweep: 0/1 samples in 0.0 s\n");
}

TEST_F(ProgressTest, NeverWrapsALine) {
  auto narrow = options(true);
  narrow.columns = 30;
  {
    Progress progress("a title that is long already", 1, "samples", narrow);
    EXPECT_EQ(written().size(), std::string("\r\033[K").size() + 29);
  }
}

}  // namespace
}  // namespace kvscope
