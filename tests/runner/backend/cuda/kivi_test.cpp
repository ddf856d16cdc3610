// What KIVI quantised, read by a kernel, against what the store itself reads back.
#include "runner/backend/cuda/kivi.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "runner/cache/head_cache.h"
#include "tests/runner/backend/cuda/device_array.h"
#include "tests/runner/backend/cuda/device_pages.h"
#include "tests/runner/backend/cuda/floats.h"

namespace kvscope::cuda {
namespace {

using namespace testing;

class CudaKivi : public DeviceTest {};

// A head of n_slots random tokens, quantised as far as is due, and its parts on the device.
class QuantisedHead {
 public:
  QuantisedHead(const PageShape& shape, const KiviOptions& options, int n_slots, unsigned seed)
      : shape_(shape), pool_(shape), cache_(&pool_), out_(wide(shape), pages_for(n_slots)) {
    cache_.set_kivi(options);
    const auto d = std::size_t(shape.head_dim);
    const auto rows = random_floats(2 * n_slots * d, 2.0F, seed);
    for (int i = 0; i < n_slots; ++i) {
      const int slot = cache_.append_slot(i, {});
      const float* key = rows.data() + 2 * i * d;
      write_key(pool_, cache_.page_of(slot), slot % kPageSlots, key);
      write_value(pool_, cache_.page_of(slot), slot % kPageSlots, key + d);
      cache_.advance_quantisation();
    }
    const KiviStore& store = *cache_.kivi();
    const auto key_words = d * word_count(options, options.residual_tokens);
    const auto value_words = word_count(options, shape.head_dim);
    for (const auto& block : store.key_blocks())
      keys_.push_back(upload(block, key_words, d * (options.residual_tokens / options.group) * 2));
    const auto value_blocks = store.value_blocks();
    for (std::size_t b = 0; b < value_blocks.size(); ++b) {
      const auto n = std::min<std::size_t>(kPageSlots, store.n_values() - b * kPageSlots);
      values_.push_back(upload(value_blocks[b], n * value_words, n * (d / options.group) * 2));
    }
    for (const PageId page : cache_.pages()) {
      pages_.emplace_back(
          std::vector<std::byte>(pool_.keys(page), pool_.keys(page) + pool_.shape().page_bytes()));
      addresses_.push_back(pages_.back().data());
    }
    tables_.emplace_back(addresses_);
    tables_.emplace_back(out_.addresses());
    blocks_.emplace_back(keys_);
    blocks_.emplace_back(values_);
  }

  KiviHead head() const {
    const KiviStore& store = *cache_.kivi();
    return {blocks_[0].data(),
            blocks_[1].data(),
            store.n_keys(),
            store.n_values(),
            store.options().bits,
            store.options().group,
            store.options().residual_tokens,
            tables_[0].data(),
            cache_.first_page(),
            cache_.n_slots(),
            tables_[1].data()};
  }
  const KiviStore& store() const { return *cache_.kivi(); }
  int first_page() const { return cache_.first_page(); }

  void expect_widened() const {
    const int d = shape_.head_dim;
    std::vector<float> key(d);
    std::vector<float> value(d);
    for (int p = 0; p < out_.n_pages(); ++p) {
      const std::vector<std::byte> page = out_.read(p);
      const auto* floats = reinterpret_cast<const float*>(page.data());
      for (int lane = 0; lane < kPageSlots; ++lane) {
        const int slot = p * kPageSlots + lane;
        if (slot >= cache_.n_slots()) {
          EXPECT_EQ(slot_bytes(wide(shape_), page.data(), lane), untouched_slot(wide(shape_)));
          continue;
        }
        cache_.read_key(slot, key.data());
        cache_.read_value(slot, value.data());
        for (int i = 0; i < d; ++i) {
          EXPECT_EQ(floats[i * kPageSlots + lane], key[i]) << "key " << slot << ", " << i;
          EXPECT_EQ(floats[(kPageSlots + lane) * d + i], value[i]) << "value " << slot << ", " << i;
        }
      }
    }
  }

