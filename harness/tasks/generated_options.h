// The keys that all tasks with generated prompts have, and what they mean.
#pragma once

#include "datasets/needle/generated.h"
#include "harness/tasks/task.h"

namespace kvscope {

inline constexpr TaskKey kLengthKey = {.name = "length",
                                       .fallback = "1024",
                                       .least = 64,
                                       .most = 1e6,
                                       .list = true,
                                       .help = "prompt lengths, exact to the token"};
inline constexpr TaskKey kSamplesKey = {
    .name = "samples", .fallback = "20", .least = 1, .most = 1e6, .help = "samples of each length"};
inline constexpr TaskKey kTemplateKey = {
    .name = "template",
    .fallback = "chat",
    .kind = TaskValue::kWord,
    .words = "chat|plain",
    .help = "the model's chat template, or text without turns"};
inline constexpr TaskKey kSeedKey = {
    .name = "seed", .fallback = "1", .least = 0, .most = 1e9, .help = "of the generator"};
inline constexpr TaskKey kDepthKey = {.name = "depth",
                                      .fallback = "",
                                      .kind = TaskValue::kNumber,
                                      .least = 0,
                                      .most = 100,
                                      .list = true,
                                      .help = "depths in percent, used in turn"};

// Of the keys that the task has.
GeneratedOptions generated_options(const TaskSpec& spec, const TaskFiles& files);

}  // namespace kvscope
