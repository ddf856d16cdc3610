// A user's own prompts. There is no gold answer: an arm is judged by how close it stays to the full
// cache, on the full cache's own answer and in what it writes itself.
#include "harness/tasks/replay.h"

#include "datasets/prompts/prompts.h"
#include "harness/tasks/answer_task.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "new_tokens",
     .fallback = "64",
     .least = 1,
     .most = 1e6,
     .help = "most tokens of an answer"},
    {.name = "samples", .fallback = "0", .least = 0, .most = 1e6, .help = "prompts, 0 = all"}};

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskFiles& files,
                                const Tokenizer& tokenizer) {
  if (files.prompts.empty()) {
    throw UsageError("task 'replay' needs prompts: kvscope replay FILE.jsonl");
  }
  const PromptOptions options{.limit = spec.integer("samples"),
                              .max_new_tokens = spec.integer("new_tokens")};
  return make_answer_task(
      load_prompts(files.prompts, options, tokenizer),
      [](std::string_view, const Sample&, SampleOutcome&) {}, true);
}

}  // namespace

const TaskInfo kReplayTask = {
    "replay", "Fidelity to the full cache on a user's own prompts (kvscope replay).",
    "kl_full_nats", kKeys, make_task};

}  // namespace kvscope
