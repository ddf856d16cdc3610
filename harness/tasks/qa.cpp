// Questions about a document: exact match, token F1, and the gold answer's log-probability, which
// is the sensitive one on a small model.
#include "harness/tasks/qa.h"

#include "datasets/qa/facts.h"
#include "datasets/qa/squad.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/exact_match.h"
#include "metrics/quality/token_f1.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "samples",
     .fallback = "20",
     .least = 0,
     .most = 1e6,
     .help = "questions; of a file: at most so many, 0 = all"},
    {.name = "people",
     .fallback = "4",
     .least = 1,
     .most = 1e4,
     .help = "people of a generated document"},
    {.name = "questions",
     .fallback = "1",
     .least = 1,
     .most = 1e4,
     .help = "questions of a generated document"},
    {.name = "filler",
     .fallback = "true",
     .kind = TaskValue::kWord,
     .words = "true|false",
     .help = "sentences between the facts of a generated document"},
    {.name = "seed", .fallback = "1", .least = 0, .most = 1e9, .help = "of the generator"},
};

void score_qa(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "exact_match", exact_match(answer, sample.golds));
  add_metric(outcome, "token_f1", token_f1(answer, sample.golds));
}

std::unique_ptr<Task> make_qa_task(const TaskSpec& spec, const TaskFiles& files,
                                   const Tokenizer& tokenizer) {
  if (!files.qa.empty()) {
    for (const char* key : {"people", "questions", "filler", "seed"}) {
      if (spec.was_written(key)) {
        throw UsageError("task 'qa': " + std::string(key) +
                         " is for generated documents and has no meaning with --qa FILE");
      }
    }
    return make_answer_task(load_squad(files.qa, {.samples = spec.integer("samples")}, tokenizer),
                            score_qa);
  }
  QaOptions options;
  options.samples = spec.integer("samples");
  options.people = spec.integer("people");
  options.questions_per_document = spec.integer("questions");
  options.filler = spec.word("filler") == "true";
  options.seed = spec.unsigned64("seed");
  return make_answer_task(make_qa(options, tokenizer), score_qa);
}

}  // namespace

const TaskInfo kQaTask = {
    "qa", "Answers to questions about a document.", "gold_nll_nats", kKeys, make_qa_task, score_qa};

}  // namespace kvscope
