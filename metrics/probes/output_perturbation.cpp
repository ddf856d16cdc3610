#include "metrics/probes/output_perturbation.h"

#include <cmath>

namespace kvscope {
namespace {

constexpr double kEpsilon = 1e-12;  // only so that outputs of nothing but zeros have a ratio

}  // namespace

double OutputPerturbation::ratio() const { return error_norm / (full_norm + kEpsilon); }

OutputPerturbation output_perturbation(std::span<const float> visible_output,
                                       std::span<const float> ghost_output, double rebound) {
  double error = 0;
  double full = 0;
  for (std::size_t i = 0; i < visible_output.size(); ++i) {
    const double visible = double(visible_output[i]);
    const double lost = rebound * (visible - double(ghost_output[i]));
    error += lost * lost;
    full += (visible - lost) * (visible - lost);
  }
  return {std::sqrt(error), std::sqrt(full)};
}

}  // namespace kvscope
