// SmolLM2's ids as another implementation computed them, exact.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "runner/base/sha256.h"
#include "runner/model/gguf_model.h"
#include "runner/tokenizer/load.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;
const std::filesystem::path kShared = KVSCOPE_SHARED_DIR;

std::filesystem::path model_path() {
  if (const char* path = std::getenv("KVSCOPE_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) /
         ".cache/kvscope/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class Smollm2Reference : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path())) {
      GTEST_SKIP() << "no model at " << model_path() << "; run scripts/fetch-model";
    }
    if (!std::filesystem::exists(kShared / "reference/tokenizer")) {
      GTEST_SKIP() << "no reference numbers at " << kShared;
    }
    file_ = GgufFile::open(model_path());
    tokenizer_ = load_tokenizer(*file_);
  }

  std::shared_ptr<const GgufFile> file_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Smollm2Reference, EveryText) {
  std::ifstream lines(kShared / "reference/tokenizer/smollm2.jsonl");
  int n_lines = 0;
  for (std::string line; std::getline(lines, line); ++n_lines) {
    const Json row = Json::parse(line);
    const auto text = row["text"].get<std::string>();
    const Ids ids = tokenizer_->encode(text, SpecialTokens::kParse);
    ASSERT_EQ(ids, row["ids"].get<Ids>()) << row["text"];
    if (row["round_trip"].get<bool>()) {
      ASSERT_EQ(tokenizer_->decode(ids), text);
    }
  }
  EXPECT_EQ(n_lines, 2384);
}

TEST_F(Smollm2Reference, WholeFiles) {
  std::ifstream in(kShared / "reference/tokenizer/smollm2_files.json");
  const Json files = Json::parse(in);
  EXPECT_EQ(files.size(), 4U);
  for (const auto& [name, expected] : files.items()) {
    std::ifstream book(kShared / "data" / name, std::ios::binary);
    ASSERT_TRUE(book) << name;
    std::stringstream text;
    text << book.rdbuf();
    const Ids ids = tokenizer_->encode(text.str(), SpecialTokens::kParse);
    EXPECT_EQ(ids.size(), expected["tokens"].get<std::size_t>()) << name;
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(ids))), expected["sha256_of_le_int32_ids"])
        << name;
  }
}

TEST_F(Smollm2Reference, ModelFile) {
  const auto model = open_gguf_model(file_);
  const ModelConfig& c = model->config();
  EXPECT_EQ(c.n_layers, 30);
  EXPECT_EQ(c.n_heads, 9);
  EXPECT_EQ(c.n_kv_heads, 3);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.d_model, 576);
  EXPECT_EQ(c.d_ff, 1536);
  EXPECT_EQ(c.n_vocab, 49152);
  EXPECT_EQ(c.context_length, 8192);
  EXPECT_EQ(c.rope_theta, 100000.0);
  EXPECT_EQ(c.rms_eps, 1e-5F);
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(tokenizer_->n_vocab(), c.n_vocab);
  EXPECT_EQ(tokenizer_->eos(), tokenizer_->id_of_special("<|im_end|>"));
  EXPECT_FALSE(tokenizer_->adds_bos());
  EXPECT_EQ(model->sha256(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  EXPECT_EQ(model->read("token_embd.weight", c.n_vocab, c.d_model).size(), 49152U * 576U);
}

}  // namespace
}  // namespace kvscope
