#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "tests/harness/commands/program.h"

namespace kvscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Inspect : public testing::ProgramTest {};

std::string reference(const std::string& name) {
  return "'" KVSCOPE_SOURCE_DIR "/tests/reference/models/" + name + "'";
}

TEST_F(Inspect, TellsAGgufFile) {
  write_model();
  const auto run = kvscope("inspect tiny.gguf --json");
  EXPECT_EQ(run.status, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["format"], "GGUF");
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["kv_heads"], 2);
  EXPECT_EQ(json["kv_bytes_per_token"]["f32"], 2 * 2 * 8 * 2 * 4);
  EXPECT_EQ(json["refused"].size(), 0);
  const auto text = kvscope("inspect tiny.gguf");
  EXPECT_THAT(text.out, HasSubstr("4 query, 2 KV, of 8"));
  EXPECT_THAT(text.out, HasSubstr("cpu and cuda"));
}

TEST_F(Inspect, TellsAFolderOfShards) {
  const auto json = nlohmann::json::parse(kvscope("inspect --json " + reference("qwen2")).out);
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["architecture"], "qwen2");
  EXPECT_EQ(json["head_dim"], 4);
  EXPECT_THAT(json["differs"], ElementsAre("QKV biases"));
  EXPECT_EQ(json["types"]["BF16"]["tensors"], 26);
  EXPECT_THAT(std::string(json["computed_on"]), HasSubstr("cpu only"));
}

TEST_F(Inspect, SaysWhatWouldBeRefused) {
  testing::GgufWriter w;
  w.string("general.architecture", "mamba");
  w.write(folder_ / "mamba.gguf");
  const auto run = kvscope("inspect mamba.gguf");
  EXPECT_EQ(run.status, 65);
  EXPECT_THAT(run.out, HasSubstr("architecture 'mamba' is not supported"));
  expect_refused("inspect missing.gguf", 74, "no such model");
}

// A 7B model's file of which only the header is written: nothing else may be read.
TEST_F(Inspect, OfALargeModelReadsItsHeaderOnly) {
  testing::TinyModelShape s;
  s.n_layers = 32;
  s.n_heads = 32;
  s.n_kv_heads = 8;
  s.head_dim = 128;
  s.d_model = 4096;
  s.d_ff = 14336;
  s.n_vocab = 32000;
  testing::GgufWriter w;
  add_llama_keys(w, s);
  testing::add_tiny_tokenizer(w, s.n_vocab);
  std::uint64_t offset = 0;
  const auto add = [&](const std::string& name, std::uint64_t n_in, std::uint64_t n_out) {
    const bool vector = n_out == 0;
    w.tensor_at(name, vector ? std::vector{n_in} : std::vector{n_in, n_out}, vector ? 0 : 8,
                offset);  // F32, Q8_0
    offset += vector ? 4 * n_in : n_in / 32 * 34 * n_out;
  };
  add("token_embd.weight", 4096, 32000);
  for (int layer = 0; layer < 32; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    add(block + "attn_norm.weight", 4096, 0);
    add(block + "attn_q.weight", 4096, 4096);
    add(block + "attn_k.weight", 4096, 1024);
    add(block + "attn_v.weight", 4096, 1024);
    add(block + "attn_output.weight", 4096, 4096);
    add(block + "ffn_norm.weight", 4096, 0);
    add(block + "ffn_gate.weight", 4096, 14336);
    add(block + "ffn_up.weight", 4096, 14336);
    add(block + "ffn_down.weight", 14336, 4096);
  }
  add("output_norm.weight", 4096, 0);
  w.write(folder_ / "large.gguf");
  const auto header = std::filesystem::file_size(folder_ / "large.gguf");
  std::filesystem::resize_file(folder_ / "large.gguf", header + offset);
  const auto run = kvscope("inspect large.gguf --json");
  ASSERT_EQ(run.status, 0) << run.err << run.out;
  EXPECT_GT(nlohmann::json::parse(run.out)["file_bytes"], 7'000'000'000);
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  const double seconds = double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                         1e-6 * double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a sanitizer takes time and memory of its own";
#endif
  EXPECT_LT(seconds, 1.0);
  EXPECT_LT(usage.ru_maxrss, 200 << 10);  // KiB
}

}  // namespace
}  // namespace kvscope
