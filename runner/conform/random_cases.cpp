#include "runner/conform/random_cases.h"

#include <algorithm>
#include <cmath>

#include "runner/base/splitmix.h"

namespace kvscope::conform {
namespace {

constexpr int kHeadDim = 4;

void fill(std::vector<float>& out, std::size_t n, Random& random, bool integers) {
  out.resize(n);
  for (float& x : out) {
    // Never zero: a zero key has neither direction nor ratio.
    x = integers ? static_cast<float>(random.between(1, 2) * (random.between(0, 1) == 0 ? 1 : -1))
                 : static_cast<float>(4.0 * random.uniform() - 2.0);
  }
}

SyntheticLayer random_layer(const RandomCase& c, Random& random, bool by_contents) {
  SyntheticLayer layer;
  const int n_heads = c.n_kv_heads * c.group;
  layer.n_kv_heads = c.n_kv_heads;
  layer.table = AttentionTable(n_heads, c.n_tokens);
  layer.head_dim = kHeadDim;
  const std::size_t rows = static_cast<std::size_t>(c.n_tokens) * kHeadDim;
  fill(layer.queries, n_heads * rows, random, false);
  fill(layer.keys, c.n_kv_heads * rows, random, c.ties);
  fill(layer.values, c.n_kv_heads * rows, random, c.ties);
  layer.inverse_frequency = {1.0F, 0.1F};
  if (by_contents) {
    attend_by_contents(layer);
    return layer;
  }
  const double sharpness = 4.0 * random.uniform();
  for (double& weight : layer.table.weights) {
    weight = c.ties ? random.between(1, 3) : std::exp(sharpness * (2.0 * random.uniform() - 1.0));
  }
  return layer;
}

void fill_layers(RandomCase& c, Random& random, int n_layers) {
  c.layers.clear();
  const bool by_contents = !c.ties && random.between(0, 1) == 0;
  for (int l = 0; l < n_layers; ++l) c.layers.push_back(random_layer(c, random, by_contents));
}

}  // namespace

std::uint64_t Random::next() { return smix(state_++); }

int Random::between(int low, int high) {
  return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

std::string_view name_of(Shape shape) {
  switch (shape) {
    case Shape::kMha:
      return "MHA";
    case Shape::kGqa:
      return "GQA";
    case Shape::kMqa:
      return "MQA";
  }
  return "";
}

RandomCase random_case(Shape shape, std::uint64_t seed, int n_layers) {
  Random random(smix(seed * 3 + static_cast<std::uint64_t>(shape)));
  RandomCase c;
  c.shape = shape;
  c.seed = seed;
  switch (shape) {
    case Shape::kMha:
      c.n_kv_heads = random.between(1, 3);
      break;
    case Shape::kGqa:
      c.n_kv_heads = random.between(2, 3);
      c.group = 5 - c.n_kv_heads;
      break;
    case Shape::kMqa:
      c.group = random.between(2, 4);
      break;
  }
  c.n_tokens = random.between(2, 20);
  c.prompt_tokens = random.between(1, c.n_tokens);
  c.budget_tokens = random.between(1, c.n_tokens + 1);
  c.ties = random.between(0, 2) == 0;
  fill_layers(c, random, n_layers);
  return c;
}

RandomCase another_request(const RandomCase& like) {
  RandomCase c = like;
  Random random(smix(like.seed ^ 0xa5a5a5a5ULL));
  fill_layers(c, random, static_cast<int>(like.layers.size()));
  return c;
}

RandomCase with_uniform_attention(RandomCase c) {
  for (SyntheticLayer& layer : c.layers)
    std::fill(layer.table.weights.begin(), layer.table.weights.end(), 1.0);
  return c;
}

}  // namespace kvscope::conform
