// A tiny random model, a text, and whole sweeps over them.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "harness/commands/sweep_run.h"
#include "harness/store/database.h"
#include "harness/store/queries.h"
#include "harness/store/statement.h"
#include "tests/harness/store/store_fixture.h"
#include "tests/runner/model/gguf_writer.h"

namespace kvscope::testing {

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_tiny_model(folder_.path / "tiny.gguf");
    std::ofstream text(folder_.path / "text.txt");
    for (int i = 0; i < 200; ++i)
      text << "The cat " << i << " sat on the mat and saw " << i * 7 % 13 << " rats. ";
  }

  SweepOptions options(const std::string& database, const std::string& policies,
                       const std::string& budgets, const std::string& tasks) const {
    SweepOptions o;
    o.model.file = (folder_.path / "tiny.gguf").string();
    o.model.threads = 1;
    o.arms = {policies, budgets, ""};
    o.tasks = tasks;
    o.database = (folder_.path / database).string();
    o.files.text = folder_.path / "text.txt";
    o.probe = "all";
    o.json = true;
    return o;
  }

  // Runs with stdout kept; the exit code goes to `code`.
  static std::string run(const SweepOptions& o, ExitCode wanted = ExitCode::kOk,
                         const CudaSupport& cuda = {}) {
    std::ostringstream out;
    std::streambuf* before = std::cout.rdbuf(out.rdbuf());
    ExitCode code = ExitCode::kInternal;
    try {
      code = run_sweep(o, cuda);
    } catch (...) {
      std::cout.rdbuf(before);
      throw;
    }
    std::cout.rdbuf(before);
    EXPECT_EQ(code, wanted);
    return out.str();
  }

  Store read(const std::string& database) const {
    return Store::open(folder_.path / database, StoreAccess::kReadOnly);
  }

  // Everything of an arm that must be reproducible, as text.
  static std::string fingerprint(Store& store, const std::string& label, bool with_probes = true) {
    const ArmRow arm = find_arm(store, label);
    std::ostringstream out;
    out << std::hexfloat;
    for (const ResultRow& row : arm_results(store, arm.arm_id)) {
      out << row.task << ' ' << row.sample_key << ' ' << row.status << ' ' << row.mode_run << ' '
          << row.output_text;
      for (const auto& [name, value] : row.metrics) {
        const bool probe = name.starts_with("rebound") || name.starts_with("hit_") ||
                           name.starts_with("mass_hit") || name.starts_with("ghost_");
        if (with_probes || !probe) out << ' ' << name << '=' << value;
      }
      out << '\n';
    }
    Statement traces(
        store.database(),
        "SELECT sample_key,hex(nll_nats),hex(kl_full_nats) FROM token_trace JOIN sample "
        "USING(sample_id) WHERE arm_id=? ORDER BY sample_key");
    traces.bind(arm.arm_id);
    while (traces.step())
      out << traces.text(0) << ' ' << traces.text(1) << ' ' << traces.text(2) << '\n';
    return out.str();
  }

  TempFolder folder_;
};

}  // namespace kvscope::testing
