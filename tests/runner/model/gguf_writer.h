// Writes GGUF files for tests: single keys and tensors (also wrong ones), or a whole tiny Llama
// model with a tokenizer.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/base/splitmix.h"

namespace kvscope::testing {

// Type numbers of the format, written out again so that a wrong table in the reader does not go
// unseen.
enum class GgufValue : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12
};
enum class GgufTensor : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30
};

template <typename T>
void append_raw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}
inline void append_string(std::string& out, std::string_view s) {
  append_raw(out, std::uint64_t{s.size()});
  out.append(s);
}
inline std::string raw_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment =
      32;  // used for the layout; add the key general.alignment if it is not 32

  // `payload` is the value's bytes after its type number.
  GgufWriter& raw(std::string_view key, GgufValue type, std::string_view payload) {
    append_string(keys_, key);
    append_raw(keys_, static_cast<std::uint32_t>(type));
    keys_.append(payload);
    ++n_keys_;
    return *this;
  }
  GgufWriter& u32(std::string_view key, std::uint32_t v) { return number(key, GgufValue::kU32, v); }
  GgufWriter& u64(std::string_view key, std::uint64_t v) { return number(key, GgufValue::kU64, v); }
  GgufWriter& f32(std::string_view key, float v) { return number(key, GgufValue::kF32, v); }
  GgufWriter& boolean(std::string_view key, bool v) {
    return number(key, GgufValue::kBool, std::uint8_t{v});
  }
  GgufWriter& string(std::string_view key, std::string_view v) {
    std::string payload;
    append_string(payload, v);
    return raw(key, GgufValue::kString, payload);
  }
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& values) {
    std::string payload = array_head(GgufValue::kString, values.size());
    for (const std::string& v : values) append_string(payload, v);
    return raw(key, GgufValue::kArray, payload);
  }
  GgufWriter& i32s(std::string_view key, const std::vector<std::int32_t>& values) {
    std::string payload = array_head(GgufValue::kI32, values.size());
    for (const std::int32_t v : values) append_raw(payload, v);
    return raw(key, GgufValue::kArray, payload);
  }
  static std::string array_head(GgufValue element, std::uint64_t count) {
    std::string head;
    append_raw(head, static_cast<std::uint32_t>(element));
    append_raw(head, count);
    return head;
  }

  // dims in file order: the number of inputs (row length) first. Data is padded to the alignment.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, GgufTensor type,
                     std::string_view bytes) {
    tensor_at(name, dims, static_cast<std::uint32_t>(type), data_.size());
    data_.append(bytes);
    while (data_.size() % alignment != 0) data_.push_back('\0');
    return *this;
  }
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                     const std::vector<float>& values) {
    return tensor(name, dims, GgufTensor::kF32, raw_floats(values));
  }
  // Only the description, with any type number and offset.
  GgufWriter& tensor_at(std::string_view name, const std::vector<std::uint64_t>& dims,
                        std::uint32_t type, std::uint64_t offset) {
    append_string(infos_, name);
    append_raw(infos_, static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) append_raw(infos_, d);
    append_raw(infos_, type);
    append_raw(infos_, offset);
    ++n_tensors_;
    return *this;
  }

  std::string bytes() const {
    std::string out = "GGUF";
    append_raw(out, version);
    append_raw(out, n_tensors_);
    append_raw(out, n_keys_);
    out += keys_ + infos_;
    while (out.size() % alignment != 0) out.push_back('\0');
    return out + data_;
  }
  std::filesystem::path write(const std::filesystem::path& path) const {
    write_bytes(path, bytes());
    return path;
  }
  static void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
  }

 private:
  template <typename T>
  GgufWriter& number(std::string_view key, GgufValue type, T value) {
    std::string payload;
    append_raw(payload, value);
    return raw(key, type, payload);
  }

  std::string keys_, infos_, data_;
  std::uint64_t n_keys_ = 0;
  std::uint64_t n_tensors_ = 0;
};

struct TinyModelShape {
  int n_layers = 2;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 8;
  int d_model = 32;  // need not be n_heads * head_dim
  int d_ff = 48;
  int n_vocab = 320;  // at least kTinyVocabMin; the rest are unused tokens
  int context_length = 512;
  bool tied_head = true;
  float rms_eps = 1e-5F;
  float rope_theta = 10000.0F;
};

// Tiny vocabulary: 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|>, 3 + b = byte b, 259… = the merges
// below, then unused.
inline constexpr int kTinyFirstByte = 3;
inline constexpr int kTinyFirstMerge = kTinyFirstByte + 256;

// GPT-2's printable stand-in for a byte, as UTF-8.
inline std::string byte_symbol(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 128) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// Left and right part of each merge, lowest rank first, in GPT-2's stand-in symbols ("Ġ" is a
// space).
inline std::vector<std::pair<std::string, std::string>> tiny_merges() {
  return {{"Ġ", "t"}, {"Ġ", "a"}, {"h", "e"},  {"i", "n"}, {"Ġt", "he"}, {"r", "e"},  {"o", "n"},
          {"e", "r"}, {"Ġ", "s"}, {"in", "g"}, {"l", "l"}, {"o", "u"},   {"Ġa", "n"}, {"Ġan", "d"}};
}
inline const int kTinyVocabMin = kTinyFirstMerge + static_cast<int>(tiny_merges().size());

