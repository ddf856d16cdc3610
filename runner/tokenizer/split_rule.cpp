#include "runner/tokenizer/split_rule.h"

#include <array>
#include <memory>
#include <utility>

#include "runner/base/error.h"
#include "runner/tokenizer/regex.h"

namespace kvscope {
namespace {

struct Stretch {
  std::size_t begin, end;
  bool is_match;
};

std::vector<Stretch> stretches(std::string_view text, const SplitRule& rule) {
  std::vector<Stretch> all;
  std::size_t done = 0;
  rule.matcher(text, [&](std::size_t begin, std::size_t end) {
    if (done < begin) all.push_back({done, begin, rule.invert});
    all.push_back({begin, end, !rule.invert});
    done = end;
  });
  if (done < text.size()) all.push_back({done, text.size(), rule.invert});
  return all;
}

// Joins each stretch for which `joins(previous is a match, it is a match)` to the one before it in
// the order of walking.
template <typename Joins>
std::vector<Stretch> joined(const std::vector<Stretch>& all, const Joins& joins) {
  std::vector<Stretch> out;
  bool previous = false;
  for (const Stretch& s : all) {
    if (!out.empty() && joins(previous, s.is_match)) {
      out.back().begin = std::min(out.back().begin, s.begin);
      out.back().end = std::max(out.back().end, s.end);
    } else {
      out.push_back(s);
    }
    previous = s.is_match;
  }
  return out;
}

std::vector<Stretch> behave(std::vector<Stretch> all, SplitBehavior behavior) {
  const auto first_of_matches = [](bool previous, bool match) { return match && !previous; };
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return all;
    case SplitBehavior::kRemoved:
      std::erase_if(all, [](const Stretch& s) { return s.is_match; });
      return all;
    case SplitBehavior::kContiguous:
      return joined(all, [](bool previous, bool match) { return previous == match; });
    case SplitBehavior::kMergedWithPrevious:
      return joined(all, first_of_matches);
    case SplitBehavior::kMergedWithNext:
      all = joined(std::vector<Stretch>(all.rbegin(), all.rend()), first_of_matches);
      return {all.rbegin(), all.rend()};
  }
  return all;
}

}  // namespace

SplitBehavior split_behavior(const std::string& name) {
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  throw DataError("split behavior '" + name + "' is not known");
}

Matcher pattern_matcher(const std::string& pattern) {
  return [regex = std::make_shared<const Regex>(pattern)](
             std::string_view text, const auto& match) { regex->each_match(text, match); };
}

Matcher text_matcher(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text, const auto& match) {
    if (wanted.empty()) return;
    for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos;) {
      match(at, at + wanted.size());
      at += wanted.size();
    }
  };
}

void SplitRule::apply(const Piece& piece, std::vector<Piece>& out) const {
  for (const Stretch& s : behave(stretches(piece.text, *this), behavior)) {
    if (s.begin == s.end) continue;
    out.push_back({piece.text.substr(s.begin, s.end - s.begin),
                   s.begin == 0 ? piece.start : PieceStart::kInner});
  }
}

}  // namespace kvscope
