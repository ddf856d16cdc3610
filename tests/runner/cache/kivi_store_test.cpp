// KIVI's schedule (vectors kivi-schedule*), its storage and accounting, and what forks share.
#include "runner/cache/kivi_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "runner/base/error.h"
#include "runner/cache/head_cache.h"
#include "runner/cache/kv_codec.h"

namespace kvscope {
namespace {

using nlohmann::json;
using Tokens = std::vector<std::vector<float>>;  // [token][head_dim]

Tokens random_tokens(int n, int head_dim, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  Tokens tokens(n, std::vector<float>(head_dim));
  for (auto& token : tokens) {
    for (float& x : token) x = normal(engine);
  }
  return tokens;
}

// A head that is fed tokens as the engine feeds it.
struct Head {
  HeadCache cache;
  int fed = 0;
  Head(PagePool& pool, const KiviOptions& options) : cache(&pool) { cache.set_kivi(options); }
  void append(const Tokens& keys, const Tokens& values) {
    const int slot = cache.append_slot(fed, {});
    write_key(cache.pool(), cache.page_of(slot), slot % kPageSlots, keys[fed].data());
    write_value(cache.pool(), cache.page_of(slot), slot % kPageSlots, values[fed].data());
    ++fed;
  }
  void feed(int n, const Tokens& keys, const Tokens& values) {
    for (int i = 0; i < n; ++i) {
      append(keys, values);
      cache.advance_quantisation();
    }
  }
  void prompt(int n, const Tokens& keys, const Tokens& values) {
    for (int i = 0; i < n; ++i) append(keys, values);
    cache.advance_quantisation();
  }
  std::vector<float> key(int slot) const {
    std::vector<float> x(cache.pool().shape().head_dim);
    cache.read_key(slot, x.data());
    return x;
  }
  std::vector<float> value(int slot) const {
    std::vector<float> x(cache.pool().shape().head_dim);
    cache.read_value(slot, x.data());
    return x;
  }
};

TEST(KiviVectors, Schedule) {
  const json document = json::parse(std::ifstream(std::string(KVSCOPE_SOURCE_DIR) +
                                                  "/tests/runner/policies/policy-vectors.json"));
  int n_vectors = 0;
  for (const json& vector : document.at("vectors")) {
    const std::string id = vector.at("id");
    if (!id.starts_with("kivi-schedule")) continue;
    ++n_vectors;
    const KiviOptions options{2, vector.at("params").at("group"),
                              vector.at("params").at("residual")};
    PagePool pool({4, DType::kF32, true});
    Head head(pool, options);
    const auto expect = [&](const json& row, const std::string& when) {
      const KiviStore& store = *head.cache.kivi();
      const int n = head.cache.n_slots();
      EXPECT_EQ(n, row.at("T")) << id;
      EXPECT_EQ(store.n_keys(), row.at("K_quant" + when)) << id << n << when;
      EXPECT_EQ(n - store.n_keys(), row.at("K_full" + when)) << id << n << when;
      EXPECT_EQ(store.n_values(), row.at("V_quant" + when)) << id << n << when;
      EXPECT_EQ(n - store.n_values(), row.at("V_full" + when)) << id << n << when;
    };
    const int prompt = vector.at("input").at("prompt_len");
    const int steps = vector.at("input").at("decode_steps");
    const Tokens tokens = random_tokens(prompt + steps, 4, 1);
    const json& rows = vector.at("expect").at("rows");
    head.prompt(prompt, tokens, tokens);
    expect(rows.at(0), "");
    for (int step = 1; step <= steps; ++step) {
      head.append(tokens, tokens);
      expect(rows.at(std::size_t(step)), "_seen");
      head.cache.advance_quantisation();
      expect(rows.at(std::size_t(step)), "");
    }
  }
  EXPECT_EQ(n_vectors, 2);
}

TEST(Kivi, TheScheduleIsAFunctionOfTheLength) {
  const Tokens tokens = random_tokens(150, 8, 2);
  for (const KiviOptions& options :
       {KiviOptions{2, 4, 4}, KiviOptions{4, 8, 40}, KiviOptions{2, 8, 32}, KiviOptions{8, 2, 6}}) {
    for (const int prompt : {0, 1, 5, 40, 97}) {
      PagePool pool({8, DType::kF32, true});
      Head head(pool, options);
      head.prompt(prompt, tokens, tokens);
      while (head.fed < 150) {
        head.feed(1, tokens, tokens);
        EXPECT_EQ(head.cache.kivi()->n_keys(), kivi_keys(options, head.fed));
        EXPECT_EQ(head.cache.kivi()->n_values(), kivi_values(options, head.fed));
      }
    }
  }
}

// What each token reads back as, worked out from the codec alone.
TEST(Kivi, KeysAreQuantisedByChannelAndValuesByToken) {
  constexpr int kTokens = 107;
  constexpr int kHeadDim = 16;
  const Tokens keys = random_tokens(kTokens, kHeadDim, 3);
  const Tokens values = random_tokens(kTokens, kHeadDim, 4);
  for (const KiviOptions& options : {KiviOptions{2, 8, 24}, KiviOptions{4, 4, 4},
                                     KiviOptions{8, 16, 48}, KiviOptions{2, 2, 70}}) {
    PagePool pool({kHeadDim, DType::kF32, true});
    Head head(pool, options);
    head.prompt(50, keys, values);
    head.feed(kTokens - 50, keys, values);
    for (int token = 0; token < kTokens; ++token) {
      for (int i = 0; i < kHeadDim; ++i) {
        std::vector<float> key_group, value_group;
        for (int j = 0; j < options.group; ++j) {
          const int member = token / options.group * options.group + j;
          if (member < kTokens) key_group.push_back(keys[member][i]);
          value_group.push_back(values[token][i / options.group * options.group + j]);
        }
        const auto read_back = [&](float x, const std::vector<float>& group) {
          const MinMax stored = stored_min_max_of(group, options.bits).wide();
          return from_min_max_code(min_max_code(x, stored, options.bits), stored);
        };
        const bool key_is_whole = token >= kivi_keys(options, kTokens);
        const bool value_is_whole = token >= kivi_values(options, kTokens);
        EXPECT_EQ(head.key(token)[i],
                  key_is_whole ? keys[token][i] : read_back(keys[token][i], key_group));
        EXPECT_EQ(head.value(token)[i],
                  value_is_whole ? values[token][i] : read_back(values[token][i], value_group));
      }
    }
  }
}

TEST(Kivi, AResidualLongerThanTheTextLeavesEverythingExact) {
  const Tokens keys = random_tokens(63, 8, 5);
  const Tokens values = random_tokens(63, 8, 6);
  PagePool pool({8, DType::kF32, true});
  Head head(pool, {2, 8, 64});
  head.prompt(30, keys, values);
  head.feed(33, keys, values);
  for (int token = 0; token < 63; ++token) {
    EXPECT_EQ(head.key(token), keys[token]);
    EXPECT_EQ(head.value(token), values[token]);
  }
  EXPECT_EQ(head.cache.physical_bytes(), 2 * std::int64_t(pool.shape().page_bytes()));
}

TEST(Kivi, RunsOfTokensReadAsTokenByToken) {
  const Tokens tokens = random_tokens(100, 8, 7);
  KiviStore store({2, 4, 12}, 8);
  for (int block = 0; block < 8; ++block) {
    std::vector<float> flat;
    for (int i = 0; i < 12; ++i)
      flat.insert(flat.end(), tokens[12 * block + i].begin(), tokens[12 * block + i].end());
    store.add_keys(flat);
  }
  for (int token = 0; token < 77; ++token) store.add_value(tokens[token]);
  for (const auto& [first, n] : {std::pair{0, 77}, {5, 30}, {31, 40}, {12, 12}, {76, 1}}) {
    std::vector<float> keys(8 * 80, -1.0F);
    std::vector<float> values(8 * 80);
    store.read_keys(first, n, keys.data(), 80);
    store.read_values(first, n, values.data());
    for (int j = 0; j < n; ++j) {
      float one[8];
      store.read_keys(first + j, 1, one, 1);
      for (int i = 0; i < 8; ++i) EXPECT_EQ(keys[i * 80 + j], one[i]);
      store.read_values(first + j, 1, one);
      for (int i = 0; i < 8; ++i) EXPECT_EQ(values[j * 8 + i], one[i]);
    }
    EXPECT_EQ(keys[std::size_t(n)], -1.0F);  // nothing beyond the run
  }
}

// The pool and the layout, counted from the outside.
TEST(Kivi, BytesAreThoseOfAnIndependentWalkAndPagesAreReleased) {
  const Tokens tokens = random_tokens(300, 16, 8);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const KiviOptions& options : {KiviOptions{2, 16, 32}, KiviOptions{4, 8, 40},
                                       KiviOptions{2, 4, 4}, KiviOptions{8, 16, 128}}) {
      PagePool pool({16, dtype, true});
      Head head(pool, options);
      head.prompt(77, tokens, tokens);
      for (;;) {
        const int n = head.fed;
        const int keys = n / options.residual_tokens * options.residual_tokens;
        const int values = std::max(0, n - options.residual_tokens);
        const std::int64_t pages = (n + 31) / 32 - std::min(keys, values) / 32;
        EXPECT_EQ(pool.held_pages(), pages);
        const int row = options.residual_tokens;
        const std::int64_t key_block =
            16 * (4 * ((row * options.bits + 31) / 32) + 2 * 2 * (row / options.group));
        const std::int64_t value_row =
            4 * ((16 * options.bits + 31) / 32) + 2 * 2 * (16 / options.group);
        const std::int64_t page_bytes = 2 * 16 * 32 * std::int64_t(element_bytes(dtype));
        const std::int64_t key_bytes = keys / row * key_block;
        EXPECT_EQ(head.cache.physical_bytes(),
                  pages * page_bytes + key_bytes + (values + 31) / 32 * 32 * value_row);
        EXPECT_EQ(head.cache.logical_bytes(),
                  key_bytes + values * value_row + (n - keys + n - values) * page_bytes / 64);
        EXPECT_EQ(head.cache.metadata_bytes(),
                  n * 4 + pages * 4 + (keys / row + (values + 31) / 32) * 16);
        const KiviBytes bytes = kivi_bytes(options, 16, keys, values);
        EXPECT_EQ(head.cache.kivi()->bytes().physical_bytes, bytes.physical_bytes);
        if (n == 300) break;
        head.feed(1, tokens, tokens);
      }
      head.cache.clear();
      EXPECT_EQ(pool.held_pages(), 0);
      EXPECT_EQ(head.cache.physical_bytes(), 0);
    }
  }
}

