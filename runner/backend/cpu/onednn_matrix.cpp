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
constexpr int kFewRows = 64;

// Columns that one task of few rows is rounded to, so that two threads get equal shares of 576.
constexpr int kTaskUnit = 32;
// From here on tasks are blocks of rows times all columns, whose results need no copy.
constexpr int kManyRows = 2 * kRowBlock;
// Widest matrix for that: one block of rows should not keep the weights of the next from the cache.
constexpr int kWidestWhole = 8192;

// Enough slices to balance a few threads, wide ones where there are many columns.
std::vector<Range> column_slices(int n_out) {
  const int width = n_out < 2048 ? kColumnUnit : n_out < 8192 ? 3 * kColumnUnit : 12 * kColumnUnit;
  return cut(n_out, width);
}

class OneDnnMatrix final : public CpuMatrix {
 public:
  OneDnnMatrix(ThreadPool& pool, std::shared_ptr<OneDnnContext> context, const ReadRows& rows,
               int n_out, int n_in, DType dtype)
      : context_(std::move(context)), n_out_(n_out), n_in_(n_in), dtype_(dtype) {
    std::size_t bytes = 0;
    for (const Range& columns : column_slices(n_out)) {
      Slice slice{columns, context_->packed_layout(columns.size(), n_in, dtype), bytes,
                  context_->panel_order(columns.size(), n_in, dtype)};
      bytes += slice.layout.get_size();
      slices_.push_back(std::move(slice));
      few_rows_ = few_rows_ && slices_.back().order.panel_columns > 0 &&
                  slices_.back().order == slices_.front().order;
    }
    // The slices' panels lie one behind the other: together they are the whole matrix's layout.
    if (few_rows_ && n_out % kColumnUnit == 0 && n_out <= kWidestWhole) {
      whole_ = context_->packed_layout(n_out, n_in, dtype);
      has_whole_ = context_->panel_order(n_out, n_in, dtype) == slices_.front().order &&
                   whole_.get_size() == bytes;
    }
    packed_ = AlignedBuffer(bytes, AlignedBuffer::Contents::kUndefined);
    pool.parallel_for(slices_.size(), [&](std::size_t s, int worker) {
      const Slice& slice = slices_[s];
      float* weights = context_->output(worker, std::size_t(slice.columns.size()) * n_in);
      rows(slice.columns.begin, slice.columns.size(), weights);
      context_->pack(worker, slice.layout, weights, packed_.data() + slice.offset);
    });
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
      multiply_few_rows(pool, input, rows, y);
    } else if (has_whole_ && rows >= kManyRows) {
      multiply_whole_rows(pool, input, rows, y);
    } else {
      multiply_slices(pool, input, rows, y);
    }
  }

 private:
  struct Slice {
    Range columns;
    dnnl::memory::desc layout;
    std::size_t offset;
    PanelOrder order;
  };

  const std::byte* row_of(const std::byte* x, int row) const {
    return x + std::size_t(row) * n_in_ * element_bytes(dtype_);
  }

  // Few tasks of equal columns; more of them where the matrix is large enough to balance a busy
  // machine.
  void multiply_few_rows(ThreadPool& pool, const std::byte* x, int rows, float* y) const {
    const int n_units = (n_out_ + kTaskUnit - 1) / kTaskUnit;
    const int n_tasks = std::min(n_units, pool.size() * (n_units < 64 * pool.size() ? 1 : 4));
    pool.parallel_for(n_tasks, [&](std::size_t i, int) {
      const int begin = int(std::size_t(n_units) * i / n_tasks) * kTaskUnit;
      const int end = int(std::size_t(n_units) * (i + 1) / n_tasks) * kTaskUnit;
      multiply_columns({begin, std::min(end, n_out_)}, x, rows, y);
    });
  }

  void multiply_columns(const Range& columns, const std::byte* x, int rows, float* y) const {
    const PanelOrder& order = slices_.front().order;
    const int width = order.panel_columns;
    FewRowsJob job;
    job.x = x;
    job.y_stride = n_out_;
    job.n_rows = rows;
    job.n_in = n_in_;
    job.panel_columns = width;
    job.chunk = order.chunk;
    const auto multiply = [&] { dtype_ == DType::kF32 ? few_rows_f32(job) : few_rows_bf16(job); };
    for (int first = columns.begin; first < columns.end;) {
      const int end = std::min(columns.end, (first / width + 1) * width);
      const int pair = dtype_ == DType::kBF16 ? 2 : 1;
      const std::size_t panel = std::size_t(first / width) * width * n_in_;
      job.next_panel =
          packed_.data() + (panel + std::size_t(first % width) * pair) * element_bytes(dtype_);
      if (job.panel != nullptr) multiply();
      job.panel = job.next_panel;
      job.y = y + first;
      job.n_columns = end - first;
      first = end;
    }
    job.next_panel = nullptr;
    multiply();
  }

  void multiply_whole_rows(ThreadPool& pool, const std::byte* x, int rows, float* y) const {
    const std::vector<Range> row_blocks = cut(rows, kRowBlock);
    OneDnnContext::Block& whole = block_of(row_blocks.front().size(), n_out_, whole_);
    OneDnnContext::Block& last = block_of(row_blocks.back().size(), n_out_, whole_);
    pool.parallel_for(row_blocks.size(), [&](std::size_t b, int worker) {
      const Range& r = row_blocks[b];
      context_->multiply(b + 1 == row_blocks.size() ? last : whole, worker, row_of(x, r.begin),
                         packed_.data(), y + std::size_t(r.begin) * n_out_);
    });
  }

  void multiply_slices(ThreadPool& pool, const std::byte* x, int rows, float* y) const {
    const std::vector<Range> row_blocks = cut(rows, kRowBlock);
    std::vector<OneDnnContext::Block*> blocks;  // [slice][whole, last]
    for (const Slice& s : slices_) {
      for (const Range& r : {row_blocks.front(), row_blocks.back()})
        blocks.push_back(&block_of(r.size(), s.columns.size(), s.layout));
    }
    pool.parallel_for(slices_.size() * row_blocks.size(), [&](std::size_t i, int worker) {
      const std::size_t s = i / row_blocks.size();
      const std::size_t b = i % row_blocks.size();
      OneDnnContext::Block& block = *blocks[2 * s + (b + 1 == row_blocks.size())];
      multiply_block(block, slices_[s], row_blocks[b], worker, x, y);
    });
  }

  OneDnnContext::Block& block_of(int rows, int columns, const dnnl::memory::desc& layout) const {
    return context_->block({rows, columns, n_in_, dtype_}, layout);
  }

  void multiply_block(OneDnnContext::Block& block, const Slice& slice, const Range& rows,
                      int worker, const std::byte* x, float* y) const {
    const int columns = slice.columns.size();
    float* out = y + std::size_t(rows.begin) * n_out_ + slice.columns.begin;
    // One row, or rows without a gap between them, need no copy.
    const bool direct = rows.size() == 1 || columns == n_out_;
    float* result = direct ? out : context_->output(worker, std::size_t(rows.size()) * columns);
    context_->multiply(block, worker, row_of(x, rows.begin), packed_.data() + slice.offset, result);
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
  dnnl::memory::desc whole_;
  bool has_whole_ = false;  // the packed slices are also one block of all columns, with equal bits
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

std::unique_ptr<CpuMatrix> make_onednn_matrix(ThreadPool& pool,
                                              std::shared_ptr<OneDnnContext> context,
                                              const ReadRows& rows, int n_out, int n_in,
                                              DType dtype) {
  return std::make_unique<OneDnnMatrix>(pool, std::move(context), rows, n_out, n_in, dtype);
}

}  // namespace kvscope::cpu
