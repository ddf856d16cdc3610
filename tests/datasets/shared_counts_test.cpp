// Real files: every one loads, with the counts that its description states.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "datasets/questions/inspect.h"

namespace kvscope {
namespace {

struct Expected {
  const char* path;
  const char* format;
  std::size_t samples;
  std::size_t documents;
};

class SharedFiles : public testing::TestWithParam<Expected> {};

TEST_P(SharedFiles, have_the_counts_that_are_stated) {
  const Expected& expected = GetParam();
  const std::filesystem::path path =
      std::filesystem::path(KVSCOPE_SHARED_DIR) / "data" / expected.path;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Inspection found = inspect_questions(path, nullptr, {});
  EXPECT_EQ(found.format, expected.format);
  EXPECT_EQ(found.samples, expected.samples);
  EXPECT_EQ(found.documents, expected.documents);
  EXPECT_EQ(found.skipped.size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedFiles,
    testing::Values(
        Expected{"qa/xquad/xquad.en.json", "squad", 1190, 240},
        Expected{"qa/xquad/xquad.zh.json", "squad", 1190, 240},
        Expected{"qa/xquad/xquad_en_articles.leval.jsonl", "leval", 1190, 48},
        Expected{"qa/xquad/xquad_zh_articles.leval.jsonl", "leval", 1190, 48},
        Expected{"qa/xquad/xquad_en_multidoc_4k.longbench.jsonl", "longbench", 144, 144},
        Expected{"qa/xquad/xquad_en_multidoc_8k.longbench.jsonl", "longbench", 96, 96},
        Expected{"qa/xquad/xquad_zh_multidoc_4k.longbench.jsonl", "longbench", 144, 106},
        Expected{"qa/cmrc2018/cmrc2018_dev.json", "cmrc2018", 3219, 848},
        Expected{"qa/bamboo/altqa_4k.jsonl", "bamboo", 200, 97},
        Expected{"qa/bamboo/meetingqa_4k.jsonl", "bamboo", 100, 32},
        Expected{"qa/bamboo/paperqa_4k.jsonl", "bamboo", 100, 25},
        Expected{"qa/leval/quality.jsonl", "leval", 202, 15},
        Expected{"qa/leval/scientific_qa.jsonl", "leval", 184, 23},
        Expected{"qa/leval/gov_report_summ.jsonl", "leval", 14, 14},
        Expected{"qa/qasper/qasper_sample_small.json", "qasper", 4, 1},
        Expected{"qa/lost_in_the_middle/nq-open-oracle.jsonl.gz", "lost_in_the_middle_qa", 2655,
                 2600},
        Expected{"qa/lost_in_the_middle/kv-retrieval-75_keys.first20.jsonl",
                 "lost_in_the_middle_kv", 20, 20},
        Expected{"haystack/emerson_essays", "niah_haystack", 0, 21},
        Expected{"ppl/books/austen_emma.txt", "text", 0, 1}),
    [](const auto& info) {
      std::string name = info.param.path;
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

}  // namespace
}  // namespace kvscope
