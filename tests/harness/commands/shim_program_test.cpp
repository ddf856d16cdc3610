// The whole program on the CUDA backend, whose kernels run on the CPU: every task, from the command
// line to the rows of the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/commands/program.h"
#include "tests/harness/store/store_fixture.h"
#include "tests/runner/model/gguf_writer.h"

namespace kvscope::testing {
namespace {

using ::testing::HasSubstr;

struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};

class ShimProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    TinyModelShape shape;
    shape.context_length = 512;
    write_tiny_model(folder_.path / "tiny.gguf", shape, 7);
    std::ofstream text(folder_.path / "a.txt");
    std::ofstream(folder_.path / "b.txt") << "The cat sat on the mat and saw a rat, and another.";
    for (int i = 0; i < 40; ++i) text << "The cat sat on the mat and saw rat number " << i << ".\n";
  }

  Finished run(const std::string& line) const {
    std::vector<std::string> words = {"kvscope"};
    std::istringstream stream(line);
    for (std::string word; stream >> word;) {
      if (word == "FILE") word = folder_.path / "tiny.gguf";
      if (word.starts_with("DIR/")) word = folder_.path / word.substr(4);
      words.push_back(word);
    }
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Finished finished;
    finished.status = run_kvscope(int(argv.size()), argv.data(), cuda_support());
    finished.out = ::testing::internal::GetCapturedStdout();
    finished.err = ::testing::internal::GetCapturedStderr();
    return finished;
  }

  TempFolder folder_;
};

TEST_F(ShimProgram, SweepsEveryTaskAndRepeatsItself) {
  const std::string sweep =
      "sweep --policies h2o,snapkv,streaming_llm --budgets 0.5 --model FILE "
      "--tasks needle:length=300:samples=1,qa:samples=1:people=2:filler=false,"
      "perplexity:context=64:windows=1 --text DIR/a.txt ";
  const Finished cuda = run(sweep + "--backend cuda --db DIR/cuda.db");
  ASSERT_EQ(cuda.status, 0) << cuda.err;
  for (const char* task : {"needle", "qa", "perplexity"}) EXPECT_THAT(cuda.out, HasSubstr(task));
  for (const char* arm : {"full", "h2o@0.5", "snapkv@0.5", "streaming_llm@0.5"})
    EXPECT_THAT(cuda.out, HasSubstr(arm));
  EXPECT_EQ(cuda.out.find("failed"), std::string::npos) << cuda.out;
  // The same rows again: nothing is computed, nothing contradicts.
  EXPECT_EQ(run(sweep + "--backend cuda --db DIR/cuda.db").status, 0);
}

TEST_F(ShimProgram, ScoresWithinRoundingOfTheCpu) {
  const std::string score =
      "score --text DIR/b.txt --policy h2o --budget-tokens 20 --json "
      "--model FILE ";
  const Finished cpu = run(score);
  const Finished cuda = run(score + "--backend cuda");
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  ASSERT_EQ(cuda.status, 0) << cuda.err;
  const auto of_cpu = nlohmann::json::parse(cpu.out);
  const auto of_cuda = nlohmann::json::parse(cuda.out);
  EXPECT_NEAR(of_cpu.at("mean_nll_nats").get<double>(), of_cuda.at("mean_nll_nats").get<double>(),
              1e-5);
}

TEST_F(ShimProgram, ChecksADeviceOnTinyModels) {
  const Finished check = run("bench gpu --tiny --no-speed");
  EXPECT_EQ(check.status, 0) << check.out << check.err;
}

TEST_F(ShimProgram, DoctorNamesTheDevice) {
  const Finished doctor = run("doctor");
  EXPECT_EQ(doctor.status, 0) << doctor.err;
  EXPECT_THAT(doctor.out, HasSubstr("CPU shim"));
}

}  // namespace
}  // namespace kvscope::testing
