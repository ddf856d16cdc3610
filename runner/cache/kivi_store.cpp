#include "runner/cache/kivi_store.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>
#include <utility>

#include "runner/base/error.h"
#include "runner/cache/kv_codec.h"
#include "runner/cache/page_pool.h"
#include "runner/model/config.h"

namespace kvscope {

void check_kivi(const KiviOptions& options, int head_dim) {
  const auto number = [](int n) { return std::to_string(n); };
  if (options.bits != 2 && options.bits != 4 && options.bits != 8)
    throw UsageError("kivi: bits=" + number(options.bits) + ", but takes 2, 4 or 8");
  if (options.group < 1 || head_dim % options.group != 0) {
    throw UsageError("kivi: group=" + number(options.group) + " does not divide the head size " +
                     number(head_dim) + "; choose a divisor of it");
  }
  if (options.residual_tokens < 1 || options.residual_tokens % options.group != 0) {
    throw UsageError("kivi: residual=" + number(options.residual_tokens) +
                     " is no multiple of group=" + number(options.group) +
                     "; choose one that is at least the group");
  }
}

std::int64_t KiviStore::block_bytes(const KiviOptions& options, int n_rows, int row_length) {
  const std::int64_t codes = words_for(row_length, options.bits) * sizeof(std::uint32_t);
  const std::int64_t min_max = row_length / options.group * 2 * sizeof(std::uint16_t);
  return n_rows * (codes + min_max);
}

std::int64_t KiviStore::Block::bytes() const {
  return std::int64_t(codes.size() * sizeof(std::uint32_t) +
                      min_max.size() * sizeof(std::uint16_t));
}

KiviBytes kivi_bytes(const KiviOptions& options, int head_dim, int n_keys, int n_values) {
  const int key_blocks = n_keys / options.residual_tokens;
  const int value_blocks = (n_values + kPageSlots - 1) / kPageSlots;
  const std::int64_t keys =
      key_blocks * KiviStore::block_bytes(options, head_dim, options.residual_tokens);
  const std::int64_t value = KiviStore::block_bytes(options, 1, head_dim);
  return {keys + n_values * value, keys + value_blocks * kPageSlots * value,
          std::int64_t(key_blocks + value_blocks) *
              std::int64_t(sizeof(std::shared_ptr<const KiviStore::Block>))};
}

KiviStore::KiviStore(const KiviOptions& options, int head_dim, Memory* memory)
    : options_(options), head_dim_(head_dim), memory_(memory) {
  check_kivi(options, head_dim);
}

KiviBytes KiviStore::bytes() const {
  KiviBytes bytes = kivi_bytes(options_, head_dim_, n_keys(), n_values_);
  bytes.physical_bytes = held_bytes_;
  return bytes;
}

void KiviStore::clear() {
  keys_.clear();
  values_.clear();
  open_ = {};
  n_values_ = 0;
  held_bytes_ = 0;
}

KiviStore::Block KiviStore::empty_block(int n_rows, int row_length) const {
  Block block{SharedVector<std::uint32_t>(memory_), SharedVector<std::uint16_t>(memory_)};
  block.codes.assign(std::size_t(n_rows) * words_for(row_length, options_.bits), 0);
  block.min_max.assign(std::size_t(n_rows) * (row_length / options_.group) * 2, 0);
  return block;
}

void KiviStore::quantise_row(Block& block, int row, std::span<const float> x) const {
  const int row_length = int(x.size());
  std::uint32_t* codes =
      block.codes.data() + std::size_t(row) * words_for(row_length, options_.bits);
  std::uint16_t* min_max =
      block.min_max.data() + std::size_t(row) * (row_length / options_.group) * 2;
  for (int first = 0; first < row_length; first += options_.group) {
    const StoredMinMax stored =
        stored_min_max_of(x.subspan(first, std::size_t(options_.group)), options_.bits);
    *min_max++ = stored.scale;
    *min_max++ = stored.zero;
    const MinMax group = stored.wide();
    for (int i = first; i < first + options_.group; ++i)
      pack_code(codes, i, options_.bits, min_max_code(x[i], group, options_.bits));
  }
}

namespace {

// bits is a constant here, so that places of codes are shifts and not divisions.
template <int kBits>
void dequantise(const std::uint32_t* codes, const std::uint16_t* min_max, int group_length,
                int first, int n, float* out) {
  const int end = first + n;
  for (int i = first, g = first / group_length; i < end; ++g) {
    const MinMax group = StoredMinMax{min_max[2 * g], min_max[2 * g + 1]}.wide();
    const int group_end = std::min(end, (g + 1) * group_length);
    for (; i < group_end; ++i) *out++ = from_min_max_code(unpack_code(codes, i, kBits), group);
  }
}

}  // namespace

void KiviStore::read_row(const Block& block, int row, int row_length, int first, int n,
                         float* out) const {
  const int group = options_.group;
  const std::uint32_t* codes =
      block.codes.data() + std::size_t(row) * words_for(row_length, options_.bits);
  const std::uint16_t* min_max = block.min_max.data() + std::size_t(row) * (row_length / group) * 2;
  switch (options_.bits) {
    case 2:
      return dequantise<2>(codes, min_max, group, first, n, out);
    case 4:
      return dequantise<4>(codes, min_max, group, first, n, out);
    default:
      return dequantise<8>(codes, min_max, group, first, n, out);
  }
}

void KiviStore::add_keys(std::span<const float> keys) {
  const int n = options_.residual_tokens;
  assert(keys.size() == std::size_t(n) * head_dim_);
  auto block = std::make_shared<Block>(empty_block(head_dim_, n));
  std::vector<float> channel(n);
  for (int i = 0; i < head_dim_; ++i) {
    for (int token = 0; token < n; ++token)
      channel[token] = keys[std::size_t(token) * head_dim_ + i];
    quantise_row(*block, i, channel);
  }
  held_bytes_ += block->bytes();
  keys_.push_back(std::move(block));
}

void KiviStore::add_value(std::span<const float> value) {
  assert(int(value.size()) == head_dim_);
  const int row = n_values_ % kPageSlots;
  if (row == 0) {
    open_ = empty_block(kPageSlots, head_dim_);
    held_bytes_ += open_.bytes();
  }
  quantise_row(open_, row, value);
  ++n_values_;
  if (row + 1 == kPageSlots) values_.push_back(std::make_shared<Block>(std::exchange(open_, {})));
}

std::vector<KiviStore::BlockView> KiviStore::key_blocks() const {
  std::vector<BlockView> views;
  for (const auto& block : keys_) views.push_back({block->codes.data(), block->min_max.data()});
  return views;
}

std::vector<KiviStore::BlockView> KiviStore::value_blocks() const {
  std::vector<BlockView> views;
  for (const auto& block : values_) views.push_back({block->codes.data(), block->min_max.data()});
  if (n_values_ % kPageSlots > 0) views.push_back({open_.codes.data(), open_.min_max.data()});
  return views;
}

void KiviStore::read_keys(int first, int n, float* out, int stride) const {
  assert(first + n <= n_keys());
  for (int done = 0; done < n;) {
    const int token = first + done;
    const int within = token % options_.residual_tokens;
    const int run = std::min(n - done, options_.residual_tokens - within);
    const Block& block = *keys_[token / options_.residual_tokens];
    for (int i = 0; i < head_dim_; ++i)
      read_row(block, i, options_.residual_tokens, within, run,
               out + std::size_t(i) * stride + done);
    done += run;
  }
}

void KiviStore::read_values(int first, int n, float* out) const {
  assert(first + n <= n_values_);
  for (int token = first; token < first + n; ++token) {
    const std::size_t block = std::size_t(token / kPageSlots);
    read_row(block < values_.size() ? *values_[block] : open_, token % kPageSlots, head_dim_, 0,
             head_dim_, out + std::size_t(token - first) * head_dim_);
  }
}

}  // namespace kvscope
