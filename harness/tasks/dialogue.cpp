// One text, several questions in turn, on one cache that was compressed once, before or after the
// first question. With feed=gold every turn's numbers come from the same tokens in all arms.
#include "harness/tasks/dialogue.h"

#include "datasets/dialogue/dialogue.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/generated_options.h"
#include "harness/tasks/outcome.h"
#include "harness/tasks/own_turns.h"
#include "metrics/quality/needle_recall.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "kind",
     .fallback = "random",
     .kind = TaskValue::kWord,
     .words = "random|topic_switch|early_first",
     .help = "order of the questions; topic_switch: the last one goes back to the text's start, "
             "early_first: its control, the same question first"},
    {.name = "turns", .fallback = "4", .least = 2, .most = 100, .help = "questions of a dialogue"},
    {.name = "feed",
     .fallback = "gold",
     .kind = TaskValue::kWord,
     .words = "gold|own",
     .help = "which answers stay in the cache: the right ones, or the arm's own"},
    kLengthKey,
    {.name = "samples",
     .fallback = "10",
     .least = 1,
     .most = 1e6,
     .help = "dialogues of each length"},
    kTemplateKey,
    kSeedKey};

void score(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "recall", needle_recall(answer, sample.golds));
}

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskFiles& files,
                                const Tokenizer& tokenizer) {
  DialogueOptions options;
  options.text = generated_options(spec, files);
  if (spec.word("kind") == "topic_switch") options.kind = DialogueKind::kTopicSwitch;
  if (spec.word("kind") == "early_first") options.kind = DialogueKind::kEarlyFirst;
  if (spec.word("feed") == "own") options.feed = DialogueFeed::kOwn;
  options.turns = spec.integer("turns");
  Dialogues dialogues = make_dialogues(options, tokenizer);
  if (options.feed == DialogueFeed::kGold) {
    return make_answer_task(std::move(dialogues.data), score);
  }
  return make_own_turns_task(std::move(dialogues), score);
}

}  // namespace

const TaskInfo kDialogueTask = {"dialogue",
                                "Recall by turn: several questions on one compressed cache.",
                                "recall", kKeys, make_task};

}  // namespace kvscope
