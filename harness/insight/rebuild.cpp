#include "harness/insight/rebuild.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "runner/base/error.h"
#include "runner/policies/catalog.h"

namespace kvscope {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const RecordedSample& recorded, const std::string& what) {
  throw DataError("sweep " + recorded.sweep_uuid + ", sample " + recorded.sample_key + ": " + what);
}

// read(options), with what does not fit turned into a refusal.
template <typename Read>
auto from_options(const RecordedSample& recorded, const Read& read) {
  try {
    return read(json::parse(recorded.options_json));
  } catch (const json::exception&) {
    refuse(recorded, "its recorded options cannot be read; was it run by another program?");
  }
}

TaskSpec recorded_task(const RecordedSample& recorded, const TaskInfo& info, const json& options) {
  TaskSpec spec;
  for (const json& task : options.at("tasks")) {
    if (task.at("name") != recorded.task) continue;
    spec.name = recorded.task;
    spec.values = task.at("keys").get<std::map<std::string, std::vector<std::string>>>();
  }
  if (spec.name.empty()) refuse(recorded, "its recorded options name no task " + recorded.task);
  // What differs from the defaults was written; some keys mean something only then.
  const std::vector<TaskSpec> defaults = parse_tasks(info.name);
  for (const auto& [key, values] : defaults.front().values) {
    const auto at = spec.values.find(key);
    if (at == spec.values.end()) {
      spec.values[key] = values;  // of a newer program
    } else if (at->second != values) {
      spec.written[key] = at->second;
    }
  }
  return spec;
}

}  // namespace

RecordedModelOptions recorded_model_options(const RecordedSample& recorded) {
  return from_options(recorded, [](const json& options) {
    return RecordedModelOptions{
        options.at("dtype"), options.at("kv_dtype"), options.value("backend", "cpu"),
        options.value("beyond_context", false), options.value("chat_template", std::string())};
  });
}

ArmPlan recorded_arm(const RecordedSample& recorded) {
  const auto plugins = from_options(recorded, [](const json& options) {
    return options.value("policy_plugins", std::vector<std::string>());
  });
  ArmPlan arm;
  arm.policy = parse_policy(recorded.arm.policy, catalog_with_plugins(plugins));
  const std::string& budget = recorded.arm.budget;
  if (budget.ends_with("tok")) {
    int tokens = 0;
    std::from_chars(budget.data(), budget.data() + budget.size(), tokens);
    arm.budget = {.permille = {}, .tokens = tokens};
  } else {
    arm.budget = parse_budget_ratio(budget);
  }
  arm.question = recorded.arm.question_visibility == "hidden" ? QuestionVisibility::kHidden
                                                              : QuestionVisibility::kVisible;
  return arm;
}

RebuiltSample rebuild_sample(const RecordedSample& recorded, const Tokenizer& tokenizer,
                             const std::filesystem::path& default_text) {
  RebuiltSample rebuilt;
  rebuilt.info = find_task(recorded.task);
  if (rebuilt.info == nullptr) refuse(recorded, "this program knows no task " + recorded.task);
  const auto [spec, files] = from_options(recorded, [&](const json& options) {
    const auto path = [&](const char* key) {
      return std::filesystem::path(options.value(key, std::string()));
    };
    TaskFiles named;
    named.text = path("text");
    named.corpus = options.value("corpus", std::string());
    named.haystack = path("haystack");
    named.qa = path("qa");
    named.qa_prompts = path("qa_prompts");
    named.qa_lengths = path("qa_lengths");
    named.skip_bad_records =
        true;  // as many as the record's run left out; the input's hash decides
    named.prompts = path("prompts");
    named.context = options.at("context").get<int>();
    return std::pair(recorded_task(recorded, *rebuilt.info, options), std::move(named));
  });
  TaskFiles with_text = files;
  if (with_text.text.empty()) with_text.text = default_text;
  rebuilt.task = rebuilt.info->make(spec, with_text, tokenizer);
  const auto samples = sample_records(rebuilt.task->dataset());
  const auto at = std::ranges::find(samples, recorded.sample_key, &SampleRecord::sample_key);
  if (at == samples.end()) {
    refuse(recorded,
           "the recorded task makes no such sample any more; its text, haystack or "
           "generator has changed");
  }
  if (at->input_sha256 != recorded.input_sha256) {
    refuse(recorded, "made again it has other tokens than the record's (input " +
                         at->input_sha256.substr(0, 12) + ", recorded " +
                         recorded.input_sha256.substr(0, 12) +
                         "); its text, tokenizer or generator has changed");
  }
  rebuilt.index = std::size_t(at - samples.begin());
  return rebuilt;
}

void require_same_arm(const RecordedSample& recorded, const ArmPlan& arm, const Model& model) {
  const ArmRecord now = arm_record(arm, model.key(), model.dtype, model.kv_dtype);
  if (now.key == recorded.arm.arm_key) return;
  refuse(recorded, "the arm " + recorded.arm.label + " was run on another model (" +
                       recorded.arm.model + ", " + recorded.arm.dtype + ", " +
                       recorded.arm.backend +
                       ") or with another plug-in; name the model's file "
                       "by --model");
}

}  // namespace kvscope
