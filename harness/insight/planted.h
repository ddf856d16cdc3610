// Failures whose cause is known: needles that an arm has evicted. What an explanation is tested by.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/insight/explain_answers.h"

namespace kvscope {

inline constexpr int kPlantedBatch = 8;  // samples of one call of the engine

struct PlantedOptions {
  int n_failures = 50;
  int length_tokens = 512;         // of the prompts
  std::filesystem::path haystack;  // empty: noise
  std::uint64_t seed = 1;
};

struct FrameResult {
  Frame frame = Frame::kLocal;
  int n = 0;           // failures in which the frame is defined
  int n_named = 0;     // at least half of the needle's tokens are among the heaviest
  int n_any = 0;       // at least one is
  int n_repaired = 0;  // putting the heaviest back gives the right answer
};

struct PlantedResult {
  int n_samples = 0;     // made
  int n_full_right = 0;  // of them
  // The full cache is right, the arm is wrong, and less than half of the needle's keys and values
  // are left after the cut.
  int n_failures = 0;
  std::vector<FrameResult> frames;
  int n_evidence_repaired = 0;  // by putting the whole needle back
  int n_random = 0;             // random restorations
  int n_random_repaired = 0;
  std::vector<AnswerReport> reports;  // of the failures
};

// Makes needle samples until enough of them fail, at most 8 for each that is wanted. advanced:
// called with the number of failures found. nullopt: stopped.
std::optional<PlantedResult> explain_planted(const ExplainRequest& request,
                                             const PlantedOptions& options,
                                             const std::function<void(int)>& advanced = {});

}  // namespace kvscope
