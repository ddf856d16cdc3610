#include "runner/backend/cpu/portable_matrix.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runner/backend/cpu/elementwise.h"
#include "runner/base/aligned_buffer.h"
#include "runner/base/half.h"

// Highway compiles what follows once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runner/backend/cpu/portable_matrix.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef KVSCOPE_PORTABLE_MATRIX_SHARED
#define KVSCOPE_PORTABLE_MATRIX_SHARED
namespace kvscope::cpu {

constexpr int kPanel = 16;  // output columns side by side

// One panel times a block of rows.
struct PanelJob {
  const void* panel;  // [n_in][kPanel]
  DType dtype;
  const float* x;  // [n_rows][n_in]
  float* y;        // row r at y + r * y_stride
  std::size_t y_stride;
  int n_rows;
  int n_in;
  int n_columns;  // of the panel that exist; the rest is padding
};

}  // namespace kvscope::cpu
#endif  // KVSCOPE_PORTABLE_MATRIX_SHARED

HWY_BEFORE_NAMESPACE();
namespace kvscope::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, kPanel>;
constexpr int kLanes = int(hn::MaxLanes(FloatTag()));
constexpr int kVectors = kPanel / kLanes;
// Rows whose sums fit the registers: 12 of 32 (AVX-512), 12 of 16 (AVX2, SSE4).
constexpr int kMaxRows = kLanes >= 16 ? 12 : kLanes == 8 ? 6 : kLanes == 4 ? 3 : 1;

HWY_INLINE hn::Vec<FloatTag> load(const float* p) { return hn::LoadU(FloatTag(), p); }
template <class Half>  // hwy::bfloat16_t, hwy::float16_t
HWY_INLINE hn::Vec<FloatTag> load(const Half* p) {
  const hn::Rebind<Half, FloatTag> narrow;
  return hn::PromoteTo(FloatTag(), hn::LoadU(narrow, p));
}

