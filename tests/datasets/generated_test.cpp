// Generators whose prompts have their length exactly: retrieval, RULER's kinds, JSON pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/needle/key_value_retrieval.h"
#include "datasets/needle/names.h"
#include "datasets/needle/niah.h"
#include "datasets/needle/ruler_synthetic.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

using Make = std::function<Dataset(const GeneratedOptions&, const Tokenizer&)>;

// One token a byte: lengths are bytes.
GeneratedOptions few(int length) {
  GeneratedOptions options;
  options.lengths = {length};
  options.samples_per_length = 4;
  return options;
}

const NiahKind& kind(std::string_view name) {
  return *std::ranges::find(niah_kinds(), name, &NiahKind::name);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string span_text(const Tokenizer& tokenizer, const Sample& sample, std::size_t i) {
  const auto [begin, end] = sample.evidence_spans.at(i);
  return tokenizer.decode(
      std::span(sample.prompt_ids)
          .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

class Generated : public ::testing::Test {
 protected:
  std::map<std::string, Make> makers() const {
    std::map<std::string, Make> all;
    for (const NiahKind& one : niah_kinds()) {
      all[std::string(one.name)] = [&one, this](GeneratedOptions options, const Tokenizer& t) {
        options.haystack = essays_;
        return make_niah(one, options, t);
      };
    }
    all["passkey"] = make_passkey;
    all["niah_grid"] = [](GeneratedOptions options, const Tokenizer& t) {
      options.depths_percent = {0, 50, 100};
      return make_niah_grid(1, options, t);
    };
    all["vt"] = [](const GeneratedOptions& o, const Tokenizer& t) {
      return make_variable_tracking({}, o, t);
    };
    all["cwe"] = [](const GeneratedOptions& o, const Tokenizer& t) {
      return make_common_words({.words = 5, .common = 6}, o, t);
    };
    all["fwe"] = make_frequent_words;
    all["kv_uuid"] = [](const GeneratedOptions& o, const Tokenizer& t) {
      return make_key_value_retrieval(PairStyle::kUuid, o, t);
    };
    all["kv_short"] = [](const GeneratedOptions& o, const Tokenizer& t) {
      return make_key_value_retrieval(PairStyle::kShort, o, t);
    };
    return all;
  }

  std::filesystem::path essays() const { return essays_; }

  const FakeTokenizer tokenizer_;

 private:
  static std::string essay() {
    std::string text;
    for (int i = 0; i < 400; ++i) {
      text += "Sentence " + std::to_string(i) + " of the essay says little. ";
    }
    return text;
  }
  TempFolder folder_;
  std::filesystem::path essays_ = folder_.write("essay.txt", essay());
};

TEST_F(Generated, every_prompt_has_its_length_to_the_token) {
  for (const auto& [name, make] : makers()) {
    for (const int length : {1800, 1801, 2047}) {
      for (const Sample& sample : make(few(length), tokenizer_).samples) {
        EXPECT_EQ(sample.prompt_ids.size(), static_cast<std::size_t>(length)) << sample.key;
        EXPECT_GT(sample.question_begin, 0) << sample.key;
        EXPECT_EQ(sample.input_sha256,
                  input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids));
      }
    }
  }
}

TEST_F(Generated, a_seed_gives_the_same_data_set_and_another_seed_another) {
  std::set<std::string> keys;
  for (const auto& [name, make] : makers()) {
    GeneratedOptions options = few(1800);
    const std::string first = make(options, tokenizer_).key();
    EXPECT_EQ(first, make(options, tokenizer_).key()) << name;
    options.seed = 2;
    keys.insert(first);
    keys.insert(make(options, tokenizer_).key());
  }
  EXPECT_EQ(keys.size(), 2 * makers().size());
}

TEST_F(Generated, evidence_holds_every_value_that_is_asked_for) {
  for (const char* name :
       {"niah_single_1", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
        "niah_multivalue", "niah_multiquery", "passkey", "niah_grid", "kv_uuid", "kv_short"}) {
    for (const Sample& sample : makers().at(name)(few(2200), tokenizer_).samples) {
      ASSERT_EQ(sample.evidence_spans.size(), sample.golds.size()) << sample.key;
      EXPECT_EQ(sample.evidence_spans.front(),
                std::pair(sample.evidence_begin, sample.evidence_end));
      std::string all;
      for (std::size_t i = 0; i < sample.evidence_spans.size(); ++i) {
        all += span_text(tokenizer_, sample, i);
      }
      for (const std::string& gold : sample.golds) {
        EXPECT_NE(all.find(gold), std::string::npos) << sample.key;
        EXPECT_NE(tokenizer_.decode(sample.gold_ids).find(gold), std::string::npos);
      }
    }
  }
}

TEST_F(Generated, kinds_of_retrieval_have_their_numbers_of_keys_and_values) {
  struct Want {
    const char* name;
    std::size_t needles, golds;
  };
  for (const Want& want : {Want{"niah_single_1", 1, 1}, Want{"niah_single_2", 1, 1},
                           Want{"niah_single_3", 1, 1}, Want{"niah_multikey_1", 4, 1},
                           Want{"niah_multivalue", 4, 4}, Want{"niah_multiquery", 4, 4}}) {
    for (const Sample& sample : makers().at(want.name)(few(2200), tokenizer_).samples) {
      const std::string prompt = tokenizer_.decode(sample.prompt_ids);
      EXPECT_EQ(count(prompt, "One of the special magic "), want.needles) << want.name;
      EXPECT_EQ(sample.golds.size(), want.golds) << want.name;
    }
  }
  const auto many = makers().at("niah_multikey_2")(few(2200), tokenizer_);
  EXPECT_GT(count(tokenizer_.decode(many.samples[0].prompt_ids), "One of the special magic "), 20U);
}

TEST_F(Generated, values_look_as_their_kind_says) {
  const std::regex number("[1-9][0-9]{6}");
  const std::regex uuid("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}");
  for (const Sample& sample : makers().at("niah_single_2")(few(1800), tokenizer_).samples) {
    EXPECT_TRUE(std::regex_match(sample.golds[0], number)) << sample.golds[0];
  }
  for (const Sample& sample : makers().at("niah_single_3")(few(1800), tokenizer_).samples) {
    EXPECT_TRUE(std::regex_match(sample.golds[0], uuid)) << sample.golds[0];
  }
}

TEST_F(Generated, a_grid_has_every_depth_at_every_length) {
  GeneratedOptions options;
  options.lengths = grid_lengths(3, 900, 1700);
  options.depths_percent = grid_depths_percent(5, DepthSpacing::kSigmoid);
  const Dataset data = make_niah_grid(2, options, tokenizer_);
  std::map<std::pair<std::string, std::string>, int> cells;
  for (const Sample& sample : data.samples) {
    ++cells[{sample.tags.at("length"), sample.tags.at("depth_percent")}];
  }
  EXPECT_EQ(cells.size(), 15U);
  for (const auto& [cell, n] : cells) EXPECT_EQ(n, 2);
  EXPECT_EQ(options.lengths, (std::vector<int>{900, 1300, 1700}));
  EXPECT_EQ(options.depths_percent, (std::vector<double>{0, 7.6, 50, 92.4, 100}));
  EXPECT_EQ(grid_depths_percent(3, DepthSpacing::kLinear), (std::vector<double>{0, 50, 100}));
  EXPECT_THROW(grid_lengths(2, 900, 800), UsageError);
  EXPECT_THROW(grid_lengths(1, 800, 900), UsageError);
}

TEST_F(Generated, variables_form_a_chain_in_order) {
  const Dataset data = makers().at("vt")(few(2200), tokenizer_);
  for (const Sample& sample : data.samples) {
    ASSERT_EQ(sample.golds.size(), 5U);
    ASSERT_EQ(sample.evidence_spans.size(), 5U);
    std::string value;
    for (std::size_t i = 0; i < 5; ++i) {
      const std::string assignment = span_text(tokenizer_, sample, i);
      if (i == 0) {
        value = assignment.substr(assignment.size() - 6, 5);
        continue;
      }
      EXPECT_EQ(assignment, "VAR " + sample.golds[i] + " = VAR " + sample.golds[i - 1] + ".");
      EXPECT_LT(sample.evidence_spans[i - 1].second, sample.evidence_spans[i].first);
    }
    EXPECT_NE(tokenizer_.decode(sample.prefix_ids).find(value), std::string::npos);
  }
}

TEST_F(Generated, common_words_are_the_common_ones) {
  const Dataset data = makers().at("cwe")(few(1801), tokenizer_);
  for (const Sample& sample : data.samples) {
    std::istringstream list(tokenizer_.decode(sample.prompt_ids));
    std::map<std::string, int> n;
    int entries = 0;
    for (std::string word; list >> word;) {
      const std::string number = std::to_string(entries + 1) + ".";
      if (word != number) continue;
      list >> word;
      ++n[word];
      ++entries;
    }
    std::vector<std::string> common;
    for (const auto& [word, times] : n) {
      if (times == 6) common.push_back(word);
      EXPECT_TRUE(times == 6 || times <= 3) << word;
    }
    std::vector<std::string> golds = sample.golds;
    std::ranges::sort(golds);
    EXPECT_EQ(common, golds);
  }
}

TEST_F(Generated, frequent_words_are_ranked_behind_the_dots) {
  for (const int length : {1100, 1800, 4000}) {
    for (const Sample& sample : makers().at("fwe")(few(length), tokenizer_).samples) {
      std::istringstream words(tokenizer_.decode(sample.prompt_ids));
      std::map<std::string, int> n;
      for (std::string word; words >> word;) ++n[word];
      std::vector<std::pair<int, std::string>> ranked;
      for (const auto& [word, times] : n) {
        if (word.size() == 6 &&
            std::ranges::all_of(word, [](char c) { return 'a' <= c && c <= 'z'; })) {
          ranked.emplace_back(-times, word);
        }
      }
      std::ranges::sort(ranked);
      ASSERT_GE(ranked.size(), 4U);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(ranked[i].second, sample.golds[i]);
      EXPECT_LT(ranked[2].first, ranked[3].first);  // no tie decides who is asked for
      EXPECT_GT(n.at("...."), -ranked[0].first);
    }
  }
}

TEST_F(Generated, keys_of_pairs_differ_and_one_value_is_right) {
  const Dataset data = makers().at("kv_short")(few(2200), tokenizer_);
  for (const Sample& sample : data.samples) {
    const std::string prompt = tokenizer_.decode(sample.prompt_ids);
    const std::regex pair("\"([a-z-]+)\": \"([0-9]{5})\"");
    std::set<std::string> keys;
    std::size_t n = 0;
    std::size_t right = 0;
    for (std::sregex_iterator it(prompt.begin(), prompt.end(), pair), end; it != end; ++it, ++n) {
      keys.insert((*it)[1]);
      right += (*it)[2] == sample.golds[0];
    }
    EXPECT_GT(n, 40U);
    EXPECT_EQ(keys.size(), n);
    EXPECT_EQ(right, 1U);
    EXPECT_NE(prompt.find("\"}\n"), std::string::npos);  // the object is closed
  }
}

TEST_F(Generated, given_depths_are_met) {
  GeneratedOptions options = few(3000);
  options.depths_percent = {0, 100};
  for (const auto& make :
       {makers().at("passkey"), makers().at("kv_short"), makers().at("niah_single_1")}) {
    const Dataset data = make(options, tokenizer_);
    EXPECT_EQ(data.samples[0].tags.at("depth_percent"), "0.0");
    EXPECT_LT(data.samples[0].evidence_begin, 150);
    // Nothing but the question stands behind it.
    EXPECT_LE(data.samples[1].question_begin - data.samples[1].evidence_end, 2);
  }
}

TEST_F(Generated, text_without_turns_is_plain) {
  GeneratedOptions options = few(1800);
  options.plain_template = true;
  const Sample sample = make_passkey(options, tokenizer_).samples[0];
  EXPECT_EQ(tokenizer_.decode(sample.prompt_ids).find("<|im_start|>"), std::string::npos);
  EXPECT_TRUE(tokenizer_.decode(sample.prompt_ids).ends_with("\n\nWhat is the pass key?"));
  EXPECT_EQ(tokenizer_.decode(sample.prefix_ids), " The pass key is");
  EXPECT_EQ(sample.prompt_ids.size(), 1800U);
}

TEST_F(Generated, refuses_what_cannot_be) {
  const auto message = [&](const Make& make, const GeneratedOptions& options) {
    return message_of<UsageError>([&] { make(options, tokenizer_); });
  };
  for (const auto& [name, make] : makers()) {
    EXPECT_NE(message(make, few(70)).find("too short"), std::string::npos) << name;
    GeneratedOptions options = few(1800);
    options.samples_per_length = 0;
    if (name != "niah_grid") {  // counts samples of a cell
      EXPECT_NE(message(make, options).find("at least 1"), std::string::npos) << name;
    }
    options = few(1800);
    options.lengths = {1800, 1800};
    EXPECT_NE(message(make, options).find("twice"), std::string::npos) << name;
  }
  EXPECT_NE(message([](const GeneratedOptions& o,
                       const Tokenizer& t) { return make_niah(kind("niah_single_2"), o, t); },
                    few(1800))
                .find("--haystack"),
            std::string::npos);
  EXPECT_THROW(make_variable_tracking({.chains = 0}, few(1800), tokenizer_), UsageError);
  EXPECT_THROW(make_common_words({.words = 5, .common = 3}, few(1800), tokenizer_), UsageError);
}

TEST(Names, digits_and_word_keys_are_as_promised) {
  Random random(1, "names");
  std::set<std::string> keys;
  for (int i = 0; i < 2000; ++i) {
    draw_new(keys, [&] { return draw_word_key(random); });
    const std::string digits = draw_digits(7, random);
    EXPECT_EQ(digits.size(), 7U);
    EXPECT_NE(digits[0], '0');
  }
  const std::set<std::string_view> adjectives(needle_adjectives().begin(),
                                              needle_adjectives().end());
  EXPECT_EQ(adjectives.size(), 80U);
}

}  // namespace
}  // namespace kvscope
