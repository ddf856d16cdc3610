#include "datasets/lveval/lveval.h"

#include "datasets/longbench/longbench.h"
#include "datasets/records/fields.h"

namespace kvscope {
namespace {

using nlohmann::json;

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return first.contains("answer_keywords") || first.contains("confusing_facts");
}

// LongBench's fields and more. LV-Eval halves the score of an answer without the keywords by a rule
// of its own; here its answers have LongBench's F1.
void read(const RecordFile& file, QuestionSet& set) { kLongBenchFormat.read(file, set); }

}  // namespace

const FormatInfo kLvEvalFormat = {"lveval", "LongBench's fields with keywords and confusing facts.",
                                  "token_f1_longbench", matches, read};

}  // namespace kvscope
