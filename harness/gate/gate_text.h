// A gate's report in the forms that people and CI systems read.
#pragma once

#include <string>

#include "harness/gate/gate_run.h"
#include "harness/report/json.h"

namespace kvscope {

Json gate_json(const GateReport& report);  // all numbers; {"schema": "kvscope-gate-1", …}

std::string gate_table(const GateReport& report);

// JUnit XML: one test case a check; fail is <failure>, inconclusive <skipped>, error <error>;
// figures in <system-out>. Text is escaped; control characters become spaces.
std::string gate_junit(const GateReport& report);

// For $GITHUB_STEP_SUMMARY: worst first, at most max_bytes (GitHub refuses a step's summary above
// 1 MiB as a whole); what is left out is counted.
inline constexpr std::size_t kMarkdownBytes = 900 * 1024;
std::string gate_markdown(const GateReport& report, std::size_t max_bytes = kMarkdownBytes);

// GitHub workflow commands: ::error for fail and error, ::warning for inconclusive and warn_only;
// at most ten of a kind, as many as GitHub shows.
std::string gate_annotations(const GateReport& report);

}  // namespace kvscope
