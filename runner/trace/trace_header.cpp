#include "runner/trace/trace_header.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "runner/base/error.h"

namespace kvscope {

static_assert(std::endian::native == std::endian::little, "a trace is little-endian");

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFixedBytes = 16;             // magic, version, size of the JSON text
constexpr std::uint32_t kMaxJsonBytes = 1U << 20U;  // thousands of layers fit
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxTextBytes = std::int64_t{1} << 32;

template <class T>
void append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

std::uint32_t u32_at(std::span<const std::byte> file, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

// Reads members of the JSON text; whatever is missing, of another type or out of range ends it.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(where_ + ": not a usable trace: " + what + "; record it again");
  }
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const {
    const auto at = object_.find(key);
    if (at == object_.end()) fail(std::string("no ") + key);
    return integer(*at, key, low, high);
  }
  std::int64_t integer(const Json& value, const char* key, std::int64_t low,
                       std::int64_t high) const {
    const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t(high)
                                                 : value.is_number_integer();
    if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
      fail(std::string(key) + " is not a number from " + std::to_string(low) + " to " +
           std::to_string(high));
    return value.get<std::int64_t>();
  }
  std::string text(const char* key) const {
    const auto at = object_.find(key);
    if (at == object_.end() || !at->is_string()) fail(std::string("no ") + key);
    return at->get<std::string>();
  }
  DType dtype(const char* key, bool stored = false) const {
    const std::string name = text(key);
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == name_of(t) && !(stored && t == DType::kF16)) return t;
    }
    fail(std::string(key) + " is no known element type");
  }
  double positive(const char* key) const {
    const auto at = object_.find(key);
    if (at == object_.end() || !at->is_number()) fail(std::string("no ") + key);
    const double value = at->get<double>();
    if (!std::isfinite(value) || value < 1.0) fail(std::string(key) + " is out of range");
    return value;
  }
  std::vector<int> layers(int n_layers) const {
    const auto at = object_.find("layers");
    if (at == object_.end() || !at->is_array() || at->empty()) fail("no layers");
    std::vector<int> layers;
    for (const Json& value : *at) {
      layers.push_back(int(integer(value, "a layer", 0, n_layers - 1)));
      if (layers.size() > 1 && layers[layers.size() - 2] >= layers.back())
        fail("its layers do not ascend");
    }
    return layers;
  }

 private:
  const Json& object_;
  std::string where_;
};

TraceFacts facts_from(const Members& in) {
  TraceFacts facts;
  facts.model_name = in.text("model_name");
  facts.model_key = in.text("model_key");
  facts.weights_sha256 = in.text("weights_sha256");
  facts.dtype = in.dtype("dtype");
  facts.kv_dtype = in.dtype("kv_dtype");
  facts.n_layers = int(in.integer("n_layers", 1, kMaxLayers));
  facts.n_heads = int(in.integer("n_heads", 1, kMaxHeads));
  facts.n_kv_heads = int(in.integer("n_kv_heads", 1, facts.n_heads));
  if (facts.n_heads % facts.n_kv_heads != 0) in.fail("n_kv_heads does not divide n_heads");
  facts.head_dim = int(in.integer("head_dim", 2, kMaxHeadDim));
  if (facts.head_dim % 2 != 0) in.fail("head_dim is odd");
  facts.rope_theta = in.positive("rope_theta");
  facts.store = in.dtype("store", true);
  facts.layers = in.layers(facts.n_layers);
  facts.n_tokens = int(in.integer("n_tokens", 1, kMaxTokens));
  facts.prompt_tokens = int(in.integer("prompt_tokens", 0, facts.n_tokens));
  facts.text_bytes = in.integer("text_bytes", 0, kMaxTextBytes);
  return facts;
}

}  // namespace

// With the largest numbers that decode_head lets pass, 2^12 layers of 2^24 tokens of 2^23 floats,
// this stays below 2^63.
TraceLayout layout_of(const TraceFacts& facts, std::size_t head_bytes) {
  TraceLayout at;
  at.ids = head_bytes;
  at.text = at.ids + std::uint64_t(facts.n_tokens) * sizeof(std::int32_t);
  const std::uint64_t end = at.text + std::uint64_t(facts.text_bytes);
  at.rows = (end + kTraceAlignment - 1) / kTraceAlignment * kTraceAlignment;
  at.layer_bytes = std::uint64_t(facts.layer_floats()) * element_bytes(facts.store);
  at.sum = at.rows + at.layer_bytes * facts.layers.size();
  at.file_bytes = at.sum + kTraceSumBytes;
  return at;
}

std::string encode_head(const TraceFacts& facts) {
  const Json json = {{"model_name", facts.model_name},
                     {"model_key", facts.model_key},
                     {"weights_sha256", facts.weights_sha256},
                     {"dtype", name_of(facts.dtype)},
                     {"kv_dtype", name_of(facts.kv_dtype)},
                     {"n_layers", facts.n_layers},
                     {"n_heads", facts.n_heads},
                     {"n_kv_heads", facts.n_kv_heads},
                     {"head_dim", facts.head_dim},
                     {"rope_theta", facts.rope_theta},
                     {"store", name_of(facts.store)},
                     {"layers", facts.layers},
                     {"n_tokens", facts.n_tokens},
                     {"prompt_tokens", facts.prompt_tokens},
                     {"text_bytes", facts.text_bytes}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string head(kTraceMagic);
  append(head, kTraceVersion);
  append(head, std::uint32_t(text.size()));
  return head + text;
}

TraceHead decode_head(std::span<const std::byte> file, const std::string& where) {
  const Json nothing;
  const Members any(nothing, where);
  if (file.size() < kFixedBytes ||
      std::memcmp(file.data(), kTraceMagic.data(), kTraceMagic.size()) != 0)
    throw DataError(where + ": not a trace: make one with kvscope trace record");
  const std::uint32_t version = u32_at(file, 8);
  if (version != kTraceVersion) {
    throw DataError(where + ": a trace of version " + std::to_string(version) +
                    ", this program reads version " + std::to_string(kTraceVersion) +
                    "; record it again");
  }
  const std::uint32_t json_bytes = u32_at(file, 12);
  if (json_bytes > kMaxJsonBytes || json_bytes > file.size() - kFixedBytes)
    any.fail("its head is cut off");
  const auto* text = reinterpret_cast<const char*>(file.data()) + kFixedBytes;
  const Json json = Json::parse(text, text + json_bytes, nullptr, false);
  if (!json.is_object()) any.fail("its head is no JSON object");
  TraceHead head;
  head.facts = facts_from(Members(json, where));
  head.layout = layout_of(head.facts, kFixedBytes + json_bytes);
  if (head.layout.file_bytes != file.size()) {
    any.fail("it has " + std::to_string(file.size()) + " bytes where its head promises " +
             std::to_string(head.layout.file_bytes));
  }
  return head;
}

}  // namespace kvscope
