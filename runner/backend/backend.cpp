#include "runner/backend/backend.h"

#include <algorithm>
#include <stdexcept>

namespace kvscope {

ReadRows rows_of(std::span<const float> weights, int n_in) {
  return [weights, n_in](int first, int n, float* out) {
    const auto rows = weights.subspan(std::size_t(first) * n_in, std::size_t(n) * n_in);
    std::copy(rows.begin(), rows.end(), out);
  };
}

namespace {

[[noreturn]] void lacks(std::string_view backend, const char* operation) {
  throw std::logic_error(std::string(backend) + ": has no " + operation);
}

}  // namespace

void Backend::layer_norm(std::span<const float>, std::span<const float>, std::span<const float>,
                         float, int, std::span<float>) {
  lacks(name(), "layer_norm");
}

void Backend::add_bias(std::span<const float>, int, std::span<float>) { lacks(name(), "add_bias"); }

void Backend::norm_heads(const AttentionShape&, std::span<const float>, std::span<const float>,
                         float, int, std::span<float>) {
  lacks(name(), "norm_heads");
}

void Backend::activate(Activation, std::span<const float>, int, int, std::span<float>) {
  lacks(name(), "activate");
}

}  // namespace kvscope