// 2 bits and a float16 scale and zero a group of 32: 3 bits an element (policies.md 4.1).
TEST(Kivi, TwoBitsInGroupsOf32TakeThreeBitsAnElement) {
  const KiviBytes bytes = kivi_bytes({2, 32, 32}, 64, 320, 320);
  EXPECT_EQ(bytes.physical_bytes * 8, 3LL * 2 * 64 * 320);
  EXPECT_EQ(bytes.logical_bytes, bytes.physical_bytes);
}

TEST(Kivi, AForkGoesItsOwnWay) {
  const Tokens tokens = random_tokens(200, 8, 9);
  const Tokens others = random_tokens(200, 8, 10);
  const KiviOptions options{2, 8, 24};
  PagePool pool({8, DType::kF32, true});
  {
    Head head(pool, options);
    head.prompt(75, tokens, tokens);
    Head fork = head;
    EXPECT_EQ(pool.held_pages(), head.cache.n_pages());  // shared
    fork.feed(60, others, others);
    Tokens before;
    for (int token = 0; token < 75; ++token) before.push_back(head.key(token));
    head.feed(60, tokens, tokens);
    Head alone(pool, options);
    alone.prompt(75, tokens, tokens);
    alone.feed(60, tokens, tokens);
    for (int token = 0; token < 135; ++token) {
      EXPECT_EQ(head.key(token), alone.key(token));
      EXPECT_EQ(head.value(token), alone.value(token));
    }
    Head forked_alone(pool, options);
    forked_alone.prompt(75, tokens, tokens);
    forked_alone.feed(60, others, others);
    for (int token = 0; token < 135; ++token) {
      EXPECT_EQ(fork.key(token), forked_alone.key(token));
      EXPECT_EQ(fork.value(token), forked_alone.value(token));
    }
    std::set<PageId> held;
    for (const Head* each : {&head, &fork, &alone, &forked_alone})
      held.insert(each->cache.pages().begin(), each->cache.pages().end());
    EXPECT_EQ(pool.held_pages(), std::int64_t(held.size()));
  }
  EXPECT_EQ(pool.held_pages(), 0);
}

