// Questions about a document: exact match, token F1, and the gold answer's log-probability, which
// is the sensitive one on a small model.
#include "harness/tasks/qa.h"

#include <algorithm>
#include <memory>

#include "datasets/qa/facts.h"
#include "datasets/questions/load_questions.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/chinese_words.h"
#include "metrics/quality/exact_match.h"
#include "metrics/quality/scorers.h"
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
    {.name = "prompt_tokens",
     .fallback = "0",
     .least = 0,
     .most = 1e7,
     .help = "of a file: longer prompts are cut to so many tokens, 0 = never"},
    {.name = "cut",
     .fallback = "format",
     .kind = TaskValue::kWord,
     .words = "format|middle|head|none",
     .help = "of a file: which part of a long prompt goes; format: as its authors do"},
    {.name = "impossible",
     .fallback = "false",
     .kind = TaskValue::kWord,
     .words = "true|false",
     .help = "of a file: also questions that the text does not answer (SQuAD v2)"},
};

// The metrics of all questions, and the one of the data set's authors. Where that needs jieba's
// dictionary, the F1 of characters stands beside it, and alone where there is no dictionary.
void score_qa(std::string_view answer, const Sample& sample, const ChineseWords* words,
              SampleOutcome& outcome) {
  if (sample.golds.empty()) return;
  add_metric(outcome, "exact_match", exact_match(answer, sample.golds));
  add_metric(outcome, "token_f1", token_f1(answer, sample.golds));
  const ScorerInfo* info = find_scorer(sample.scorer);
  if (info == nullptr || info->name == "exact_match" || info->name == "token_f1") return;
  const ScoredAnswer scored{answer, sample.golds, sample.classes, sample.question, words};
  const auto add = [&](const ScorerInfo& scorer) {
    add_metric(outcome, std::string(scorer.name), scorer.score(scored));
  };
  if (info->needs_words) add(scorer_named("character_f1"));
  if (!info->needs_words || words != nullptr) add(*info);
}

QuestionOptions question_options(const TaskSpec& spec, const TaskFiles& files) {
  QuestionOptions options;
  options.samples = spec.integer("samples");
  options.keep_impossible = spec.word("impossible") == "true";
  options.skip_bad_records = files.skip_bad_records;
  options.max_prompt_tokens = spec.integer("prompt_tokens");
  const std::string& cut = spec.word("cut");
  if (cut == "middle") options.truncation = Truncation::kMiddle;
  if (cut == "head") options.truncation = Truncation::kHead;
  if (cut == "none") options.truncation = Truncation::kNone;
  if (!files.qa_prompts.empty()) options.prompts.read_texts(files.qa_prompts);
  if (!files.qa_lengths.empty()) options.prompts.read_lengths(files.qa_lengths);
  return options;
}

std::unique_ptr<Task> make_file_task(const TaskSpec& spec, const TaskFiles& files,
                                     const Tokenizer& tokenizer) {
  for (const char* key : {"people", "questions", "filler", "seed"}) {
    if (spec.was_written(key)) {
      throw UsageError("task 'qa': " + std::string(key) +
                       " is for generated documents and has no meaning with --qa FILE");
    }
  }
  Dataset data = load_questions(files.qa, question_options(spec, files), tokenizer);
  std::shared_ptr<const ChineseWords> words;
  const auto wants_words = [](const Sample& sample) {
    const ScorerInfo* info = find_scorer(sample.scorer);
    return info != nullptr && info->needs_words;
  };
  if (std::ranges::any_of(data.samples, wants_words)) {
    if (const auto folder = ChineseWords::installed_folder()) {
      words = std::make_shared<const ChineseWords>(*folder);
    } else {
      data.notes.emplace_back(
          "no dictionary of jieba: its scores are left out, character_f1 is there (install "
          "python3-jieba, or name its folder by KVSCOPE_JIEBA)");
    }
  }
  return make_answer_task(std::move(data), [words](std::string_view answer, const Sample& sample,
                                                   SampleOutcome& outcome) {
    score_qa(answer, sample, words.get(), outcome);
  });
}

std::unique_ptr<Task> make_qa_task(const TaskSpec& spec, const TaskFiles& files,
                                   const Tokenizer& tokenizer) {
  if (!files.qa.empty()) return make_file_task(spec, files, tokenizer);
  for (const char* key : {"prompt_tokens", "cut", "impossible"}) {
    if (spec.was_written(key)) {
      throw UsageError("task 'qa': " + std::string(key) + " is for --qa FILE");
    }
  }
  QaOptions options;
  options.samples = spec.integer("samples");
  options.people = spec.integer("people");
  options.questions_per_document = spec.integer("questions");
  options.filler = spec.word("filler") == "true";
  options.seed = spec.unsigned64("seed");
  return make_answer_task(
      make_qa(options, tokenizer),
      [](std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
        score_qa(answer, sample, nullptr, outcome);
      });
}

}  // namespace

const TaskInfo kQaTask = {
    "qa", "Answers to questions about a document.", "gold_nll_nats", kKeys, make_qa_task, score_qa};

}  // namespace kvscope
