// With the real tokenizer: prompts that the reference has as ids, and the token counts of the
// books.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/chat/chat_template.h"
#include "datasets/needle/key_value_retrieval.h"
#include "datasets/needle/needle.h"
#include "datasets/needle/niah.h"
#include "datasets/needle/ruler_synthetic.h"
#include "datasets/qa/facts.h"
#include "datasets/questions/load_questions.h"
#include "datasets/text/text_file.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/load.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

fs::path model_path() {
  if (const char* path = std::getenv("KVSCOPE_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return fs::path(home ? home : "") / ".cache/kvscope/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class RealTokenizer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(model_path())) {
      GTEST_SKIP() << "no model at " << model_path()
                   << ": run scripts/fetch-model or set KVSCOPE_MODEL";
    }
    tokenizer_ = load_tokenizer(*GgufFile::open(model_path()));
  }
  std::string question(const Sample& sample) const {
    const std::span<const std::int32_t> ids(sample.prompt_ids);
    return tokenizer_->decode(ids.subspan(static_cast<std::size_t>(sample.question_begin)));
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(RealTokenizer, renders_the_prompts_of_the_reference) {
  const fs::path file = fs::path(KVSCOPE_SHARED_DIR) / "reference/needle.json";
  if (!fs::exists(file)) GTEST_SKIP() << file << " is missing";
  const auto samples = nlohmann::json::parse(std::ifstream(file))["samples"];
  const ChatTemplate chat = chat_for(*tokenizer_);
  const std::string header = "<|im_start|>user\n";
  const std::string assistant = "<|im_start|>assistant\n";
  int checked = 0;
  for (const auto& sample : samples) {
    const auto prompt = sample["prompt_ids"].get<Ids>();
    const auto prefix = sample["prefix_ids"].get<Ids>();
    const std::string text = tokenizer_->decode(prompt);
    const std::string start = tokenizer_->decode(prefix);
    EXPECT_EQ(chat.render_user(text.substr(text.find(header) + header.size())), prompt);
    EXPECT_EQ(chat.assistant_header(start.substr(start.find(assistant) + assistant.size())),
              prefix);
    ++checked;
  }
  EXPECT_EQ(checked, 16);
}

TEST_F(RealTokenizer, fills_needle_prompts_to_a_few_tokens) {
  NeedleOptions options;
  options.lengths = {512, 1024};
  for (const Sample& sample : make_needle(options, *tokenizer_).samples) {
    const auto length = static_cast<std::size_t>(std::stoi(sample.tags.at("length")));
    EXPECT_LE(sample.prompt_ids.size(), length);
    // A word of the noise is one or two tokens.
    EXPECT_GE(sample.prompt_ids.size() + 2, length);
    ASSERT_GE(sample.evidence_begin, 0);
    const std::span<const std::int32_t> ids(sample.prompt_ids);
    const std::string evidence = tokenizer_->decode(
        ids.subspan(static_cast<std::size_t>(sample.evidence_begin),
                    static_cast<std::size_t>(sample.evidence_end - sample.evidence_begin)));
    EXPECT_NE(evidence.find(sample.golds[0] + "."), std::string::npos) << evidence;
    EXPECT_EQ(question(sample).find("What is the special magic number for "), 0U);
    // Each digit is a token of this tokenizer; a space before them is another.
    EXPECT_EQ(sample.gold_ids.size(), 6U);
  }
}

TEST_F(RealTokenizer, fills_generated_prompts_to_the_token) {
  GeneratedOptions options;
  options.lengths = {512, 1023};
  options.samples_per_length = 5;
  std::vector<Dataset> all = {make_passkey(options, *tokenizer_),
                              make_frequent_words(options, *tokenizer_),
                              make_key_value_retrieval(PairStyle::kUuid, options, *tokenizer_),
                              make_key_value_retrieval(PairStyle::kShort, options, *tokenizer_),
                              make_variable_tracking({}, options, *tokenizer_),
                              make_common_words({.common = 5}, options, *tokenizer_)};
  for (const NiahKind& kind : niah_kinds()) {
    if (kind.haystack != NiahHaystack::kText) all.push_back(make_niah(kind, options, *tokenizer_));
  }
  for (const Dataset& data : all) {
    for (const Sample& sample : data.samples) {
      EXPECT_EQ(std::to_string(sample.prompt_ids.size()), sample.tags.at("length")) << sample.key;
    }
  }
}

TEST_F(RealTokenizer, qa_documents_have_about_1040_tokens) {
  const Dataset data = make_qa({}, *tokenizer_);
  for (const Sample& sample : data.samples) {
    EXPECT_GE(sample.prompt_ids.size(), 1000U);
    EXPECT_LE(sample.prompt_ids.size(), 1080U);
    EXPECT_LE(sample.gold_ids.size(), 4U);
    EXPECT_EQ(question(sample).find('\n'), std::string::npos);  // no token spans the boundary
  }
}

TEST_F(RealTokenizer, loads_xquad_with_every_answer_in_its_place) {
  const fs::path file = fs::path(KVSCOPE_SHARED_DIR) / "data/qa/xquad/xquad.en.json";
  if (!fs::exists(file)) GTEST_SKIP() << file << " is missing";
  const Dataset data = load_questions(file, {}, *tokenizer_);
  EXPECT_EQ(data.samples.size(), 1190U);
  for (const Sample& sample : data.samples) {
    EXPECT_GE(sample.evidence_begin, 0) << sample.key;
    EXPECT_EQ(question(sample).find("Answer the question with"), 0U) << sample.key;
  }
}

TEST_F(RealTokenizer, counts_the_tokens_of_the_prepared_books) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path folder =
      (cache && *cache ? fs::path(cache) : fs::path(home ? home : "") / ".cache") / "kvscope/texts";
  if (!fs::exists(folder / "opticks.txt")) GTEST_SKIP() << "no books: run scripts/prepare-texts";
  const auto tokens = [&](const char* name) {
    return tokenizer_->encode(read_text_file(folder / name), SpecialTokens::kAsText).size();
  };
  EXPECT_EQ(tokens("sherlock_holmes.txt"), 136947U);
  EXPECT_EQ(tokens("tom_sawyer.txt"), 97654U);
  EXPECT_EQ(tokens("opticks.txt"), 134072U);
}

}  // namespace
}  // namespace kvscope
