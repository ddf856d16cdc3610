// Inverse frequencies of rotary position embedding (Su et al. 2021, arXiv:2104.09864) and the ways
// in which models stretch them over longer texts. All float32, as the checkpoints' own code has
// them.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kvscope {

// [head_dim / 2]: theta^(-2i/rotary_dim) for the first rotary_dim / 2 pairs, 0 for the others.
std::vector<float> rope_frequencies(int head_dim, int rotary_dim, double theta);

// What config.json's rope_scaling or a GGUF file's rope.scaling keys say.
struct RopeScaling {
  std::string type;     // linear, llama3, yarn
  double factor = 1.0;  // by which texts are longer than original_context
  double original_context = 0.0;
  double low_frequency_factor = 1.0;   // llama3
  double high_frequency_factor = 4.0;  // llama3
  double beta_fast = 32.0;             // yarn: turns within original_context that are kept …
  double beta_slow = 1.0;              // … and that are stretched whole
  bool truncate = true;                // yarn: bounds of the ramp are whole pairs
};

// Divides every frequency (Chen et al. 2023, arXiv:2306.15595).
void scale_linear(std::vector<float>& frequency, double factor);

// Llama 3.1's: [n_pairs] by which frequencies are divided, 1 for fast pairs, factor for slow ones.
std::vector<float> llama3_factors(std::span<const float> frequency, const RopeScaling& scaling);
void divide(std::vector<float>& frequency, std::span<const float> factors);

// YaRN (Peng et al. 2023, arXiv:2309.00071): fast pairs stay, slow ones are divided by the factor,
// a ramp between.
void scale_yarn(std::vector<float>& frequency, int rotary_dim, double theta,
                const RopeScaling& scaling);
// By which YaRN scales queries and keys each: 0.1 ln(factor) + 1.
double yarn_magnitude(double factor);

}  // namespace kvscope
