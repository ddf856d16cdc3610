// Scores that the published scorers gave (SQuAD v2, LongBench, HotpotQA, lost-in-the-middle, RULER,
// InfiniteBench, BABILong, L-Eval, CMRC).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metrics/quality/chinese_words.h"
#include "metrics/quality/scorers.h"

namespace kvscope {
namespace {

using nlohmann::json;

std::vector<json> vectors(bool with_words) {
  std::ifstream file(KVSCOPE_SOURCE_DIR "/tests/metrics/quality/metric_vectors.jsonl");
  std::vector<json> chosen;
  for (std::string line; std::getline(file, line);) {
    json vector = json::parse(line);
    if (scorer_named(vector["metric"].get<std::string>()).needs_words == with_words) {
      chosen.push_back(std::move(vector));
    }
  }
  return chosen;
}

void expect_upstream_score(const json& vector, const ChineseWords* words) {
  const ScorerInfo& info = scorer_named(vector["metric"].get<std::string>());
  const auto pred = vector["pred"].get<std::string>();
  const auto golds = vector["ref"].is_array()
                         ? vector["ref"].get<std::vector<std::string>>()
                         : std::vector<std::string>{vector["ref"].get<std::string>()};
  const auto classes = vector.value("all_classes", std::vector<std::string>());
  const auto question = vector.value("question", std::string());
  const double score = info.score({pred, golds, classes, question, words});
  const double expected = vector["score"].is_boolean() ? double(vector["score"].get<bool>())
                                                       : vector["score"].get<double>();
  // Doubles of the same operations in the same order.
  EXPECT_DOUBLE_EQ(upstream_value(info, score), expected) << vector.dump();
}

TEST(QualityVectors, equal_the_published_scorers) {
  std::map<std::string, int> checked;
  for (const json& vector : vectors(false)) {
    expect_upstream_score(vector, nullptr);
    ++checked[vector["metric"].get<std::string>()];
  }
  const std::map<std::string, int> expected = {
      {"babilong.qa1", 4},
      {"cmrc.em", 7},
      {"cmrc.f1", 7},
      {"hotpot.em", 16},
      {"hotpot.f1", 16},
      {"infinitebench.kv_retrieval", 3},
      {"infinitebench.longbook_choice", 6},
      {"infinitebench.passkey", 5},
      {"infinitebench.qa_f1_zh(char)", 7},
      {"leval.exam_em", 5},
      {"litm.best_subspan_em", 16},
      {"longbench.classification", 5},
      {"longbench.code_sim", 7},
      {"longbench.count", 4},
      {"longbench.qa_f1", 16},
      {"longbench.retrieval", 4},
      {"longbench.retrieval_zh", 2},
      {"longbench.rouge(pltrdy)", 9},
      {"ruler.string_match_all", 5},
      {"ruler.string_match_part", 5},
      {"squad.em", 16},
      {"squad.f1", 16},
  };
  EXPECT_EQ(checked, expected);
}

TEST(QualityVectors, equal_longbench_over_jiebas_words) {
  const auto folder = ChineseWords::installed_folder();
  if (!folder) GTEST_SKIP() << "no jieba dictionary: install python3-jieba or set KVSCOPE_JIEBA";
  const ChineseWords words(*folder);
  ASSERT_TRUE(words.has_model());
  const auto chosen = vectors(true);
  EXPECT_EQ(chosen.size(), 14U);
  for (const json& vector : chosen) expect_upstream_score(vector, &words);
}

}  // namespace
}  // namespace kvscope
