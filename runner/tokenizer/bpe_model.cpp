#include "runner/tokenizer/bpe_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::size_t kByteTokens = 256;

std::string byte_token(std::size_t byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
  return text.data();
}

}  // namespace

BpeModel::BpeModel(BpeDescription description) : description_(std::move(description)) {
  ids_.reserve(description_.vocabulary.size());
  for (const auto& [token, id] : description_.vocabulary) ids_.emplace(token, id);
  if (description_.unknown) {
    unknown_ = id_of(*description_.unknown);
    if (!unknown_)
      throw DataError("unknown token " + kvscope::quoted(*description_.unknown) + " is no token");
  }
  if (description_.byte_fallback) {
    for (std::size_t byte = 0; byte < kByteTokens; ++byte) {
      byte_ids_.push_back(id_of(byte_token(byte)).value_or(kNone));
    }
  }
  add_merges();
}

void BpeModel::add_merges() {
  const auto& merges = description_.merges;
  const auto id = [&](const std::string& token, std::size_t rank) {
    const auto found = id_of(token);
    if (!found) {
      throw DataError("merge " + std::to_string(rank) + " names " + kvscope::quoted(token) +
                      ", which is no token");
    }
    return *found;
  };
  merges_.reserve(merges.size());
  // Of a pair that stands twice the last one counts, so they go in backwards.
  for (std::size_t rank = merges.size(); rank-- > 0;) {
    const auto& [left, right] = merges[rank];
    const std::int32_t left_id = id(left, rank);
    const std::int32_t right_id = id(right, rank);
    merges_.add(left_id, right_id, {static_cast<std::int32_t>(rank), id(left + right, rank)});
  }
  description_.merges = {};
}

void BpeModel::add_scored_merges(const std::vector<float>& scores) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!std::isnan(scores[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] < scores[order[i - 1]]) ++rank;
    const auto& [token, id] = description_.vocabulary[order[i]];
    const std::string_view text = token;
    if (text.size() > kMaxScoredBytes) {
      throw DataError("token " + std::to_string(id) + " is longer than " +
                      std::to_string(kMaxScoredBytes) + " bytes");
    }
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = id_of(text.substr(0, cut));
      if (!left) continue;
      const auto right = id_of(text.substr(cut));
      if (right) merges_.add(*left, *right, {rank, id});
    }
  }
}

std::optional<std::int32_t> BpeModel::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

// False, and nothing appended, if a byte has no token.
bool BpeModel::append_bytes(std::string_view character, std::vector<std::int32_t>& symbols) const {
  if (byte_ids_.empty()) return false;
  const std::size_t size = symbols.size();
  for (const char byte : character) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id == kNone) {
      symbols.resize(size);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

void BpeModel::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.empty()) return;
  if (description_.whole_words) {
    if (const auto whole = id_of(word)) {
      ids.push_back(*whole);
      return;
    }
  }
  std::vector<std::int32_t> symbols;
  bool pending = false;  // an unknown token that the next unknown character may join
  const auto flush = [&] {
    if (pending) symbols.push_back(*unknown_);
    pending = false;
  };
  while (!word.empty()) {
    const std::string_view character = word.substr(0, utf8_character_bytes(word));
    word.remove_prefix(character.size());
    if (const auto id = id_of(character)) {
      flush();
      symbols.push_back(*id);
    } else if (!append_bytes(character, symbols) && unknown_) {
      if (!description_.fuse_unknown) flush();
      pending = true;
    }
  }
  flush();
  merges_.apply(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace kvscope
