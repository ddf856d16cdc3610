// The whole program on a machine whose devices are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/commands/program.h"
#include "tests/harness/commands/fake_cuda.h"
#include "tests/harness/store/store_fixture.h"
#include "tests/runner/model/gguf_writer.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};

class DeviceProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    write_tiny_model(folder_.path / "tiny.gguf");
    std::ofstream(folder_.path / "a.txt") << "The cat sat on the mat and saw a rat.";
  }

  // FILE in an argument is the tiny model, DIR the test's folder.
  Finished run(const std::string& line, const CudaSupport& cuda) const {
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
    finished.status = run_kvscope(int(argv.size()), argv.data(), cuda);
    finished.out = ::testing::internal::GetCapturedStdout();
    finished.err = ::testing::internal::GetCapturedStderr();
    return finished;
  }

  void expect_refused(const std::string& line, const CudaSupport& cuda, int status,
                      const std::string& part) const {
    const Finished finished = run(line, cuda);
    EXPECT_EQ(finished.status, status) << line << finished.err;
    EXPECT_EQ(finished.out, "") << line;
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(part)) << line;
  }

  const std::string score_ = "score --text DIR/a.txt --policy full --model FILE ";
  TempFolder folder_;
};

TEST_F(DeviceProgram, EveryCommandThatOpensAModelRunsOnTheDevice) {
  const CudaSupport cuda = fake_cuda({fake_device(0)});
  for (const std::string& line :
       {score_, std::string("generate --prompt hi --policy full --max-new-tokens 2 --model FILE "),
        std::string("trace record --text DIR/a.txt --out DIR/a.trace --model FILE "),
        std::string("doctor --model FILE "),
        std::string("bench engine --prefill 8 --rows 1 --prompt 8 --steps 2 --repetitions 1 "
                    "--model FILE "),
        std::string("bench load --repetitions 1 --model FILE "),
        std::string("bench score --tokens 16 --budget-tokens 4 --token-major-tokens 0 "
                    "--repetitions 1 --model FILE "),
        std::string("bench sweep --policies tova --budgets 0.5 --prompt 300 --answer 2 "
                    "--repetitions 1 --model FILE "),
        std::string(
            "run --policy tova --budget 0.5 --tasks needle:length=300:samples=1 --db DIR/run.db "
            "--model FILE "),
        std::string("sweep --policies tova --budgets 0.5 --tasks needle:length=300:samples=1 "
                    "--db DIR/sweep.db --model FILE ")}) {
    const Finished on_device = run(line + "--backend cuda --device 0", cuda);
    EXPECT_EQ(on_device.status, 0) << line << on_device.err;
    expect_refused(line + "--backend cuda", {}, 64, "built without CUDA");
  }
}

TEST_F(DeviceProgram, AutoSaysInOneLineWhatItTook) {
  const Finished on_device = run(score_ + "--backend auto", fake_cuda({fake_device(0)}));
  EXPECT_EQ(on_device.status, 0);
  EXPECT_THAT(on_device.err, HasSubstr("note: backend cuda, device 0 (Fake 0)\n"));
  const Finished on_cpu = run(score_ + "--backend auto", {});
  EXPECT_EQ(on_cpu.status, 0);
  EXPECT_THAT(on_cpu.err, HasSubstr("note: backend cpu: this program was built without CUDA\n"));
  EXPECT_EQ(on_cpu.out, on_device.out);
  EXPECT_EQ(run(score_, fake_cuda({fake_device(0)})).err.find("note:"), std::string::npos);
}

TEST_F(DeviceProgram, WhatIsNotThereIsRefused) {
  const CudaSupport cuda = fake_cuda({fake_device(0), fake_device(1, 100, "driver too old")});
  expect_refused(score_ + "--backend cuda --device 2", cuda, 64, "--device 2: there is no such");
  expect_refused(score_ + "--backend cuda --device 1", cuda, 64, "driver too old");
  expect_refused(score_ + "--device 0", cuda, 64, "add --backend cuda");
  expect_refused(score_ + "--backend gpu", cuda, 64, "--backend");
  expect_refused(score_ + "--backend cuda", fake_cuda({}), 64, "no NVIDIA driver");
  expect_refused(score_ + "--backend cuda", fake_cuda({fake_device(0, 0.0)}), 64, "weights take");
}

TEST_F(DeviceProgram, ADeviceThatFillsUpEndsInOneLine) {
  const auto memory = std::make_shared<FakeMemory>();
  memory->limit_bytes = 1;
  const Finished finished = run(score_ + "--backend cuda", fake_cuda({fake_device(0)}, memory));
  EXPECT_EQ(finished.status, 70);
  EXPECT_THAT(finished.err, HasSubstr("kvscope: out of memory: device 0 is full: use a shorter"));
}

TEST_F(DeviceProgram, DoctorListsDevices) {
  const CudaSupport cuda = fake_cuda({fake_device(0), fake_device(1, 100, "driver too old")});
  const Finished text = run("doctor --no-model --model FILE", cuda);
  EXPECT_THAT(text.out,
              HasSubstr("cuda        device 0: Fake 0, compute capability 9.0, 141.0 GiB, "
                        "100.0 GiB free\n"));
  EXPECT_THAT(text.out,
              HasSubstr("cuda        device 1: Fake 1, compute capability 9.0, 141.0 GiB, "
                        "cannot be used: driver too old\n"));
  const json found = json::parse(run("doctor --no-model --model FILE --json", cuda).out);
  EXPECT_EQ(found["cuda"]["devices"].size(), 2U);
  EXPECT_EQ(found["cuda"]["devices"][1]["usable"], false);
  EXPECT_THAT(run("doctor --no-model --model FILE", {}).out,
              HasSubstr("cuda        not there: this program was built without CUDA\n"));
}