// Row by row the same chain of multiply-adds for every kRows: that is the promise.
template <int kRows, class Element>
HWY_INLINE void multiply_rows(const PanelJob& job, const float* x, float* y) {
  const FloatTag d;
  const Element* panel = static_cast<const Element*>(job.panel);
  hn::Vec<FloatTag> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int k = 0; k < job.n_in; ++k) {
    hn::Vec<FloatTag> w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = load(panel + std::size_t(k) * kPanel + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const auto xk = hn::Set(d, x[std::size_t(r) * job.n_in + k]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(xk, w[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* out = y + r * job.y_stride;
    if (job.n_columns == kPanel) {
      for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, out + v * kLanes);
    } else {
      HWY_ALIGN float whole[kPanel];
      for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, whole + v * kLanes);
      std::copy(whole, whole + job.n_columns, out);
    }
  }
}

template <int kRows, class Element>
void multiply_rest(const PanelJob& job, int n_rows, const float* x, float* y) {
  if constexpr (kRows > 0) {
    if (n_rows == kRows) return multiply_rows<kRows, Element>(job, x, y);
    multiply_rest<kRows - 1, Element>(job, n_rows, x, y);
  }
}

template <class Element>
void multiply_block(const PanelJob& job) {
  int r = 0;
  for (; r + kMaxRows <= job.n_rows; r += kMaxRows) {
    multiply_rows<kMaxRows, Element>(job, job.x + std::size_t(r) * job.n_in,
                                     job.y + r * job.y_stride);
  }
  multiply_rest<kMaxRows - 1, Element>(job, job.n_rows - r, job.x + std::size_t(r) * job.n_in,
                                       job.y + r * job.y_stride);
}

void MultiplyPanel(const PanelJob& job) {
  switch (job.dtype) {
    case DType::kF32:
      return multiply_block<float>(job);
    case DType::kBF16:
      return multiply_block<hwy::bfloat16_t>(job);
    case DType::kF16:
      return multiply_block<hwy::float16_t>(job);
  }
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace kvscope::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvscope::cpu {
namespace {

HWY_EXPORT(MultiplyPanel);
HWY_EXPORT(TargetName);

constexpr int kRowBlock =
    96;  // a multiple of every kMaxRows; 576 columns of x stay in the second-level cache

// Panels of one task: few enough to balance some threads, many enough to outweigh the hand-over.
int panels_per_task(int n_panels) { return n_panels < 128 ? 2 : n_panels < 1024 ? 8 : 32; }

class PortableMatrix final : public CpuMatrix {
 public:
  PortableMatrix(ThreadPool& pool, const ReadRows& rows, int n_out, int n_in, DType dtype)
      : n_out_(n_out), n_in_(n_in), dtype_(dtype) {
    n_panels_ = (n_out + kPanel - 1) / kPanel;
    panels_ = AlignedBuffer(std::size_t(n_panels_) * panel_bytes());
    pool.parallel_for(n_panels_, [&](std::size_t p, int) {
      const int first = int(p) * kPanel;
      const int n = std::min(kPanel, n_out - first);
      std::vector<float> weights(std::size_t(n) * n_in);
      rows(first, n, weights.data());
      std::byte* panel = panels_.data() + p * panel_bytes();
      for (int o = 0; o < n; ++o) {
        for (int k = 0; k < n_in; ++k)
          store(panel, std::size_t(k) * kPanel + o, weights[std::size_t(o) * n_in + k]);
      }
    });
  }

  int n_out() const override { return n_out_; }
  int n_in() const override { return n_in_; }
  std::size_t bytes() const override { return panels_.size(); }

  void multiply(ThreadPool& pool, const float* x, int rows, float* y) const override {
    std::vector<float> rounded;
    if (dtype_ == DType::kBF16) {
      rounded.resize(std::size_t(rows) * n_in_);
      pool.parallel_for(rows, [&](std::size_t row, int) {
        for (std::size_t i = row * n_in_; i < (row + 1) * n_in_; ++i) {
          rounded[i] = from_bf16_bits(bf16_bits(x[i]));
        }
      });
      x = rounded.data();
    }
    const std::vector<Range> row_blocks = cut(rows, kRowBlock);
    const std::vector<Range> panel_blocks = cut(n_panels_, panels_per_task(n_panels_));
    pool.parallel_for(row_blocks.size() * panel_blocks.size(), [&](std::size_t i, int) {
      const Range block = row_blocks[i % row_blocks.size()];
      const Range panels = panel_blocks[i / row_blocks.size()];
      for (int p = panels.begin; p < panels.end; ++p) {
        const int first = p * kPanel;
        HWY_DYNAMIC_DISPATCH(MultiplyPanel)
        ({panels_.data() + std::size_t(p) * panel_bytes(), dtype_,
          x + std::size_t(block.begin) * n_in_, y + std::size_t(block.begin) * n_out_ + first,
          std::size_t(n_out_), block.size(), n_in_, std::min(kPanel, n_out_ - first)});
      }
    });
  }

 private:
  std::size_t panel_bytes() const { return std::size_t(n_in_) * kPanel * element_bytes(dtype_); }

  void store(std::byte* panel, std::size_t index, float value) const {
    switch (dtype_) {
      case DType::kF32:
        reinterpret_cast<float*>(panel)[index] = value;
        break;
      case DType::kBF16:
        reinterpret_cast<std::uint16_t*>(panel)[index] = bf16_bits(value);
        break;
      case DType::kF16:
        reinterpret_cast<std::uint16_t*>(panel)[index] = f16_bits(value);
        break;
    }
  }

  int n_out_;
  int n_in_;
  DType dtype_;
  int n_panels_ = 0;
  AlignedBuffer panels_;
};

}  // namespace

std::unique_ptr<CpuMatrix> make_portable_matrix(ThreadPool& pool, const ReadRows& rows, int n_out,
                                                int n_in, DType dtype) {
  return std::make_unique<PortableMatrix>(pool, rows, n_out, n_in, dtype);
}

std::string portable_target() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace kvscope::cpu
#endif  // HWY_ONCE
