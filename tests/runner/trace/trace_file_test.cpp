#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

#include "runner/base/error.h"
#include "runner/base/half.h"
#include "runner/base/sha256.h"
#include "runner/trace/trace_reader.h"
#include "runner/trace/trace_recorder.h"
#include "tests/runner/trace/recorded.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;
namespace fs = std::filesystem;

class TraceFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("kvscope_trace_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    facts_.model_name = "tiny \"model\"";
    facts_.model_key = "key";
    facts_.weights_sha256 = "sum";
    facts_.n_layers = 3;
    facts_.n_heads = 4;
    facts_.n_kv_heads = 2;
    facts_.head_dim = 6;
    facts_.layers = {0, 2};
    facts_.n_tokens = 5;
    facts_.prompt_tokens = 3;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t k = 0; k < facts_.layer_floats(); ++k)
        rows_[i].push_back(float(k) * 0.37F - float(i));
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path(const char* name = "a.trace") const { return folder_ / name; }
  void write_trace() {
    TraceWriter writer(path(), facts_, ids_, "text");
    for (const auto& rows : rows_) writer.add_layer(rows);
    writer.finish();
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // As an attacker would: with the right sum at the end.
  void write_with_sum(std::string bytes) const {
    bytes.resize(bytes.size() - kTraceSumBytes);
    std::ofstream(path("b.trace"), std::ios::binary) << bytes + sha256_hex(bytes);
  }
  std::string refusal(const fs::path& file) const {
    try {
      const TraceReader reader(file);
      for (std::size_t i = 0; i < reader.facts().layers.size(); ++i) reader.read_layer(i);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  std::size_t n_files() const {
    return std::size_t(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
  TraceFacts facts_;
  std::vector<std::int32_t> ids_ = {4, 5, 6, 7, 8};
  std::vector<float> rows_[2];
};

TEST_F(TraceFile, ComesBackAsWritten) {
  write_trace();
  EXPECT_EQ(n_files(), 1U);
  const TraceReader reader(path());
  const TraceFacts& facts = reader.facts();
  EXPECT_EQ(facts.model_name, facts_.model_name);
  EXPECT_EQ(facts.layers, facts_.layers);
  EXPECT_EQ(facts.n_layers, 3);
  EXPECT_EQ(facts.n_heads, 4);
  EXPECT_EQ(facts.n_kv_heads, 2);
  EXPECT_EQ(facts.head_dim, 6);
  EXPECT_EQ(facts.prompt_tokens, 3);
  EXPECT_EQ(facts.rope_theta, facts_.rope_theta);
  EXPECT_EQ(reader.text(), "text");
  EXPECT_TRUE(std::ranges::equal(reader.ids(), ids_));
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(reader.read_layer(i), rows_[i]);
  EXPECT_EQ(reader.file_bytes(), std::int64_t(fs::file_size(path())));
}

TEST_F(TraceFile, Bf16HalvesTheRowsAndRoundsThem) {
  facts_.store = DType::kBF16;
  write_trace();
  const auto rows = TraceReader(path()).read_layer(1);
  for (std::size_t k = 0; k < rows.size(); ++k)
    EXPECT_EQ(rows[k], from_bf16_bits(bf16_bits(rows_[1][k])));
}

TEST_F(TraceFile, EveryTruncationIsRefused) {
  write_trace();
  const std::string bytes = read(path());
  for (std::size_t n = 0; n < bytes.size(); n += 29) {
    std::ofstream(path("b.trace"), std::ios::binary) << bytes.substr(0, n);
    EXPECT_NE(refusal(path("b.trace")), "") << n;
  }
  std::ofstream(path("b.trace"), std::ios::binary) << bytes << "x";
  EXPECT_NE(refusal(path("b.trace")), "");
}

TEST_F(TraceFile, EveryChangedByteIsNoticed) {
  write_trace();
  const std::string bytes = read(path());
  for (std::size_t i = 0; i < bytes.size(); i += 37) {
    std::string changed = bytes;
    changed[i] = char(changed[i] ^ 0x21);
    std::ofstream(path("b.trace"), std::ios::binary) << changed;
    EXPECT_NE(refusal(path("b.trace")), "") << i;
  }
}

TEST_F(TraceFile, HeadsThatLieAreRefusedWhateverTheirSum) {
  write_trace();
  const std::string bytes = read(path());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto json_bytes =
        std::uint32_t(std::int64_t(changed.size()) - std::int64_t(bytes.size()));
    std::uint32_t size = 0;
    std::memcpy(&size, changed.data() + 12, 4);
    size += json_bytes;
    std::memcpy(changed.data() + 12, &size, 4);
    return changed;
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"n_heads\":4", "\"n_heads\":0"},
           {"\"n_heads\":4", "\"n_heads\":5"},
           {"\"n_heads\":4", "\"n_heads\":-4"},
           {"\"n_heads\":4", "\"n_heads\":4.0"},
           {"\"n_heads\":4", "\"n_heads\":18446744073709551615"},
           {"\"n_heads\":4", "\"n_heads\":\"4\""},
           {"\"n_heads\":4", "\"heads\":4"},
           {"\"head_dim\":6", "\"head_dim\":7"},
           {"\"head_dim\":6", "\"head_dim\":1000000"},
           {"\"n_tokens\":5", "\"n_tokens\":4294967301"},
           {"\"n_tokens\":5", "\"n_tokens\":16777216"},
           {"\"n_tokens\":5", "\"n_tokens\":2"},
           {"\"prompt_tokens\":3", "\"prompt_tokens\":6"},
           {"\"text_bytes\":4", "\"text_bytes\":-1"},
           {"\"text_bytes\":4", "\"text_bytes\":4294967296"},
           {"\"layers\":[0,2]", "\"layers\":[2,0]"},
           {"\"layers\":[0,2]", "\"layers\":[0,0]"},
           {"\"layers\":[0,2]", "\"layers\":[0,3]"},
           {"\"layers\":[0,2]", "\"layers\":[]"},
           {"\"layers\":[0,2]", "\"layers\":7"},
           {"\"store\":\"f32\"", "\"store\":\"f16\""},
           {"\"rope_theta\":10000.0", "\"rope_theta\":0"},
           {"\"rope_theta\":10000.0", "\"rope_theta\":1e999"},
           {"{\"model_name\"", "[[[[\"model_name\""}}) {
    write_with_sum(replaced(from, to));
    const std::string said = refusal(path("b.trace"));
    EXPECT_NE(said.find("b.trace"), std::string::npos) << to;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 0) << said;
  }
  std::string huge = bytes;
  std::memset(huge.data() + 12, 0xff, 4);
  write_with_sum(huge);
  EXPECT_NE(refusal(path("b.trace")).find("cut off"), std::string::npos);
  std::string version = bytes;
  version[8] = 9;
  write_with_sum(version);
  EXPECT_NE(refusal(path("b.trace")).find("version 9"), std::string::npos);
  std::string nan = bytes;
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(nan.data() + nan.size() - kTraceSumBytes - 8, &bad, 4);
  write_with_sum(nan);
  EXPECT_NE(refusal(path("b.trace")).find("layer 2"), std::string::npos);
}

