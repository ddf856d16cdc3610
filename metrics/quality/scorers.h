// Every score by name, so that tasks and people choose one. A score is in one file of this folder.
#pragma once

#include <span>
#include <string_view>

#include "metrics/quality/scored_answer.h"

namespace kvscope {

struct ScorerInfo {
  std::string_view name;                 // in results: "rouge_l_longbench"
  std::string_view upstream;             // benchmark and function, "longbench.rouge"; empty: ours
  std::string_view kind;                 // binary | continuous
  double (*score)(const ScoredAnswer&);  // 0 to 1
  bool needs_words = false;              // ScoredAnswer::words must be set
  bool percent = false;                  // upstream rounds 100 times the score to hundredths
  std::string_view help;                 // one sentence
};

std::span<const ScorerInfo> scorer_infos();

// By either name; what stands in brackets at the end ("longbench.rouge(pltrdy)") is a remark and is
// dropped. nullptr if unknown.
const ScorerInfo* find_scorer(std::string_view name);

// Throws UsageError: unknown name (suggests the nearest).
const ScorerInfo& scorer_named(std::string_view name);

// The value as the published scorer prints it.
double upstream_value(const ScorerInfo& info, double score);

}  // namespace kvscope
