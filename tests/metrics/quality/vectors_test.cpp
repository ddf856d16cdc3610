// Scores that the published scorers gave (SQuAD v2, LongBench, HotpotQA, lost-in-the-middle,
// RULER).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metrics/quality/contains.h"
#include "metrics/quality/exact_match.h"
#include "metrics/quality/token_f1.h"

namespace kvscope {
namespace {

using Golds = std::vector<std::string>;
using Scorer = std::function<double(const std::string&, const Golds&)>;

TEST(QualityVectors, equal_the_published_scorers) {
  const std::map<std::string, Scorer> scorers = {
      {"squad.em", [](const std::string& a, const Golds& g) { return exact_match(a, g); }},
      {"hotpot.em", [](const std::string& a, const Golds& g) { return exact_match(a, g); }},
      {"squad.f1",
       [](const std::string& a, const Golds& g) { return token_f1(a, g, F1Rule::kSquad); }},
      {"longbench.qa_f1",
       [](const std::string& a, const Golds& g) { return token_f1(a, g, F1Rule::kLongBench); }},
      {"hotpot.f1",
       [](const std::string& a, const Golds& g) { return token_f1(a, g, F1Rule::kHotpotQa); }},
      {"litm.best_subspan_em",
       [](const std::string& a, const Golds& g) { return contains_normalized(a, g); }},
      {"ruler.string_match_all",
       [](const std::string& a, const Golds& g) {
         return std::round(10000 * share_contained(a, g)) / 100;
       }},
      {"ruler.string_match_part",
       [](const std::string& a, const Golds& g) { return 100 * any_contained(a, g); }},
  };
  std::ifstream file(KVSCOPE_SOURCE_DIR "/tests/metrics/quality/metric_vectors.jsonl");
  std::map<std::string, int> checked;
  for (std::string line; std::getline(file, line);) {
    const auto vector = nlohmann::json::parse(line);
    const auto name = vector["metric"].get<std::string>();
    const Golds golds = vector["ref"].is_array() ? vector["ref"].get<Golds>()
                                                 : Golds{vector["ref"].get<std::string>()};
    // Doubles of the same operations in the same order.
    EXPECT_DOUBLE_EQ(scorers.at(name)(vector["pred"].get<std::string>(), golds),
                     vector["score"].get<double>())
        << line;
    ++checked[name];
  }
  const std::map<std::string, int> expected = {{"hotpot.em", 16},
                                               {"hotpot.f1", 16},
                                               {"litm.best_subspan_em", 16},
                                               {"longbench.qa_f1", 16},
                                               {"ruler.string_match_all", 5},
                                               {"ruler.string_match_part", 5},
                                               {"squad.em", 16},
                                               {"squad.f1", 16}};
  EXPECT_EQ(checked, expected);
}

}  // namespace
}  // namespace kvscope
