// What a data set holds, without running anything.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "datasets/records/record_file.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Of document and question together, without instruction and chat template.
struct TokenLengths {
  std::size_t n = 0;
  std::size_t total = 0;
  std::size_t least = 0, median = 0, p90 = 0, p99 = 0, most = 0;
  // How many fit a window of so many tokens with kRoomTokens left for instruction, template and
  // answer.
  std::map<int, std::size_t> fitting;
};
inline constexpr int kRoomTokens = 160;

struct Inspection {
  std::string format;
  std::size_t samples = 0;  // questions
  std::size_t documents =
      0;  // as the file has them; contexts of single questions count once if equal
  std::size_t distinct_documents = 0;
  std::size_t without_answer = 0;              // unanswerable, or not published
  std::map<std::string, std::size_t> tasks;    // samples of each
  std::map<std::string, std::size_t> metrics;  // main metric of how many samples
  std::string no_questions;                    // why there is nothing to ask; else empty
  std::vector<SkippedRecord> skipped;
  std::optional<TokenLengths> lengths;  // where there is a tokenizer
};

// windows: sizes for TokenLengths::fitting. Of a set without questions the lengths are the
// documents'. Throws as read_questions().
Inspection inspect_questions(const std::filesystem::path& path, const Tokenizer* tokenizer,
                             const std::vector<int>& windows);

}  // namespace kvscope