// Tokens, types and merges of a byte-level BPE tokenizer with pre-tokenizer `pre`.
inline void add_tiny_tokenizer(GgufWriter& writer, int n_vocab, std::string_view pre = "smollm") {
  if (n_vocab < kTinyVocabMin) throw std::invalid_argument("n_vocab below kTinyVocabMin");
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<std::int32_t> types(3, 3);  // control
  for (int b = 0; b < 256; ++b) tokens.push_back(byte_symbol(b));
  std::vector<std::string> merges;
  for (const auto& [left, right] : tiny_merges()) {
    tokens.push_back(left + right);
    merges.push_back(left + " " + right);
  }
  types.resize(tokens.size(), 1);  // normal
  while (tokens.size() < static_cast<std::size_t>(n_vocab)) {
    tokens.push_back("[unused" + std::to_string(tokens.size()) + "]");
    types.push_back(5);  // unused
  }
  writer.string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", pre)
      .strings("tokenizer.ggml.tokens", tokens)
      .i32s("tokenizer.ggml.token_type", types)
      .strings("tokenizer.ggml.merges", merges)
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2)
      .boolean("tokenizer.ggml.add_bos_token", false)
      .string("tokenizer.chat_template",
              "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
              "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

inline void add_llama_keys(GgufWriter& writer, const TinyModelShape& s) {
  const auto u = [](int v) { return static_cast<std::uint32_t>(v); };
  writer.string("general.architecture", "llama")
      .string("general.name", "tiny")
      .u32("llama.block_count", u(s.n_layers))
      .u32("llama.context_length", u(s.context_length))
      .u32("llama.embedding_length", u(s.d_model))
      .u32("llama.feed_forward_length", u(s.d_ff))
      .u32("llama.attention.head_count", u(s.n_heads))
      .u32("llama.attention.head_count_kv", u(s.n_kv_heads))
      .u32("llama.attention.key_length", u(s.head_dim))
      .u32("llama.attention.value_length", u(s.head_dim))
      .u32("llama.rope.dimension_count", u(s.head_dim))
      .f32("llama.rope.freq_base", s.rope_theta)
      .f32("llama.attention.layer_norm_rms_epsilon", s.rms_eps);
}

// Uniform values of variance (gain^2 / n_in); norms lie around one. Query and key gains are large
// enough that attention is far from uniform. The same seed gives the same file on every machine.
inline void add_llama_tensors(GgufWriter& writer, const TinyModelShape& s, std::uint64_t seed) {
  std::uint64_t counter = 0;
  const auto uniform = [&] {  // [-1, 1)
    const std::uint64_t bits = smix(smix(seed) ^ counter++) >> 40;
    return static_cast<float>(bits) * 0x1p-23F - 1.0F;
  };
  const auto matrix = [&](const std::string& name, int n_out, int n_in, float gain) {
    const float scale = gain * std::sqrt(3.0F / static_cast<float>(n_in));
    std::vector<float> values(static_cast<std::size_t>(n_out) * static_cast<std::size_t>(n_in));
    for (float& v : values) v = scale * uniform();
    writer.tensor(name, {static_cast<std::uint64_t>(n_in), static_cast<std::uint64_t>(n_out)},
                  values);
  };
  const auto norm = [&](const std::string& name) {
    std::vector<float> values(static_cast<std::size_t>(s.d_model));
    for (float& v : values) v = 1.0F + 0.2F * uniform();
    writer.tensor(name, {static_cast<std::uint64_t>(s.d_model)}, values);
  };
  const int d_query = s.n_heads * s.head_dim;
  const int d_kv = s.n_kv_heads * s.head_dim;
  matrix("token_embd.weight", s.n_vocab, s.d_model, 1.5F);
  for (int layer = 0; layer < s.n_layers; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    norm(blk + "attn_norm.weight");
    matrix(blk + "attn_q.weight", d_query, s.d_model, 1.5F);
    matrix(blk + "attn_k.weight", d_kv, s.d_model, 1.5F);
    matrix(blk + "attn_v.weight", d_kv, s.d_model, 1.0F);
    matrix(blk + "attn_output.weight", s.d_model, d_query, 1.0F);
    norm(blk + "ffn_norm.weight");
    matrix(blk + "ffn_gate.weight", s.d_ff, s.d_model, 1.0F);
    matrix(blk + "ffn_up.weight", s.d_ff, s.d_model, 1.0F);
    matrix(blk + "ffn_down.weight", s.d_model, s.d_ff, 1.0F);
  }
  norm("output_norm.weight");
  if (!s.tied_head) matrix("output.weight", s.n_vocab, s.d_model, 1.5F);
}

// A complete random model; returns `path`.
inline std::filesystem::path write_tiny_model(const std::filesystem::path& path,
                                              const TinyModelShape& shape = {},
                                              std::uint64_t seed = 1) {
  GgufWriter writer;
  add_llama_keys(writer, shape);
  add_tiny_tokenizer(writer, shape.n_vocab);
  add_llama_tensors(writer, shape, seed);
  return writer.write(path);
}

}  // namespace kvscope::testing
