#include "runner/model/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "runner/base/sha256.h"
#include "tests/runner/model/gguf_writer.h"
#include "tests/runner/model/memory_gguf.h"

namespace kvscope {
namespace {

using testing::add_llama_keys;
using testing::add_llama_tensors;
using testing::add_tiny_tokenizer;
using testing::data_error;
using ::testing::EndsWith;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::memory_gguf;
using testing::TinyModelShape;

// Keys that a case adds or leaves out, with the tensors of `shape`.
std::string model_error(const std::function<void(GgufWriter&)>& write) {
  GgufWriter writer;
  write(writer);
  const auto file = memory_gguf(writer.bytes());
  return data_error([&] { open_gguf_model(file); });
}

std::string error_with(const std::function<void(GgufWriter&)>& add, TinyModelShape shape = {}) {
  return model_error([&](GgufWriter& w) {
    add_llama_keys(w, shape);
    add_llama_tensors(w, shape, 1);
    add(w);
  });
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path(std::filesystem::path(::testing::TempDir()) / ("kvscope_gguf_model_" + name)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  const std::filesystem::path path;
};

TEST(GgufModel, ReadsTheTinyModelsConfiguration) {
  const TemporaryFile file("tiny.gguf");
  const auto model = open_gguf_model(testing::write_tiny_model(file.path));
  const ModelConfig& c = model->config();
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.name, "tiny");
  EXPECT_EQ(c.n_layers, 2);
  EXPECT_EQ(c.n_heads, 4);
  EXPECT_EQ(c.n_kv_heads, 2);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.d_model, 32);
  EXPECT_EQ(c.d_ff, 48);
  EXPECT_EQ(c.n_vocab, 320);
  EXPECT_EQ(c.context_length, 512);
  EXPECT_EQ(c.rms_eps, 1e-5F);
  EXPECT_EQ(c.rope_theta, 10000.0);
  EXPECT_TRUE(c.tied_head);
  EXPECT_TRUE(model->has("blk.1.ffn_up.weight"));
  EXPECT_FALSE(model->has("output.weight"));
  EXPECT_EQ(model->sha256(), sha256_file_hex(file.path));
}

TEST(GgufModel, ReadsTensorsOutputMajor) {
  TinyModelShape shape;
  shape.tied_head = false;
  GgufWriter w;
  add_llama_keys(w, shape);
  add_llama_tensors(w, shape, 5);
  const auto file = memory_gguf(w.bytes());
  const auto model = open_gguf_model(file);
  EXPECT_FALSE(model->config().tied_head);
  const auto gate = model->read("blk.0.ffn_gate.weight", 48, 32);
  ASSERT_EQ(gate.size(), 48U * 32U);
  const GgufTensor* stored = file->tensor("blk.0.ffn_gate.weight");
  std::vector<float> raw(gate.size());
  std::memcpy(raw.data(), stored->data.data(), stored->data.size());
  EXPECT_EQ(gate, raw);
  EXPECT_EQ(model->read("output_norm.weight", 1, 32).size(), 32U);
  EXPECT_EQ(data_error([&] { model->read("blk.0.ffn_gate.weight", 32, 48); }),
            "m.gguf: tensor 'blk.0.ffn_gate.weight' has shape [32, 48], not [48, 32]; the file "
            "contradicts itself, convert the model again");
  EXPECT_THAT(data_error([&] { model->read("blk.9.ffn_gate.weight", 48, 32); }),
              HasSubstr("tensor 'blk.9.ffn_gate.weight' is missing"));
}

TEST(GgufModel, ConfigurationFollowsOptionalKeys) {
  const TinyModelShape s;
  GgufWriter
      w;  // no key_length, head_count_kv, freq_base, name; 4 heads of 8 follow from the width
  w.string("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u64("llama.context_length", 64)
      .u32("llama.embedding_length", 32)
      .u32("llama.feed_forward_length", 48)
      .u32("llama.attention.head_count", 4)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-6F)
      .string("llama.rope.scaling.type", "none");
  TinyModelShape tensors = s;
  tensors.n_layers = 1;
  tensors.n_kv_heads = 4;
  add_llama_tensors(w, tensors, 1);
  const auto model = open_gguf_model(memory_gguf(w.bytes()));
  EXPECT_EQ(model->config().name, "m");
  EXPECT_EQ(model->config().n_kv_heads, 4);
  EXPECT_EQ(model->config().head_dim, 8);
  EXPECT_EQ(model->config().rms_eps, 1e-6F);
  EXPECT_EQ(model->config().rope_theta, 10000.0);
}

TEST(GgufModel, RefusesOtherArchitectures) {
  EXPECT_EQ(
      model_error([](GgufWriter& w) { w.string("general.architecture", "mamba"); }),
      "m.gguf: architecture 'mamba' is not supported; use a model of llama, qwen2, qwen3, phi3, "
      "gemma3, gptneox");
  EXPECT_THAT(model_error([](GgufWriter&) {}), HasSubstr("'general.architecture' is missing"));
}

TEST(GgufModel, RefusesWhatTheForwardPassDoesNotHave) {
  const auto nothing = [](GgufWriter&) {};
  ASSERT_EQ(error_with(nothing), "no error");
  EXPECT_THAT(error_with([](GgufWriter& w) { w.string("llama.rope.scaling.type", "longrope"); }),
              HasSubstr("RoPE scaling 'longrope' is not supported"));
  EXPECT_THAT(error_with([](GgufWriter& w) { w.f32("llama.rope.scaling.factor", -4.0F); }),
              HasSubstr("not a positive number"));
  EXPECT_THAT(error_with([](GgufWriter& w) {
                w.tensor("rope_freqs.weight", {3}, std::vector<float>(3, 1.0F));
              }),
              HasSubstr("not one float a pair"));
  EXPECT_THAT(error_with([](GgufWriter& w) {
                w.tensor("rope_freqs.weight", {4}, std::vector<float>(4, 0.0F));
              }),
              HasSubstr("a factor that is not positive"));
  EXPECT_EQ(error_with([](GgufWriter& w) { w.f32("llama.rope.scale_linear", 4.0F); }), "no error");
  EXPECT_EQ(error_with([](GgufWriter& w) { w.string("llama.rope.scaling.type", "none"); }),
            "no error");
  EXPECT_THAT(error_with([](GgufWriter& w) { w.u32("llama.expert_count", 8); }),
              HasSubstr("mixture-of-experts"));
  EXPECT_THAT(error_with([](GgufWriter& w) { w.u32("split.count", 2); }), HasSubstr("one part"));
  EXPECT_THAT(
      error_with(
          [](GgufWriter& w) { w.tensor("blk.0.attn_q.bias", {32}, std::vector<float>(32, 0.0F)); }),
      HasSubstr("tensor 'blk.0.attn_q.bias' is not part of a model of architecture 'llama'"));
}

TEST(GgufModel, RefusesSizesThatContradictEachOther) {
  const auto shaped = [](auto change) {
    TinyModelShape shape;
    change(shape);
    return model_error([&](GgufWriter& w) {
      add_llama_keys(w, shape);
      add_llama_tensors(w, TinyModelShape{}, 1);
    });
  };
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.n_kv_heads = 3; }),
              HasSubstr("4 query heads cannot share 3 KV heads"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.n_kv_heads = 0; }),
              HasSubstr("not a positive size"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.head_dim = 7; }), HasSubstr("must be even"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.head_dim = 16; }), HasSubstr("has shape"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.d_ff = 47; }), HasSubstr("has shape"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.d_model = -1; }), HasSubstr("not a positive size"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.n_layers = 1 << 30; }),
              HasSubstr("impossibly many layers"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.n_layers = 3; }),
              HasSubstr("tensor 'blk.2.attn_norm.weight' is missing"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.n_layers = 1; }), HasSubstr("not part of"));
  EXPECT_THAT(shaped([](TinyModelShape& s) {
                s.n_heads = 1 << 30;
                s.head_dim = 512;
              }),
              HasSubstr("impossibly wide"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.head_dim = 1024; }),
              HasSubstr("wider than the 512"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.rms_eps = NAN; }), HasSubstr("positive number"));
  EXPECT_THAT(shaped([](TinyModelShape& s) { s.rope_theta = 0; }), HasSubstr("positive number"));
  EXPECT_THAT(error_with([](GgufWriter& w) { add_tiny_tokenizer(w, 319); }),
              HasSubstr("lists 319 tokens for 320 embedding rows"));
}

