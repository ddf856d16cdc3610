#include "runner/backend/cpu/onednn_matrix.h"

#include <omp.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <tuple>

#include "runner/backend/cpu/elementwise.h"
#include "runner/base/aligned_buffer.h"

namespace kvscope::cpu {
namespace {

using dnnl::memory;

// The layout unit of the packed weights is 64 columns; other widths pad it.
constexpr int kColumnUnit = 64;
// Rows of one primitive call: few distinct primitives, and a block of x stays in the second-level
// cache.
constexpr int kRowBlock = 128;
// Packed weights of one block shape serve every number of rows; this one fixes the layout.
constexpr int kRowsThatFixLayout = 64;

memory::data_type onednn_type(DType t) {
  return t == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// Enough slices to balance a few threads, wide ones where there are many columns. An odd last unit
// of a narrow matrix is halved so that two threads get equal columns.
std::vector<Range> column_slices(int n_out) {
  const int width = n_out < 2048 ? kColumnUnit : n_out < 8192 ? 3 * kColumnUnit : 12 * kColumnUnit;
  std::vector<Range> slices = cut(n_out, width);
  if (slices.size() % 2 == 1 && slices.back().size() == kColumnUnit) {
    const Range last = slices.back();
    const int middle = last.begin + kColumnUnit / 2;
    slices.back() = {last.begin, middle};
    slices.push_back({middle, last.end});
  }
  return slices;
}

struct BlockShape {
  int rows;
  int columns;
  int n_in;
  DType dtype;
  auto operator<=>(const BlockShape&) const = default;
};

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const BlockShape& s,
                                      const memory::desc* packed) {
  const memory::desc x({s.rows, s.n_in}, onednn_type(s.dtype), memory::format_tag::ab);
  const memory::desc y({s.rows, s.columns}, memory::data_type::f32, memory::format_tag::ab);
  const memory::desc any({s.n_in, s.columns}, onednn_type(s.dtype), memory::format_tag::any);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {dnnl::matmul::desc(x, packed ? *packed : any, y), attributes, engine};
}

memory empty_memory(const memory::desc& desc, const dnnl::engine& engine) {
  return memory(desc, engine, nullptr);
}

// A primitive and, per worker, the memory objects it is called with (creating them costs as much as
// a small product).
struct Block {
  struct Arguments {
    memory x, weights, y, scratchpad;
    AlignedBuffer scratch;
    dnnl_exec_arg_t list[4];
  };

  Block(const dnnl::engine& engine, const BlockShape& shape, const memory::desc& packed,
        int n_workers) {
    const auto description = describe(engine, shape, &packed);
    primitive = dnnl::matmul(description);
    for (int w = 0; w < n_workers; ++w) {
      AlignedBuffer scratch(description.scratchpad_desc().get_size());
      Arguments a{empty_memory(description.src_desc(), engine),
                  empty_memory(packed, engine),
                  empty_memory(description.dst_desc(), engine),
                  memory(description.scratchpad_desc(), engine, scratch.data()),
                  std::move(scratch),
                  {}};
      a.list[0] = {DNNL_ARG_SRC, a.x.get()};
      a.list[1] = {DNNL_ARG_WEIGHTS, a.weights.get()};
      a.list[2] = {DNNL_ARG_DST, a.y.get()};
      a.list[3] = {DNNL_ARG_SCRATCHPAD, a.scratchpad.get()};
      arguments.push_back(std::move(a));
    }
  }

  dnnl::matmul primitive;
  std::vector<Arguments> arguments;  // [worker]
};

}  // namespace

class OneDnnContext {
 public:
  explicit OneDnnContext(int n_workers)
      : engine(dnnl::engine::kind::cpu, 0), n_workers_(n_workers) {
    for (int w = 0; w < n_workers; ++w) streams.emplace_back(engine);
    outputs.resize(n_workers);
  }

  memory::desc packed_layout(int columns, int n_in, DType dtype) {
    return describe(engine, {kRowsThatFixLayout, columns, n_in, dtype}, nullptr).weights_desc();
  }

  Block& block(const BlockShape& shape, const memory::desc& packed) {
    const auto found = blocks_.find(shape);
    if (found != blocks_.end()) return *found->second;
    omp_set_num_threads(1);  // a primitive remembers the number of threads it was made for
    auto made = std::make_unique<Block>(engine, shape, packed, n_workers_);
    return *blocks_.emplace(shape, std::move(made)).first->second;
  }

