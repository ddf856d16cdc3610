// What `kvscope why` prints.
#pragma once

#include <span>
#include <string>

#include "harness/insight/explain_answers.h"
#include "harness/insight/explain_window.h"
#include "harness/insight/planted.h"
#include "harness/report/json.h"

namespace kvscope {

// Names the sample's tokens by their text.
struct TokenNames {
  const Tokenizer& tokenizer;
  std::span<const std::int32_t> ids;  // by position
  std::string operator()(std::int32_t position) const;
};

Json answer_json(const AnswerReport& report, const TokenNames& names);
Json window_json(const WindowReport& report, const TokenNames& names);
// Without the single reports.
Json planted_json(const PlantedResult& result);

std::string answer_report_text(const AnswerReport& report, const TokenNames& names,
                               const Tokenizer& tokenizer);
std::string window_report_text(const WindowReport& report, const TokenNames& names);
std::string planted_text(const PlantedResult& result);

// One block a value, from the smallest possible 0 to the largest.
std::string sparkline(std::span<const double> values);

}  // namespace kvscope