TEST_F(DeviceProgram, DoctorHoldsStagesAgainstTheDevice) {
  CudaSupport cuda = fake_cuda({fake_device(0)});
  cuda.measure_limits = [](int) { return CudaLimits{4e12, 5e13, 8e14}; };
  const Finished text = run("doctor --model FILE --backend cuda", cuda);
  EXPECT_THAT(text.out, HasSubstr("measured f32 50000.0 GFLOP/s, bf16 800000.0 GFLOP/s, copy "
                                  "4000.0 GB/s\n"));
}

TEST_F(DeviceProgram, ArmsOfTwoBackendsAreNotComparedSilently) {
  const CudaSupport cuda = fake_cuda({fake_device(0)});
  const std::string sweep =
      "sweep --policies tova --budgets 0.5 --tasks needle:length=300:samples=2 --db DIR/a.db "
      "--model FILE ";
  ASSERT_EQ(run(sweep, cuda).status, 0);
  ASSERT_EQ(run(sweep + "--backend cuda", cuda).status, 0);
  EXPECT_EQ(run("compare full tova@0.5 --db DIR/a.db", cuda).status, 0);  // of the newest sweep
  EXPECT_EQ(run("compare 1 2 --db DIR/a.db", cuda).status, 0);
  expect_refused("compare 2 4 --db DIR/a.db", cuda, 64, "ran on cpu and tova@0.500 on cuda");
  const Finished across = run("compare 2 4 --across-backends --db DIR/a.db", cuda);
  EXPECT_EQ(across.status, 0);
  EXPECT_THAT(across.out, HasSubstr("A: tova@0.500 (arm 2, cpu)\nB: tova@0.500 (arm 4, cuda)\n"));
  const json arms = json::parse(run("list arms --db DIR/a.db --json", cuda).out);
  EXPECT_EQ(arms[0]["backend"], "cuda");
  EXPECT_EQ(arms[3]["backend"], "cpu");
  const json runs = json::parse(run("list runs --db DIR/a.db --json", cuda).out);
  EXPECT_GT(runs[0]["device_memory"]["peak_bytes"], 0);
  EXPECT_TRUE(runs[1]["device_memory"].is_null());
}

TEST_F(DeviceProgram, BenchGpuChecksADeviceAgainstTheCpu) {
  const CudaSupport cuda = fake_cuda({fake_device(0)});
  const Finished finished = run("bench gpu --tiny --threads 1 --json --out DIR/gpu.json", cuda);
  EXPECT_EQ(finished.status, 0) << finished.err;
  const json found = json::parse(finished.out);
  EXPECT_EQ(found["agrees"], true);
  EXPECT_EQ(found["agreement"].size(), 2U * 4U * 4U);  // models × works × arms
  EXPECT_EQ(found["speed"]["memory"]["agree"], true);
  EXPECT_GT(found["speed"]["memory"]["device"]["peak_bytes"], 0);
  json written;
  std::ifstream(folder_.path / "gpu.json") >> written;
  EXPECT_EQ(written, found);
  const Finished text = run("bench gpu --tiny --threads 1 --no-speed", cuda);
  EXPECT_THAT(text.out, HasSubstr("\nAgrees; "));
}

TEST_F(DeviceProgram, BenchGpuWithoutADeviceChecksNothing) {
  expect_refused("bench gpu", {}, 3, "bench gpu: nothing checked: this program was built without");
  expect_refused("bench gpu", fake_cuda({}), 3, "nothing checked: no NVIDIA driver");
  expect_refused("bench gpu --tiny", fake_cuda({fake_device(0, 1, "too old")}), 3,
                 "nothing checked: Fake 0: too old");
  expect_refused("bench gpu --device 3", fake_cuda({fake_device(0)}), 64, "no such device");
  expect_refused("bench gpu --out DIR/absent/a.json", fake_cuda({fake_device(0)}), 74, "absent");
}

TEST_F(DeviceProgram, BenchGpuFindsAWrongBackend) {
  // Adds the values of the first two dimensions of each attention row: a slip of an index.
  class Wrong final : public ForwardingBackend {
   public:
    Wrong() : ForwardingBackend(make_cpu_backend(1)) {}
    void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                      const DenseJob& job) override {
      ForwardingBackend::attend_dense(shape, rope, job);
      const std::size_t row = std::size_t(shape.n_heads) * shape.head_dim;
      for (int r = job.n_known; r < job.n_rows; ++r) job.out[r * row] += job.out[r * row + 1];
    }
  };
  CudaSupport cuda = fake_cuda({fake_device(0)});
  cuda.open = [](const CudaOptions&) { return std::make_unique<Wrong>(); };
  const Finished finished = run("bench gpu --tiny --threads 1 --no-speed", cuda);
  EXPECT_EQ(finished.status, 1);
  EXPECT_THAT(finished.out, HasSubstr("DIFFERS: mean NLL"));
}

}  // namespace
}  // namespace kvscope::testing