  // The primitives know no row stride for their output; rows of a block are copied out of here.
  float* output(int worker, std::size_t floats) {
    AlignedBuffer& buffer = outputs[worker];
    if (buffer.size() < floats * sizeof(float)) buffer = AlignedBuffer(floats * sizeof(float));
    return buffer.as<float>();
  }

  // Room for x rounded to bf16.
  std::uint16_t* rounded(std::size_t elements) {
    if (rounded_.size() < elements * sizeof(std::uint16_t)) {
      rounded_ = AlignedBuffer(elements * sizeof(std::uint16_t));
    }
    return rounded_.as<std::uint16_t>();
  }

  dnnl::engine engine;
  std::vector<dnnl::stream> streams;   // [worker]
  std::vector<AlignedBuffer> outputs;  // [worker]

 private:
  int n_workers_;
  AlignedBuffer rounded_;
  std::map<BlockShape, std::unique_ptr<Block>> blocks_;
};

namespace {

class OneDnnMatrix final : public CpuMatrix {
 public:
  OneDnnMatrix(std::shared_ptr<OneDnnContext> context, std::span<const float> weights, int n_out,
               int n_in, DType dtype)
      : context_(std::move(context)), n_out_(n_out), n_in_(n_in), dtype_(dtype) {
    std::size_t bytes = 0;
    for (const Range& columns : column_slices(n_out)) {
      Slice slice{columns, context_->packed_layout(columns.size(), n_in, dtype), bytes};
      bytes += (slice.packed.get_size() + kAlignment - 1) / kAlignment * kAlignment;
      slices_.push_back(std::move(slice));
    }
    packed_ = AlignedBuffer(bytes);
    omp_set_num_threads(1);
    for (const Slice& slice : slices_)
      pack(slice, weights.data() + std::size_t(slice.columns.begin) * n_in);
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
    const std::vector<Range> row_blocks = cut(rows, kRowBlock);
    std::vector<Block*> blocks;  // [slice][whole, last]
    for (const Slice& s : slices_) {
      for (const Range& r : {row_blocks.front(), row_blocks.back()}) {
        blocks.push_back(&context_->block({r.size(), s.columns.size(), n_in_, dtype_}, s.packed));
      }
    }
    pool.parallel_for(slices_.size() * row_blocks.size(), [&](std::size_t i, int worker) {
      const std::size_t s = i / row_blocks.size();
      const std::size_t b = i % row_blocks.size();
      Block& block = *blocks[2 * s + (b + 1 == row_blocks.size())];
      run(block, slices_[s], row_blocks[b], worker, input, y);
    });
  }

 private:
  struct Slice {
    Range columns;
    memory::desc packed;
    std::size_t offset;
  };
  static constexpr std::size_t kAlignment = 4096;

  void pack(const Slice& slice, const float* rows) {
    const memory::desc plain({n_in_, slice.columns.size()}, memory::data_type::f32,
                             memory::format_tag::ba);
    memory from(plain, context_->engine, const_cast<float*>(rows));
    memory to(slice.packed, context_->engine, packed_.data() + slice.offset);
    dnnl::reorder(from, to).execute(context_->streams[0], from, to);
    context_->streams[0].wait();
  }

  void run(Block& block, const Slice& slice, const Range& rows, int worker, const std::byte* x,
           float* y) const {
    const int columns = slice.columns.size();
    float* out = y + std::size_t(rows.begin) * n_out_ + slice.columns.begin;
    // One row, or rows without a gap between them, need no copy.
    const bool direct = rows.size() == 1 || columns == n_out_;
    float* result = direct ? out : context_->output(worker, std::size_t(rows.size()) * columns);
    Block::Arguments& a = block.arguments[worker];
    a.x.set_data_handle(const_cast<std::byte*>(x) +
                        std::size_t(rows.begin) * n_in_ * element_bytes(dtype_));
    a.weights.set_data_handle(packed_.data() + slice.offset);
    a.y.set_data_handle(result);
    if (dnnl_primitive_execute(block.primitive.get(), context_->streams[worker].get(), 4, a.list) !=
        dnnl_success) {
      throw std::runtime_error("oneDNN: a matrix product failed");
    }
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
