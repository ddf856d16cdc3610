// Evidence that grows over nights and may be looked at after every one of them: an e-process
// (Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon, arXiv:1810.08240, normal mixture).
//
//   z_k = Φ⁻¹(T_df(t_k))  of night k: standard normal if the arm is exactly `margin` worse, larger
//   if
//                         it is less bad;  S = z_1 + … + z_n
//   E_n = ∫ exp(-λS - nλ²/2) dHalfNormal(λ; τ)
//       = 2 / √(1 + nτ²) · exp(S²τ² / (2(1 + nτ²))) · Φ(-Sτ / √(1 + nτ²))
//
// While the arm is not worse than the margin, E reaches 1/α ever, on any night, with probability at
// most α (Ville): no correction for looking. Nights must have samples of their own.
#pragma once

#include <span>
#include <vector>

namespace kvscope {

struct NightResult {
  double delta = 0;  // + is better
  double se = 0;  // 0: the night says nothing about chance and is left out unless delta < -margin
  int df = 1;
};

inline constexpr double kEvidenceScale =
    1.0;  // τ: tuned to shifts of about one standard error a night

// [nights] E_n after each night, oldest first, largest so far; starts from 1.
std::vector<double> evidence_of_worse(std::span<const NightResult> nights, double margin);

}  // namespace kvscope
