// What kvscope doctor prints; how fast anything is, is not looked at.
#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using Doctor = ProgramTest;

std::vector<std::string> keys(const json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;  // sorted
}

TEST_F(Doctor, HelpHasAnExample) {
  const Finished help = kvscope("doctor --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("Example"), std::string::npos);
  EXPECT_NE(kvscope("--help").out.find("doctor"), std::string::npos);
}

TEST_F(Doctor, JsonOfAModel) {
  write_model();
  const Finished run = kvscope("doctor --model tiny.gguf --threads 2 --dtype bf16 --json");
  ASSERT_EQ(run.status, 0) << run.err;
  const json found = json::parse(run.out);
  EXPECT_EQ(keys(found),
            (std::vector<std::string>{"backend", "cuda", "huge_pages", "libraries", "limits",
                                      "load_average", "model", "notes", "phases", "processor",
                                      "threads", "vector_target", "version"}));
  EXPECT_EQ(found["threads"], 2);
  EXPECT_EQ(keys(found["libraries"]), (std::vector<std::string>{"Highway", "SQLite", "oneDNN"}));
  EXPECT_EQ(keys(found["limits"]),
            (std::vector<std::string>{"bf16_flops_per_second", "f32_flops_per_second",
                                      "read_bytes_per_second"}));
  EXPECT_GT(found["limits"]["f32_flops_per_second"].get<double>(), 0);
  EXPECT_EQ(found["model"]["present"], true);
  EXPECT_EQ(found["model"]["dtype"], "bf16");
  ASSERT_EQ(found["phases"].size(), 3U);
  EXPECT_EQ(found["phases"][0]["phase"], "prefill");
  EXPECT_EQ(found["phases"][2]["phase"], "decode");
  EXPECT_EQ(found["phases"][2]["rows"], 32);
  EXPECT_EQ(found["phases"][2]["steps"], 16);
  for (const json& phase : found["phases"]) {
    EXPECT_GT(phase["tokens_per_second"].get<double>(), 0);
    for (const json& stage : phase["stages"]) {
      EXPECT_EQ(keys(stage), (std::vector<std::string>{"bytes", "bytes_per_second", "calls",
                                                       "compute_share", "flops", "flops_per_second",
                                                       "memory_share", "seconds", "stage"}));
      EXPECT_GT(stage["calls"].get<int>(), 0);
      EXPECT_TRUE(stage["memory_share"].is_number());
    }
  }
}

TEST_F(Doctor, WithoutAModelOnlyTheMachine) {
  const Finished absent = kvscope("doctor");  // no default model is to be found
  EXPECT_EQ(absent.status, 0) << absent.err;
  EXPECT_NE(absent.out.find("run scripts/fetch-model"), std::string::npos) << absent.out;
  EXPECT_NE(absent.out.find("GFLOP/s"), std::string::npos);
  EXPECT_EQ(absent.out.find("prefill"), std::string::npos);

  write_model();
  const json skipped = json::parse(kvscope("doctor --model tiny.gguf --no-model --json").out);
  EXPECT_EQ(skipped["model"]["present"], true);
  EXPECT_TRUE(skipped["phases"].empty());
}

TEST_F(Doctor, TextHasOneTableAPhase) {
  write_model();
  const Finished run = kvscope("doctor --model tiny.gguf");
  EXPECT_EQ(run.status, 0) << run.err;
  for (const char* part : {"prefill of 496 tokens: ", "16 decode steps of 1 row: ",
                           "16 decode steps of 32 rows: ", "of compute", "of memory", "gate_up"}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << part << "\n" << run.out;
  }
}

TEST_F(Doctor, AModelThatWasNamedMustBeThere) {
  expect_refused("doctor --model absent.gguf", 74, "absent.gguf");
  expect_refused("doctor --no-model --model absent.gguf", 74, "absent.gguf");
}

}  // namespace
}  // namespace kvscope::testing
