#include "runner/backend/cpu/onednn_matrix.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "runner/backend/cpu/elementwise.h"
#include "runner/backend/cpu/onednn_context.h"

namespace kvscope::cpu {
namespace {

// The layout unit of the packed weights is 64 columns; other widths pad it.
constexpr int kColumnUnit = 64;
// Up to here our own kernel is faster (docs/performance.md).
constexpr int kFewRows = 48;

// Enough slices to balance a few threads, wide ones where there are many columns. The middle one of
// an odd number is halved so that two threads get equal columns.
std::vector<Range> column_slices(int n_out) {
  const int width = n_out < 2048 ? kColumnUnit : n_out < 8192 ? 3 * kColumnUnit : 12 * kColumnUnit;
  std::vector<Range> slices = cut(n_out, width);
  const std::size_t middle = slices.size() / 2;
  if (slices.size() % 2 == 1 && slices[middle].size() == kColumnUnit) {
    const int half = slices[middle].begin + kColumnUnit / 2;
    slices.insert(slices.begin() + middle, {slices[middle].begin, half});
    slices[middle + 1].begin = half;
  }
  return slices;
}

class OneDnnMatrix final : public CpuMatrix {
 public:
  OneDnnMatrix(std::shared_ptr<OneDnnContext> context, std::span<const float> weights, int n_out,
               int n_in, DType dtype)
      : context_(std::move(context)), n_out_(n_out), n_in_(n_in), dtype_(dtype) {
    std::size_t bytes = 0;
    for (const Range& columns : column_slices(n_out)) {
      Slice slice{columns, context_->packed_layout(columns.size(), n_in, dtype), bytes,
                  context_->panel_order(columns.size(), n_in, dtype)};
      bytes += (slice.layout.get_size() + kAlignment - 1) / kAlignment * kAlignment;
      few_rows_ = few_rows_ && slice.order.panel_columns > 0;
      slices_.push_back(std::move(slice));
    }
    packed_ = AlignedBuffer(bytes);
    for (const Slice& slice : slices_) {
      context_->pack(slice.layout, weights.data() + std::size_t(slice.columns.begin) * n_in,
                     packed_.data() + slice.offset);
    }
  }

  int n_out() const override { return n_out_; }
  int n_in() const override { return n_in_; }
  std::size_t bytes() const override { return packed_.size(); }

  void multiply(ThreadPool& pool, const float* x, int rows, float* y) const override {
    if (rows == 0) return;
    const std::byte* input = reinterpret_cast<const std::byte*>(x);
    if (dtype_ == DType::kBF16) {
      const std::size_t elements = std::size_t(rows) * n_in_;
      std::uint16_t* rounded = context_->rounded(elements);
      round_to_bf16(pool, {x, elements}, rounded);
      input = reinterpret_cast<const std::byte*>(rounded);
    }
    if (few_rows_ && rows <= kFewRows) {
      // Neighbouring slices in one task: each fetches the next one's weights. Few tasks of equal
      // columns, more where the matrix is large enough to balance a busy machine.
      const std::size_t n_tasks =
          std::min(slices_.size(), std::size_t(pool.size()) * (slices_.size() < 8 * std::size_t(pool.size()) ? 1 : 4));
      pool.parallel_for(n_tasks, [&](std::size_t i, int) {
        multiply_few(slices_.size() * i / n_tasks, slices_.size() * (i + 1) / n_tasks, rows, input,
                     y);
      });
      return;
    }
    const std::vector<Range> row_blocks = cut(rows, kRowBlock);
    std::vector<OneDnnContext::Block*> blocks;  // [slice][whole, last]
    for (const Slice& s : slices_) {
      for (const Range& r : {row_blocks.front(), row_blocks.back()}) {
        blocks.push_back(&context_->block({r.size(), s.columns.size(), n_in_, dtype_}, s.layout));
      }
    }
    pool.parallel_for(slices_.size() * row_blocks.size(), [&](std::size_t i, int worker) {
      const std::size_t s = i / row_blocks.size();
      const std::size_t b = i % row_blocks.size();
      OneDnnContext::Block& block = *blocks[2 * s + (b + 1 == row_blocks.size())];
      multiply_block(block, slices_[s], row_blocks[b], worker, input, y);
    });
  }

