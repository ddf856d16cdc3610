#include "harness/tasks/generated_options.h"

namespace kvscope {

GeneratedOptions generated_options(const TaskSpec& spec, const TaskFiles& files) {
  const auto has = [&](const char* key) { return spec.values.contains(key); };
  GeneratedOptions options;
  options.haystack = files.haystack;
  if (has("length")) options.lengths = spec.integers("length");
  if (has("samples")) options.samples_per_length = spec.integer("samples");
  if (has("depth")) options.depths_percent = spec.numbers("depth");
  options.plain_template = spec.word("template") == "plain";
  options.seed = spec.unsigned64("seed");
  return options;
}

}  // namespace kvscope
