// Needle in a haystack as a grid: recall at every depth × length, tagged by both.
#include "harness/tasks/niah.h"

#include "datasets/needle/niah.h"
#include "harness/tasks/answer_task.h"
#include "harness/tasks/generated_options.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/needle_recall.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "lengths", .fallback = "4", .least = 1, .most = 1000, .help = "how many of them"},
    {.name = "min_length",
     .fallback = "512",
     .least = 64,
     .most = 1e6,
     .help = "shortest prompt, exact to the token"},
    {.name = "max_length", .fallback = "2048", .least = 64, .most = 1e6, .help = "longest prompt"},
    {.name = "depths", .fallback = "5", .least = 1, .most = 1000, .help = "how many of them"},
    {.name = "spacing",
     .fallback = "linear",
     .kind = TaskValue::kWord,
     .words = "linear|sigmoid",
     .help = "of the depths: even, or dense at both ends"},
    {.name = "samples", .fallback = "1", .least = 1, .most = 1e6, .help = "samples of each cell"},
    kTemplateKey,
    kSeedKey};

void score(std::string_view answer, const Sample& sample, SampleOutcome& outcome) {
  add_metric(outcome, "recall", needle_recall(answer, sample.golds));
}

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskFiles& files,
                                const Tokenizer& tokenizer) {
  GeneratedOptions options = generated_options(spec, files);
  options.lengths =
      grid_lengths(spec.integer("lengths"), spec.integer("min_length"), spec.integer("max_length"));
  options.depths_percent = grid_depths_percent(
      spec.integer("depths"),
      spec.word("spacing") == "sigmoid" ? DepthSpacing::kSigmoid : DepthSpacing::kLinear);
  return make_answer_task(make_niah_grid(spec.integer("samples"), std::move(options), tokenizer),
                          score);
}

}  // namespace

const TaskInfo kNiahTask = {"niah", "Recall of a hidden number on a grid of depths and lengths.",
                            "recall", kKeys, make_task};

}  // namespace kvscope
