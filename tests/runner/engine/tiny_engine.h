// A tiny random model on a backend, and bitwise comparison of results.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runner/base/splitmix.h"
#include "runner/engine/engine.h"
#include "runner/model/gguf_model.h"
#include "runner/policies/registry.h"
#include "tests/runner/model/gguf_writer.h"

namespace kvscope::testing {

inline TinyModelShape gqa_shape() {  // 6 query heads over 2 KV heads: neither equals the group of 3
  TinyModelShape s;
  s.n_heads = 6;
  s.n_kv_heads = 2;
  return s;
}
inline TinyModelShape mha_shape() {
  TinyModelShape s;
  s.n_heads = s.n_kv_heads = 3;
  return s;
}
inline TinyModelShape mqa_shape() {
  TinyModelShape s;
  s.n_heads = 4;
  s.n_kv_heads = 1;
  return s;
}

struct TinyEngine {
  explicit TinyEngine(const TinyModelShape& shape, int n_threads = 1, DType dtype = DType::kF32,
                      DType kv_dtype = DType::kF32)
      : TinyEngine(shape, make_cpu_backend(n_threads), dtype, kv_dtype) {}
  TinyEngine(const TinyModelShape& shape, std::unique_ptr<Backend> own_backend,
             DType dtype = DType::kF32, DType kv_dtype = DType::kF32)
      : backend(std::move(own_backend)),
        model(load(shape, dtype, kv_dtype)),
        engine(model, *backend) {}

  Model load(const TinyModelShape& shape, DType dtype, DType kv_dtype) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("kvscope_tiny_" + std::to_string(::getpid()) + "_" +
                       std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".gguf");
    write_tiny_model(path, shape, 7);
    Model loaded = load_model(*open_gguf_model(path), *backend, dtype, kv_dtype);
    std::filesystem::remove(path);
    return loaded;
  }

  std::unique_ptr<Backend> backend;
  Model model;
  Engine engine;
};

inline std::vector<std::int32_t> random_ids(int n, std::uint64_t seed = 3) {
  std::vector<std::int32_t> ids(n);
  for (int i = 0; i < n; ++i) ids[i] = std::int32_t(3 + smix(seed ^ smix(i)) % 250);
  return ids;
}

inline std::shared_ptr<const Policy> fit(const std::string& text, int budget_tokens, int length,
                                         bool in_stream) {
  const PolicySpec spec = parse_policy(text);
  Budget budget;
  if (spec.is_full()) {
    budget.permille = 1000;
  } else {
    budget.tokens = budget_tokens;
  }
  return fit_policy(spec, {budget, length, in_stream});
}

// Every registered policy that can act in stream, with variants of what the engine treats
// differently.
inline std::vector<std::string> in_stream_policies() {
  std::vector<std::string> texts;
  for (const PolicyInfo& info : policies()) {
    if (!parse_policy(info.name).acts_in_stream()) continue;
    texts.emplace_back(info.name);
    if (info.name == "full" || info.name == "quest") continue;
    for (const char* mode : {"absolute", "cache_relative", "rerotate"}) {
      if (info.name == "keydiff" && std::string_view(mode) == "cache_relative") continue;
      texts.push_back(std::string(info.name) + ":positions=" + mode);
    }
  }
  texts.insert(
      texts.end(),
      {"h2o:norm=mean", "tova:scope=head", "tova:protect_last=false", "random:seed=5",
       "random:mode=uniform_victim", "lru:use=topk", "h2o:heads=summed", "h2o+pyramid",
       "h2o+page:size=4", "sliding_window+page:size=5", "tova:every=5",
       "keydiff:every=4:positions=rerotate", "h2o+kv_int8", "full+kv_fp8",
       "full+kivi:group=8:residual=8", "quest:page=4", "quest:page=3:shared=true+kv_int8"});
  return texts;
}

