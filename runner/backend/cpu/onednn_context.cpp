#include "runner/backend/cpu/onednn_context.h"

#include <omp.h>

#include <cstring>
#include <stdexcept>

#include "runner/base/half.h"
#include "runner/base/splitmix.h"

namespace kvscope::cpu {
namespace {

using dnnl::memory;

// Packed weights of one block shape serve every number of rows; this one fixes the layout.
constexpr int kRowsThatFixLayout = 64;

memory::data_type onednn_type(DType t) {
  return t == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const BlockShape& s,
                                      const memory::desc* packed) {
  omp_set_num_threads(1);  // a description remembers the number of threads it was made for
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

// Width of the panels if the layout is [columns / width][n_in][width], for bf16 with pairs of n_in
// side by side; otherwise 0.
int panel_width(const memory::desc& packed, int columns, int n_in, DType dtype) {
  const dnnl_memory_desc_t& d = packed.data;
  if (d.format_kind != dnnl_blocked) return 0;
  const dnnl_blocking_desc_t& b = d.format_desc.blocking;
  const int n_inner = dtype == DType::kBF16 ? 3 : 2;
  if (b.inner_nblks != n_inner || b.inner_idxs[0] != 0 || b.inner_idxs[1] != 1) return 0;
  if (n_inner == 3 && (b.inner_idxs[2] != 0 || b.inner_blks[2] != 2)) return 0;
  const auto width = int(b.inner_blks[1]);
  const bool known_width = width == 16 || width == 32 || width == 48 || width == 64;
  const bool one_panel = d.padded_dims[1] == width && columns <= width;
  const bool whole_panels = columns % width == 0 && d.padded_dims[1] == columns;
  if (!known_width || d.padded_dims[0] != n_in || !(one_panel || whole_panels)) return 0;
  const auto k_block = int(b.inner_blks[0] * (n_inner == 3 ? b.inner_blks[2] : 1));
  if (b.strides[0] != dnnl_dim_t(k_block) * width) return 0;
  if (!one_panel && b.strides[1] != dnnl_dim_t(n_in) * width) return 0;
  return width;
}

}  // namespace

struct OneDnnContext::Block {
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

OneDnnContext::OneDnnContext(int n_workers)
    : n_workers_(n_workers), engine_(dnnl::engine::kind::cpu, 0), outputs_(n_workers) {
  for (int w = 0; w < n_workers; ++w) streams_.emplace_back(engine_);
}

memory::desc OneDnnContext::packed_layout(int columns, int n_in, DType dtype) {
  return describe(engine_, {kRowsThatFixLayout, columns, n_in, dtype}, nullptr).weights_desc();
}

void OneDnnContext::pack(int worker, const memory::desc& layout, const float* weights,
                         std::byte* to) {
  const auto dims = layout.dims();  // n_in, columns
  const memory::desc plain(dims, memory::data_type::f32, memory::format_tag::ba);
  memory source(plain, engine_, const_cast<float*>(weights));
  memory target(layout, engine_, to);
  omp_set_num_threads(1);
  dnnl::reorder(source, target).execute(streams_[worker], source, target);
  streams_[worker].wait();
}

OneDnnContext::Block& OneDnnContext::block(const BlockShape& shape, const memory::desc& packed) {
  const auto found = blocks_.find(shape);
  if (found != blocks_.end()) return *found->second;
  auto made = std::make_shared<Block>(engine_, shape, packed, n_workers_);
  return *blocks_.emplace(shape, std::move(made)).first->second;
}

void OneDnnContext::multiply(Block& block, int worker, const std::byte* x, const std::byte* packed,
                             float* y) {
  Block::Arguments& a = block.arguments[worker];
  a.x.set_data_handle(const_cast<std::byte*>(x));
  a.weights.set_data_handle(const_cast<std::byte*>(packed));
  a.y.set_data_handle(y);
  if (dnnl_primitive_execute(block.primitive.get(), streams_[worker].get(), 4, a.list) !=
      dnnl_success) {
    throw std::runtime_error("oneDNN: a matrix product failed");
  }
}

PanelOrder OneDnnContext::panel_order(int columns, int n_in, DType dtype) {
  const auto key = std::tuple(columns, n_in, dtype);
  const auto found = orders_.find(key);
  if (found != orders_.end()) return found->second;
  return orders_.emplace(key, find_panel_order(columns, n_in, dtype)).first->second;
}

// The library does not say in which order it sums; 2.6.3 adds chains of 512 or 1024 products
// (measured). So the order is found by trying: the bits of random products must agree.
PanelOrder OneDnnContext::find_panel_order(int columns, int n_in, DType dtype) {
  const bool wide = dtype == DType::kF32;
  const memory::desc layout = packed_layout(columns, n_in, dtype);
  PanelOrder order{panel_width(layout, columns, n_in, dtype), 0};
  if (order.panel_columns == 0 || !(wide ? has_few_rows_f32() : has_few_rows_bf16())) return {};

  std::uint64_t state = 0;
  const auto number = [&] { return float(std::int64_t(smix(++state)) >> 40) * 0x1p-23F; };
  std::vector<float> weights(std::size_t(columns) * n_in);
  for (float& w : weights) w = number();
  AlignedBuffer packed(layout.get_size());
  pack(0, layout, weights.data(), packed.data());
  std::vector<float> x(std::size_t(kRowBlock) * n_in);
  std::vector<std::uint16_t> x_half(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x_half[i] = bf16_bits(x[i] = number());
  const auto* input = wide ? reinterpret_cast<const std::byte*>(x.data())
                           : reinterpret_cast<const std::byte*>(x_half.data());

  constexpr int kRowCounts[] = {1, 7, 32, kRowBlock};
  std::vector<std::vector<float>> expected;
  for (const int rows : kRowCounts) {
    expected.emplace_back(std::size_t(rows) * columns);
    multiply(block({rows, columns, n_in, dtype}, layout), 0, input, packed.data(),
             expected.back().data());
  }
  std::vector<float> own(std::size_t(kRowBlock) * columns);
  const auto agrees = [&](int chunk) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int rows = kRowCounts[i];
      for (int first = 0; first < columns; first += order.panel_columns) {
        FewRowsJob job{packed.data() + std::size_t(first) * n_in * element_bytes(dtype),
                       input,
                       own.data() + first,
                       std::size_t(columns),
                       rows,
                       n_in,
                       order.panel_columns,
                       std::min(order.panel_columns, columns - first),
                       chunk,
                       nullptr};
        wide ? few_rows_f32(job) : few_rows_bf16(job);
      }
      if (std::memcmp(own.data(), expected[i].data(), expected[i].size() * sizeof(float)) != 0)
        return false;
    }
    return true;
  };
  for (const int chunk : {n_in, 64, 128, 256, 512, 1024, 2048, 4096}) {
    if (chunk > n_in || !agrees(chunk)) continue;
    order.chunk = chunk;
    return order;
  }
  return {};
}

float* OneDnnContext::output(int worker, std::size_t floats) {
  AlignedBuffer& buffer = outputs_[worker];
  if (buffer.size() < floats * sizeof(float))
    buffer = AlignedBuffer(floats * sizeof(float), AlignedBuffer::Contents::kUndefined);
  return buffer.as<float>();
}

std::uint16_t* OneDnnContext::rounded(std::size_t elements) {
  if (rounded_.size() < elements * sizeof(std::uint16_t)) {
    rounded_ = AlignedBuffer(elements * sizeof(std::uint16_t));
  }
  return rounded_.as<std::uint16_t>();
}

}  // namespace kvscope::cpu
