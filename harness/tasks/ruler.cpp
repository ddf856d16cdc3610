// RULER's synthetic kinds (Hsieh et al. 2024), one data set each: list the task several times for
// several kinds. Its two kinds of question answering need files.
#include "harness/tasks/ruler.h"

#include <algorithm>

#include "datasets/needle/niah.h"
#include "datasets/needle/ruler_synthetic.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/generated_options.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/contains.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "kind",
     .fallback = "niah_single_1",
     .kind = TaskValue::kWord,
     .words = "niah_single_1|niah_single_2|niah_single_3|niah_multikey_1|niah_multikey_2|"
              "niah_multikey_3|niah_multivalue|niah_multiquery|vt|cwe|fwe",
     .help = "hidden values, variables (vt), common (cwe) and frequent words (fwe)"},
    kLengthKey,
    kSamplesKey,
    kDepthKey,
    {.name = "chains", .fallback = "1", .least = 1, .most = 20, .help = "of vt"},
    {.name = "hops", .fallback = "4", .least = 1, .most = 20, .help = "of vt"},
    {.name = "words", .fallback = "10", .least = 1, .most = 50, .help = "that cwe asks for"},
    {.name = "common",
     .fallback = "0",
     .least = 0,
     .most = 1000,
     .help = "times each of them occurs; 0: 30, below 4096 tokens 10"},
    {.name = "uncommon", .fallback = "3", .least = 1, .most = 1000, .help = "times others do"},
    kTemplateKey,
    kSeedKey};

void score(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "string_match_all", share_contained(answer, sample.golds));
}

// Keys of other kinds have no meaning.
void refuse(const TaskSpec& spec, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (spec.was_written(key)) {
      throw UsageError("task 'ruler': " + std::string(key) +
                       " has no meaning with kind=" + spec.word("kind"));
    }
  }
}

Dataset make_dataset(const TaskSpec& spec, const TaskFiles& files, const Tokenizer& tokenizer) {
  const std::string& name = spec.word("kind");
  GeneratedOptions options = generated_options(spec, files);
  // A book will do where essays are not at hand.
  if (options.haystack.empty()) options.haystack = files.text;
  if (name != "vt") refuse(spec, {"chains", "hops"});
  if (name != "cwe") refuse(spec, {"words", "common", "uncommon"});
  if (name == "vt" || name == "cwe" || name == "fwe") refuse(spec, {"depth"});
  if (name == "vt") {
    return make_variable_tracking({spec.integer("chains"), spec.integer("hops")}, options,
                                  tokenizer);
  }
  if (name == "cwe") {
    return make_common_words(
        {spec.integer("words"), spec.integer("common"), spec.integer("uncommon")}, options,
        tokenizer);
  }
  if (name == "fwe") return make_frequent_words(options, tokenizer);
  return make_niah(*std::ranges::find(niah_kinds(), name, &NiahKind::name), options, tokenizer);
}

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskFiles& files,
                                const Tokenizer& tokenizer) {
  return make_answer_task(make_dataset(spec, files, tokenizer), score);
}

}  // namespace

const TaskInfo kRulerTask = {"ruler", "RULER's synthetic kinds: retrieval, variables, word counts.",
                             "string_match_all", kKeys, make_task};

}  // namespace kvscope