TEST(GgufModel, NamesTheTensorWithANonFiniteWeight) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    GgufWriter w;
    add_llama_keys(w, {});
    add_llama_tensors(w, {}, 1);
    std::string bytes = w.bytes();
    // The last tensor of the file is output_norm.weight.
    std::memcpy(bytes.data() + bytes.size() - sizeof bad, &bad, sizeof bad);
    const auto model = open_gguf_model(memory_gguf(bytes));
    EXPECT_EQ(data_error([&] { model->read("output_norm.weight", 1, 32); }),
              "m.gguf: tensor 'output_norm.weight' holds a non-finite value at element 31; the "
              "file is damaged, fetch it again");
    EXPECT_EQ(model->read("blk.1.ffn_norm.weight", 1, 32).size(), 32U);
  }
}

TinyModelShape smallest() {
  TinyModelShape s;
  s.n_layers = 1;
  s.n_heads = 2;
  s.n_kv_heads = 1;
  s.head_dim = 2;
  s.d_model = 8;
  s.d_ff = 4;
  s.n_vocab = testing::kTinyVocabMin;
  return s;
}

std::string smallest_bytes() {
  GgufWriter w;
  add_llama_keys(w, smallest());
  add_tiny_tokenizer(w, smallest().n_vocab);
  add_llama_tensors(w, smallest(), 1);
  return w.bytes();
}

