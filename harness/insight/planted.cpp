#include "harness/insight/planted.h"

#include <algorithm>

#include "datasets/needle/needle.h"

namespace kvscope {
namespace {

constexpr int kMostPerFailure = 8;  // samples made, at most
// Of needles, in percent: away from the first tokens and from the newest ones, which many policies
// keep.
constexpr int kDepths[] = {10, 20, 30, 40, 50, 60};

bool is_planted(const AnswerReport& report) {
  return report.error.empty() && report.full.is_right && !report.arm.is_right && report.survival &&
         report.survival->after_cut < 0.5;
}

FrameResult& frame_result(PlantedResult& result, Frame frame) {
  const auto at = std::ranges::find(result.frames, frame, &FrameResult::frame);
  if (at != result.frames.end()) return *at;
  result.frames.push_back({.frame = frame});
  return result.frames.back();
}

void count(const AnswerReport& report, PlantedResult& result) {
  ++result.n_failures;
  for (const TopTokens& top : report.tops) {
    FrameResult& frame = frame_result(result, top.frame);
    ++frame.n;
    frame.n_any += top.n_evidence > 0 ? 1 : 0;
    frame.n_named += 2 * top.n_evidence >= report.evidence_end - report.evidence_begin ? 1 : 0;
    const Trial* trial = report.trial(name_of(top.frame));
    frame.n_repaired += trial != nullptr && trial->answer.is_right ? 1 : 0;
  }
  for (const Trial& trial : report.trials) {
    if (trial.what == "evidence") result.n_evidence_repaired += trial.answer.is_right ? 1 : 0;
    if (trial.what != "random" || !trial.error.empty()) continue;
    ++result.n_random;
    result.n_random_repaired += trial.answer.is_right ? 1 : 0;
  }
}

}  // namespace

std::optional<PlantedResult> explain_planted(const ExplainRequest& request,
                                             const PlantedOptions& options,
                                             const std::function<void(int)>& advanced) {
  NeedleOptions needles;
  needles.haystack = options.haystack;
  needles.lengths = {options.length_tokens};
  needles.samples_per_length = kMostPerFailure * options.n_failures;
  needles.depths_percent.assign(std::begin(kDepths), std::end(kDepths));
  needles.seed = options.seed;
  const Dataset dataset = make_needle(needles, request.tokenizer);

  ExplainRequest planted = request;
  planted.wanted = is_planted;
  PlantedResult result;
  const auto n_samples = std::ssize(dataset.samples);
  for (std::ptrdiff_t next = 0; next < n_samples && result.n_failures < options.n_failures;) {
    const int n_missing = options.n_failures - result.n_failures;
    const auto end = std::min(n_samples, next + std::min(kPlantedBatch, n_missing));
    std::vector<const Sample*> batch;
    for (; next < end; ++next) batch.push_back(&dataset.samples[std::size_t(next)]);
    auto reports = explain_answers(planted, batch);
    if (!reports) return std::nullopt;
    for (AnswerReport& report : *reports) {
      ++result.n_samples;
      result.n_full_right += report.error.empty() && report.full.is_right ? 1 : 0;
      if (!is_planted(report)) continue;
      count(report, result);
      result.reports.push_back(std::move(report));
    }
    if (advanced) advanced(result.n_failures);
  }
  return result;
}

}  // namespace kvscope
