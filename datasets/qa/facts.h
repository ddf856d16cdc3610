// Generated questions about facts in a text, so that the qa task works without any file.
#pragma once

#include <cstdint>

#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct QaOptions {
  int samples = 20;
  int questions_per_document = 1;
  int people = 4;      // with three facts each: a city, a job and a pet
  bool filler = true;  // a paragraph of short sentences after each fact
  std::uint64_t seed = 1;
};

// Documents of facts about several people ("Anna lives in the city of Oslo."), in random order and
// among filler, with a question about one of the facts. The answer's prefix restates the fact
// ("Anna lives in the city of"), which a small model needs. A document is a cluster; within one,
// every city, job and pet has one owner. With 4 people and filler a prompt has about 1,040 tokens
// of SmolLM2. Throws UsageError for absurd options.
Dataset make_qa(const QaOptions& options, const Tokenizer& tokenizer);

}  // namespace kvscope