TEST(GgufModel, EveryTruncationIsADataError) {
  const std::string bytes = smallest_bytes();
  ASSERT_NO_THROW(open_gguf_model(memory_gguf(bytes)));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(open_gguf_model(memory_gguf(std::string_view(bytes).substr(0, size))), DataError)
        << size;
  }
}

TEST(GgufModel, TruncatedFilesAreDataErrorsToo) {
  const TemporaryFile file("cut.gguf");
  const std::string bytes = smallest_bytes();
  for (std::size_t size = 0; size < bytes.size(); size += 97) {
    GgufWriter::write_bytes(file.path, std::string_view(bytes).substr(0, size));
    EXPECT_THROW(open_gguf_model(file.path), DataError) << size;
  }
}

TEST(GgufModel, DamagedBytesNeverDoWorseThanADataError) {
  const std::string good = smallest_bytes();
  const auto file =
      memory_gguf(good);  // the embedding is the first tensor: damage the bytes before
  const auto head = static_cast<std::uint64_t>(file->tensor("token_embd.weight")->data.data() -
                                               file->bytes().data());
  int refused = 0;
  for (std::uint64_t round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (std::uint64_t i = 0; i <= round % 4; ++i) {
      const std::uint64_t random = smix(round * 8 + i);
      constexpr unsigned char kNasty[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
      bytes[random % head] =
          static_cast<char>(random & 0x100 ? kNasty[(random >> 32) % 5] : (random >> 40) & 0xFF);
    }
    try {
      const auto model = open_gguf_model(memory_gguf(bytes));
      model->read("output_norm.weight", 1, model->config().d_model);
    } catch (const DataError& error) {
      ++refused;
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
    }
  }
  // Measured: 3,277 refused. The head is mostly lengths; a changed letter of a token does the model
  // no harm.
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace kvscope
