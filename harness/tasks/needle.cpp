// Needle in a haystack: a number hidden in a long text; recall is exact, the gold number's
// log-probability is graded.
#include "datasets/needle/needle.h"

#include "harness/tasks/answer_task.h"
#include "harness/tasks/generated_options.h"
#include "harness/tasks/needle.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/needle_recall.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "length",
     .fallback = "1024",
     .least = 64,
     .most = 1e6,
     .list = true,
     .help = "prompt lengths in tokens"},
    {.name = "samples",
     .fallback = "20",
     .least = 1,
     .most = 1e6,
     .help = "samples of each length"},
    {.name = "depth",
     .fallback = "",
     .kind = TaskValue::kNumber,
     .least = 0,
     .most = 100,
     .list = true,
     .help = "depths in percent; default: spread evenly"},
    {.name = "kind",
     .fallback = "magic_number",
     .kind = TaskValue::kWord,
     .words = "magic_number|key_value",
     .help = "one number, or several words each with its own"},
    {.name = "keys", .fallback = "4", .least = 2, .most = 64, .help = "words of key_value"},
    {.name = "fill",
     .fallback = "words",
     .kind = TaskValue::kWord,
     .words = "words|exact",
     .help = "prompts as long as whole words allow, or exactly of their length"},
    kTemplateKey,
    kSeedKey,
};

void score_needle(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "recall", needle_recall(answer, sample.golds));
}

std::unique_ptr<Task> make_needle_task(const TaskSpec& spec, const TaskFiles& files,
                                       const Tokenizer& tokenizer) {
  NeedleOptions options;
  options.kind =
      spec.word("kind") == "key_value" ? NeedleKind::kKeyValue : NeedleKind::kMagicNumber;
  options.haystack = files.haystack;
  options.lengths = spec.integers("length");
  options.samples_per_length = spec.integer("samples");
  options.depths_percent = spec.numbers("depth");
  options.keys = spec.integer("keys");
  options.exact = spec.word("fill") == "exact";
  options.plain_template = spec.word("template") == "plain";
  options.seed = spec.unsigned64("seed");
  return make_answer_task(make_needle(options, tokenizer), score_needle);
}

}  // namespace

const TaskInfo kNeedleTask = {"needle",         "Recall of a number hidden in a long text.",
                              "recall",         kKeys,
                              make_needle_task, score_needle};

}  // namespace kvscope