 private:
  static PageShape wide(const PageShape& shape) {
    return page_shape(shape.head_dim, SlotFormat::kF32);
  }
  static int pages_for(int n_slots) { return (n_slots + kPageSlots - 1) / kPageSlots; }
  static std::size_t word_count(const KiviOptions& options, int n) {
    const int per_word = 32 / options.bits;
    return std::size_t((n + per_word - 1) / per_word);
  }
  KiviBlock upload(const KiviStore::BlockView& block, std::size_t n_words, std::size_t n_min_max) {
    codes_.emplace_back(std::vector(block.codes, block.codes + n_words));
    min_max_.emplace_back(std::vector(block.min_max, block.min_max + n_min_max));
    return {codes_.back().data(), min_max_.back().data()};
  }

  PageShape shape_;
  PagePool pool_;
  HeadCache cache_;
  DevicePages out_;
  std::vector<KiviBlock> keys_;
  std::vector<KiviBlock> values_;
  std::vector<std::byte*> addresses_;
  std::vector<DeviceArray<std::uint32_t>> codes_;
  std::vector<DeviceArray<std::uint16_t>> min_max_;
  std::vector<DeviceArray<std::byte>> pages_;
  std::vector<DeviceArray<std::byte*>> tables_;
  std::vector<DeviceArray<KiviBlock>> blocks_;
};

void expect_widened(const PageShape& shape, const KiviOptions& options,
                    const std::vector<int>& lengths) {
  std::deque<QuantisedHead> heads;  // where they are made: caches know their pool
  std::vector<KiviHead> jobs;
  for (std::size_t h = 0; h < lengths.size(); ++h) {
    heads.emplace_back(shape, options, lengths[h], unsigned(h));
    jobs.push_back(heads.back().head());
  }
  const DeviceArray<KiviHead> device(jobs);
  kivi_widen(device.data(), int(jobs.size()), layout_of(shape), nullptr);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    SCOPED_TRACE(::testing::Message()
                 << options.bits << " bits, groups of " << options.group << ", head_dim "
                 << shape.head_dim << ", length " << lengths[h]);
    heads[h].expect_widened();
  }
}

TEST_F(CudaKivi, WidensToWhatTheStoreReadsBack) {
  for (const SlotFormat format : {SlotFormat::kF32, SlotFormat::kF16, SlotFormat::kBF16}) {
    expect_widened(page_shape(32, format), {2, 16, 32}, {0, 1, 31, 32, 33, 64, 65, 100});
    expect_widened(page_shape(64, format), {4, 32, 64}, {63, 64, 65, 130});
    expect_widened(page_shape(24, format), {8, 8, 40}, {39, 40, 81});
    expect_widened(page_shape(6, format), {2, 2, 6}, {5, 6, 17, 40});  // words part full
  }
}

TEST_F(CudaKivi, PagesThatWereGivenBackAreNotRead) {
  const QuantisedHead head(page_shape(32, SlotFormat::kF32), {2, 32, 32}, 96, 1);
  EXPECT_EQ(head.store().n_keys(), 96);
  EXPECT_EQ(head.store().n_values(), 64);
  EXPECT_EQ(head.first_page(), 2);
}

TEST_F(CudaKivi, WidensMorePagesThanThereAreBlocks) {
  expect_widened(page_shape(2, SlotFormat::kF32), {2, 2, 2}, {65 * kPageSlots + 3});
}

TEST_F(CudaKivi, NoHeadsAreAllowed) {
  kivi_widen(nullptr, 0, layout_of(page_shape(8, SlotFormat::kF32)), nullptr);
  gpu_check(cudaDeviceSynchronize(), "nothing to do");
}

}  // namespace
}  // namespace kvscope::cuda
