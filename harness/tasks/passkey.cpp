// The pass key: five digits in noise, or in a haystack; the oldest and easiest of the needles, and
// the wording that small models fail with first.
#include "harness/tasks/passkey.h"

#include "datasets/needle/niah.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/generated_options.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/needle_recall.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {kLengthKey, kSamplesKey, kDepthKey, kTemplateKey, kSeedKey};

void score(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "recall", needle_recall(answer, sample.golds));
}

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskFiles& files,
                                const Tokenizer& tokenizer) {
  return make_answer_task(make_passkey(generated_options(spec, files), tokenizer), score);
}

}  // namespace

const TaskInfo kPasskeyTask = {"passkey", "Recall of a five-digit pass key hidden in a long text.",
                               "recall", kKeys, make_task};

}  // namespace kvscope
