// Every vector of policy-vectors.json is run by some test: which one stands here.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "runner/conform/vectors.h"

namespace kvscope::conform {
namespace {

struct RunBy {
  std::string_view vectors;  // an id, or the beginning of several
  std::string_view test;     // under tests/, which names it
};

// Beside those that `kvscope conform` runs itself (conform::covered_vectors).
constexpr RunBy kRunElsewhere[] = {
    {"streaming-evict-for-space", "runner/policies/compat_test.cpp"},
    {"h2o-sim-", "runner/policies/compat_test.cpp"},
    {"pyramid-", "runner/policies/scores_vectors_test.cpp"},
    {"adakv-", "runner/policies/scores_vectors_test.cpp"},
    {"minference-", "runner/policies/minference_index_test.cpp"},
    {"kivi-schedule", "runner/cache/kivi_store_test.cpp"},
    {"kivi-quant", "runner/cache/kv_codec_test.cpp"},
    {"kivi-constant-group", "runner/cache/kv_codec_test.cpp"},
    {"int8-sym-per-token", "runner/cache/kv_codec_test.cpp"},
    {"fp8-roundtrip", "runner/cache/kv_codec_test.cpp"},
    {"prefix-cache-vllm", "runner/cache/prefix_cache_test.cpp"},
    {"oracle-", "metrics/oracle/oracle_vectors_test.cpp"},
    {"metrics-regret", "metrics/oracle/oracle_vectors_test.cpp"},
    {"metrics-h2o", "metrics/probes/metrics_vectors_test.cpp"},
    {"metrics-kl", "metrics/probes/metrics_vectors_test.cpp"},
    {"metrics-rebound-events", "metrics/probes/metrics_vectors_test.cpp"},
    {"metrics-hit-nontrivial", "metrics/probes/metrics_vectors_test.cpp"},
    {"metrics-entropy-lse", "metrics/probes/metrics_vectors_test.cpp"},
    {"metrics-output-perturbation", "metrics/probes/metrics_vectors_test.cpp"},
    {"metrics-diagnosis-", "metrics/probes/metrics_vectors_test.cpp"},
    {"ghost-int8", "metrics/probes/metrics_vectors_test.cpp"},
    {"ghost-certified-skip", "metrics/probes/metrics_vectors_test.cpp"},
    {"rope-rerotate", "runner/policies/formula_vectors_test.cpp"},
};

bool is_run(const std::string& id) {
  const auto covered = covered_vectors();
  if (std::count(covered.begin(), covered.end(), id) > 0) return true;
  return std::any_of(std::begin(kRunElsewhere), std::end(kRunElsewhere),
                     [&](const RunBy& by) { return id.starts_with(by.vectors); });
}

TEST(VectorCoverage, none_is_left_out) {
  const auto ids = all_vectors();
  EXPECT_EQ(ids.size(), 75U);
  for (const std::string& id : ids) EXPECT_TRUE(is_run(id)) << id << " is run by no test";
}

TEST(VectorCoverage, the_tests_named_here_name_them) {
  for (const auto& [vectors, test] : kRunElsewhere) {
    const std::string path = std::string(KVSCOPE_SOURCE_DIR) + "/tests/" + std::string(test);
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("\"" + std::string(vectors)), std::string::npos)
        << vectors << " does not stand in " << test;
  }
}

TEST(VectorCoverage, what_is_covered_exists) {
  const auto ids = all_vectors();
  for (const std::string_view id : covered_vectors())
    EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 1) << id;
}

}  // namespace
}  // namespace kvscope::conform