TEST(Kivi, AClearedHeadStartsAnew) {
  const Tokens tokens = random_tokens(90, 8, 11);
  PagePool pool({8, DType::kF32, true});
  Head used(pool, {2, 8, 16});
  used.prompt(90, tokens, tokens);
  used.cache.clear();
  EXPECT_EQ(used.cache.first_page(), 0);
  used.fed = 0;
  used.prompt(50, tokens, tokens);
  Head fresh(pool, {2, 8, 16});
  fresh.prompt(50, tokens, tokens);
  for (int token = 0; token < 50; ++token) EXPECT_EQ(used.key(token), fresh.key(token));
  EXPECT_EQ(used.cache.physical_bytes(), fresh.cache.physical_bytes());
}

TEST(Kivi, OnlySlotsInFullPrecisionCanBeRemoved) {
  const Tokens tokens = random_tokens(80, 8, 12);
  PagePool pool({8, DType::kF32, true});
  Head head(pool, {2, 8, 32});
  head.prompt(75, tokens, tokens);  // 64 keys and 43 values are quantised
  EXPECT_THROW(head.cache.remove_slot(0), std::logic_error);
  EXPECT_THROW(head.cache.remove_slot(63), std::logic_error);
  head.cache.remove_slot(64);
  EXPECT_EQ(head.cache.n_slots(), 74);
  EXPECT_EQ(head.cache.positions()[64], 74);
  EXPECT_EQ(head.key(64), tokens[74]);
  EXPECT_EQ(head.value(64), tokens[74]);
  for (int n = 0; n < 10; ++n) head.cache.remove_slot(64);
  EXPECT_EQ(head.cache.n_slots(), 64);
  EXPECT_EQ(head.value(63), tokens[63]);  // its page stays: the value is not quantised
  head.feed(5, tokens, tokens);
  EXPECT_EQ(head.key(68), tokens[79]);
}

TEST(Kivi, OptionsThatDoNotFitAreNamed) {
  const auto problem = [](const KiviOptions& options) -> std::string {
    try {
      check_kivi(options, 64);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem({2, 32, 128}), "");
  EXPECT_EQ(problem({8, 64, 64}), "");
  EXPECT_EQ(problem({3, 32, 32}), "kivi: bits=3, but takes 2, 4 or 8");
  EXPECT_EQ(problem({2, 48, 48}),
            "kivi: group=48 does not divide the head size 64; choose a divisor of it");
  EXPECT_EQ(problem({2, 32, 40}),
            "kivi: residual=40 is no multiple of group=32; choose one that is at least the group");
  EXPECT_NE(problem({2, 32, 0}), "");
  EXPECT_NE(problem({2, 0, 32}), "");
}

}  // namespace
}  // namespace kvscope
