// From values known at run time to the template arguments of kernels. Host only.
#pragma once

#include <stdexcept>

#include "runner/backend/cuda/pages.h"

namespace kvscope::cuda {

// Calls body.operator()<format>().
template <class Body>
void with_format(SlotFormat format, const Body& body) {
  switch (format) {
    case SlotFormat::kF32:
      return body.template operator()<SlotFormat::kF32>();
    case SlotFormat::kF16:
      return body.template operator()<SlotFormat::kF16>();
    case SlotFormat::kBF16:
      return body.template operator()<SlotFormat::kBF16>();
    case SlotFormat::kInt8:
      return body.template operator()<SlotFormat::kInt8>();
    case SlotFormat::kFp8E4M3:
      return body.template operator()<SlotFormat::kFp8E4M3>();
    case SlotFormat::kFp8E5M2:
      return body.template operator()<SlotFormat::kFp8E5M2>();
  }
}

// Calls body.operator()<kDims>() with the least kDims there is of kDims · 32 ≥ head_dim: how many
// dimensions a lane has of a row that lies across a warp.
template <class Body>
void with_lane_dims(int head_dim, const Body& body) {
  if (head_dim <= 2 * kWarpSize) return body.template operator()<2>();
  if (head_dim <= 4 * kWarpSize) return body.template operator()<4>();
  if (head_dim <= 8 * kWarpSize) return body.template operator()<8>();
  if (head_dim <= 16 * kWarpSize) return body.template operator()<16>();
  throw std::invalid_argument("head_dim > 512");
}

}  // namespace kvscope::cuda
