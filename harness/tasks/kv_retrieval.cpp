// The value of one key of a JSON object with many.
#include "harness/tasks/kv_retrieval.h"

#include "datasets/needle/key_value_retrieval.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/generated_options.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/contains.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "pairs",
     .fallback = "short",
     .kind = TaskValue::kWord,
     .words = "short|uuid",
     .help = "a word and five digits, or UUIDs on both sides as the papers have it"},
    kLengthKey,
    kSamplesKey,
    kDepthKey,
    kTemplateKey,
    kSeedKey};

void score(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "recall", any_contained(answer, sample.golds));
}

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskFiles& files,
                                const Tokenizer& tokenizer) {
  const PairStyle style = spec.word("pairs") == "uuid" ? PairStyle::kUuid : PairStyle::kShort;
  return make_answer_task(
      make_key_value_retrieval(style, generated_options(spec, files), tokenizer), score);
}

}  // namespace

const TaskInfo kKvRetrievalTask = {"kv_retrieval",
                                   "Recall of one value of a JSON object with many pairs.",
                                   "recall", kKeys, make_task};

}  // namespace kvscope