 private:
  struct Slice {
    Range columns;
    dnnl::memory::desc layout;
    std::size_t offset;
    PanelOrder order;
  };
  static constexpr std::size_t kAlignment = 4096;

  void multiply_few(std::size_t begin, std::size_t end, int rows, const std::byte* x,
                    float* y) const {
    FewRowsJob job;
    job.x = x;
    job.y_stride = n_out_;
    job.n_rows = rows;
    job.n_in = n_in_;
    const auto multiply = [&] { dtype_ == DType::kF32 ? few_rows_f32(job) : few_rows_bf16(job); };
    for (std::size_t s = begin; s < end; ++s) {
      const Slice& slice = slices_[s];
      const int width = slice.order.panel_columns;
      for (int first = 0; first < slice.columns.size(); first += width) {
        job.next_panel =
            packed_.data() + slice.offset + std::size_t(first) * n_in_ * element_bytes(dtype_);
        if (job.panel != nullptr) multiply();
        job.panel = job.next_panel;
        job.y = y + slice.columns.begin + first;
        job.panel_columns = width;
        job.n_columns = std::min(width, slice.columns.size() - first);
        job.chunk = slice.order.chunk;
      }
    }
    job.next_panel = nullptr;
    multiply();
  }

  void multiply_block(OneDnnContext::Block& block, const Slice& slice, const Range& rows,
                      int worker, const std::byte* x, float* y) const {
    const int columns = slice.columns.size();
    float* out = y + std::size_t(rows.begin) * n_out_ + slice.columns.begin;
    // One row, or rows without a gap between them, need no copy.
    const bool direct = rows.size() == 1 || columns == n_out_;
    float* result = direct ? out : context_->output(worker, std::size_t(rows.size()) * columns);
    context_->multiply(block, worker, x + std::size_t(rows.begin) * n_in_ * element_bytes(dtype_),
                       packed_.data() + slice.offset, result);
    if (direct) return;
    for (int r = 0; r < rows.size(); ++r) {
      std::memcpy(out + std::size_t(r) * n_out_, result + std::size_t(r) * columns,
                  columns * sizeof(float));
    }
  }

  std::shared_ptr<OneDnnContext> context_;
  int n_out_;
  int n_in_;
  DType dtype_;
  std::vector<Slice> slices_;
  bool few_rows_ = true;  // every slice can be read by our own kernel
  AlignedBuffer packed_;
};

bool includes(int isa, int wanted) { return (isa & wanted) == wanted; }

}  // namespace

OneDnnSupport onednn_support() {
  // Row stability of the AMX kernels is not measured, so they are left out unless the user names an
  // instruction set. The call is refused once oneDNN has started; then the same limit is set
  // already.
  if (!std::getenv("DNNL_MAX_CPU_ISA")) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
  const int isa = int(dnnl::get_effective_cpu_isa());
  OneDnnSupport support;
  support.f32 = includes(isa, dnnl_cpu_isa_avx512_core);
  support.bf16 =
      includes(isa, dnnl_cpu_isa_avx512_core_bf16) && !includes(isa, dnnl_cpu_isa_avx512_core_amx);
  const dnnl_version_t& v = *dnnl_version();
  support.description = "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." +
                        std::to_string(v.patch) + " AVX-512" + (support.bf16 ? " bf16" : "");
  return support;
}

std::shared_ptr<OneDnnContext> make_onednn_context(int n_workers) {
  return std::make_shared<OneDnnContext>(n_workers);
}

std::unique_ptr<CpuMatrix> make_onednn_matrix(std::shared_ptr<OneDnnContext> context,
                                              std::span<const float> weights, int n_out, int n_in,
                                              DType dtype) {
  return std::make_unique<OneDnnMatrix>(std::move(context), weights, n_out, n_in, dtype);
}

}  // namespace kvscope::cpu