inline std::vector<std::string> prompt_policies() {
  std::vector<std::string> texts = in_stream_policies();
  texts.insert(texts.end(), {"snapkv",
                             "snapkv:decode=window",
                             "snapkv:decode=tova",
                             "snapkv:decode=h2o",
                             "h2o:decode=grow",
                             "tova:decode=grow",
                             "streaming_llm:positions=absolute:decode=grow",
                             "snapkv:positions=rerotate:decode=window",
                             "h2o:prefill=streaming:chunk=7",
                             "streaming_llm:prefill=streaming",
                             "streaming_llm:prefill=streaming:chunk=6:decode=window",
                             "random:positions=rerotate:prefill=streaming:decode=window",
                             "tova:prefill=streaming:chunk=4:decode=grow",
                             "h2o:prefill=streaming:chunk=5:decode=window",
                             "h2o:prefill=two_pass",
                             "cake",
                             "cake:prefill=two_pass",
                             "cake:decode=grow",
                             "cake:positions=cache_relative",
                             "snapkv+pyramid",
                             "snapkv+adakv",
                             "h2o:decode=tova+adakv",
                             "snapkv+pyramid+adakv:alpha=0:normalize=true",
                             "h2o+cake",
                             "knorm:protect_last=false+cake",
                             "snapkv:decode=h2o+adakv",
                             "scissorhands+pyramid",
                             "paged_eviction+cake",
                             "expected_attention",
                             "expected_attention:decode=window",
                             "knorm:decode=grow",
                             "keydiff:decode=grow",
                             "lru:rows=5",
                             "scissorhands:decode=window",
                             "h2o:every=6",
                             "snapkv:prefill=streaming:chunk=9",
                             "expected_attention:prefill=streaming:chunk=8",
                             "scissorhands:prefill=streaming:chunk=7",
                             "lru:prefill=streaming:chunk=6:decode=grow",
                             "keydiff:prefill=streaming:chunk=6",
                             "paged_eviction:prefill=streaming:chunk=5",
                             "snapkv:prefill=streaming:chunk=11:decode=window",
                             "snapkv+kv_int8",
                             "snapkv+kivi:group=4:residual=16",
                             "quest:page=4+minference:pattern=a_shape:n_init=1:n_local=5",
                             "pyramidkv+kv_fp8:format=e5m2",
                             "full+minference:vertical=30:slash=50",
                             "snapkv+minference:pattern=a_shape:n_init=2:n_local=8"});
  return texts;
}

inline void expect_same_bits(const std::vector<double>& a, const std::vector<double>& b,
                             const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(a[i]), std::bit_cast<std::uint64_t>(b[i]))
        << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}
inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b,
                             const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << what << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

inline void expect_same_bytes(const KvBytes& a, const KvBytes& b, const std::string& what) {
  EXPECT_EQ(a.logical_bytes, b.logical_bytes) << what;
  EXPECT_EQ(a.physical_bytes, b.physical_bytes) << what;
  EXPECT_EQ(a.metadata_bytes, b.metadata_bytes) << what;
}

inline void expect_same(const ScoreArmResult& a, const ScoreArmResult& b, const std::string& what) {
  EXPECT_EQ(a.error, b.error) << what;
  expect_same_bits(a.nll_nats, b.nll_nats, what + " nll");
  expect_same_bits(a.kl_full_nats, b.kl_full_nats, what + " kl");
  EXPECT_EQ(a.top1_agrees, b.top1_agrees) << what;
  EXPECT_EQ(a.resident_positions, b.resident_positions) << what;
  expect_same_bytes(a.ledger.prefill_peak, b.ledger.prefill_peak, what + " prefill peak");
  expect_same_bytes(a.ledger.decode_peak, b.ledger.decode_peak, what + " decode peak");
  expect_same_bytes(a.ledger.steady, b.ledger.steady, what + " steady");
  EXPECT_EQ(a.ledger.evicted_tokens, b.ledger.evicted_tokens) << what;
}

inline void expect_same(const GenerateArmResult& a, const GenerateArmResult& b,
                        const std::string& what) {
  EXPECT_EQ(a.error, b.error) << what;
  EXPECT_EQ(a.new_ids, b.new_ids) << what;
  expect_same_bits(a.gold_nll_nats, b.gold_nll_nats, what + " gold");
  expect_same_bits(a.kl_full_nats, b.kl_full_nats, what + " kl");
  expect_same_bits(a.forced_delta_nll_nats, b.forced_delta_nll_nats, what + " delta");
  EXPECT_EQ(a.top1_agrees, b.top1_agrees) << what;
  EXPECT_EQ(a.resident_positions, b.resident_positions) << what;
  expect_same_bytes(a.ledger.peak(), b.ledger.peak(), what + " peak");
  expect_same_bytes(a.ledger.steady, b.ledger.steady, what + " steady");
}

}  // namespace kvscope::testing
