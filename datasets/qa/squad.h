// Questions with extractive answers from a file of SQuAD's format (Rajpurkar et al. 2016, 2018).
#pragma once

#include <filesystem>

#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct QaFileOptions {
  int samples = 0;  // at most so many questions, 0: all
  // Questions of v2 that the paragraph does not answer: left out, or kept with an empty gold
  // answer.
  bool keep_impossible = false;
};

// v1.1 and v2. Questions are taken one from each article in turn, so that few of them still come
// from many documents; a cluster is an article, as its paragraphs share a subject. `answers` may
// also be a bare string, a number or a list of them. Raw control characters, CRLF and a byte-order
// mark are tolerated. answer_start counts Unicode characters; where it does not point at the
// answer, the evidence is unknown. The context is the paragraph, unchanged. Throws IoError when the
// file cannot be read, DataError (file and place) when it is no such file or holds no question,
// UsageError for absurd options.
Dataset load_squad(const std::filesystem::path& file, const QaFileOptions& options,
                   const Tokenizer& tokenizer);

}  // namespace kvscope
