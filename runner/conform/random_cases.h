// Seeded synthetic requests for property tests, in the three shapes that attention has.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runner/conform/synthetic_layer.h"

namespace kvscope::conform {

// SplitMix64 stream: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  int between(int low, int high);  // inclusive
  double uniform();                // [0, 1)

 private:
  std::uint64_t state_;
};

// kGqa: as many query heads a KV head as KV heads would hide a mapping that mixes the two up, so
// the numbers differ.
enum class Shape : std::uint8_t { kMha, kGqa, kMqa };
inline constexpr Shape kShapes[] = {Shape::kMha, Shape::kGqa, Shape::kMqa};
std::string_view name_of(Shape);  // "MHA", "GQA", "MQA"

struct RandomCase {
  Shape shape = Shape::kMha;
  std::uint64_t seed = 0;
  int n_kv_heads = 1;
  int group = 1;  // query heads a KV head
  int n_tokens = 2;
  int prompt_tokens = 1;
  int budget_tokens = 1;
  bool ties = false;  // small integers, so that exact ties occur
  std::vector<SyntheticLayer> layers;

  const AttentionTable& table() const { return layers.front().table; }
};

// Up to 3 KV heads and 20 tokens. A third of the cases has ties, a third has random logits, in a
// third queries and keys give the attention.
RandomCase random_case(Shape shape, std::uint64_t seed, int n_layers = 1);
// Another request of the same shape, lengths and budget.
RandomCase another_request(const RandomCase& like);
// The same request with all attention uniform.
RandomCase with_uniform_attention(RandomCase c);

}  // namespace kvscope::conform