TEST_F(TraceFile, WhatIsNotFinishedLeavesNothing) {
  {
    TraceWriter writer(path(), facts_, ids_);
    writer.add_layer(rows_[0]);
    EXPECT_EQ(n_files(), 1U);
  }
  EXPECT_EQ(n_files(), 0U);
  rows_[1][7] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(write_trace(), DataError);
  EXPECT_EQ(n_files(), 0U);
  EXPECT_THROW(TraceWriter(folder_ / "no" / "such" / "folder", facts_, ids_), IoError);
}

TEST_F(TraceFile, NoRoomIsFoundBeforeTheRun) {
  // A limit on file size stands for a full disk: both end the reservation.
  rlimit former{};
  ::getrlimit(RLIMIT_FSIZE, &former);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1024, former.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string said;
  try {
    const TraceWriter writer(path(), facts_, ids_);
  } catch (const IoError& error) {
    said = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &former);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(said.find("a.trace"), std::string::npos) << said;
  EXPECT_EQ(n_files(), 0U);
}

TEST_F(TraceFile, RecordsTheChosenLayersOfARun) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(33);
  const Recorded all = record_all_layers(tiny, ids, 0);
  TraceFacts facts = facts_of(tiny.model);
  facts.n_tokens = 33;
  facts.layers = {facts.n_layers - 1};
  int n_layers = 0;
  ASSERT_TRUE(record_trace(tiny.engine, facts, ids, "", path(), {}, [&](int n) { n_layers += n; }));
  EXPECT_EQ(n_layers, facts.n_layers);
  const TraceReader reader(path());
  EXPECT_EQ(reader.facts().model_key, tiny.model.key());
  EXPECT_TRUE(std::ranges::equal(reader.ids(), ids));
  expect_same_bits(reader.read_layer(0), all.layers.back(), "rows");
  EXPECT_FALSE(record_trace(tiny.engine, facts, ids, "", path("b.trace"), [] { return true; }));
  EXPECT_EQ(n_files(), 1U);
}

TEST(SampledLayers, AreTheEndsAndTheQuarters) {
  EXPECT_EQ(sampled_layers(30), (std::vector<int>{0, 7, 15, 22, 29}));
  EXPECT_EQ(sampled_layers(1), (std::vector<int>{0}));
  EXPECT_EQ(sampled_layers(2), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace kvscope
