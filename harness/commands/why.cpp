#include "harness/commands/why.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "harness/commands/chat_option.h"
#include "harness/commands/sweep_run.h"
#include "harness/insight/rebuild.h"
#include "harness/insight/why_report.h"
#include "harness/plan/stop_signals.h"
#include "harness/report/progress.h"
#include "harness/tasks/needle.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct WhyCommand {
  std::string run;
  std::string sample;
  std::string arm;
  std::string database = kDefaultDatabase;
  ModelOptions model;
  ExplainOptions explain;
  std::string room = "beside";
  int planted = 0;
  PlantedOptions plan;
  std::string policy = "streaming_llm:positions=absolute";
  std::string budget = "0.2";
  bool json = false;
};

ExitCode stopped(const StopSignals& signals) {
  std::fprintf(stderr, "Stopped.\n");
  return signals.exit_code().value_or(ExitCode::kTryAgain);
}

// The record's answer is the answer only if it still comes out; another program may differ.
void note_difference(const RecordedSample& recorded, const AnswerReport& report) {
  if (!recorded.result || recorded.result->status != "ok" || !report.error.empty()) return;
  // The record's text has invalid UTF-8 replaced.
  const auto as_recorded = [](const std::string& text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (as_recorded(recorded.result->output_text) == as_recorded(report.arm.text)) return;
  std::fprintf(stderr, "note: the record's answer is another one (\"%s\"); it was computed by %s\n",
               recorded.result->output_text.c_str(), recorded.program_version.c_str());
}

ExitCode run_recorded(const WhyCommand& command, const CudaSupport& cuda) {
  const StopSignals signals;
  Store store = Store::open(command.database, StoreAccess::kReadOnly);
  const RecordedSample recorded = find_recorded(store, command.run, command.sample, command.arm);
  const ArmPlan arm = recorded_arm(recorded);
  if (arm.is_reference()) {
    throw UsageError("why: " + recorded.arm.label +
                     " is what the others are explained by; name an arm that evicts");
  }
  const RecordedModelOptions of_record = recorded_model_options(recorded);
  ModelOptions options = command.model;
  options.dtype = of_record.dtype;
  options.kv_dtype = of_record.kv_dtype;
  options.backend.backend = of_record.backend;
  options.beyond_context = of_record.beyond_context;
  if (options.chat_template.empty()) options.chat_template = of_record.chat_template;
  const OpenedModel opened = open_model(options, cuda);
  require_same_arm(recorded, arm, *opened.model);
  const RebuiltSample rebuilt = rebuild_sample(recorded, *opened.tokenizer, prepared_text());
  const Dataset& dataset = rebuilt.task->dataset();
  const ExplainRequest request{*opened.engine,
                               *opened.tokenizer,
                               arm,
                               rebuilt.info->score_answer,
                               command.explain,
                               {},
                               [&signals] { return signals.requested(); }};
  const std::string title = "sample " + recorded.sample_key + " (" + recorded.task + "), arm " +
                            recorded.arm.label + "\n";
  const auto print = [&](Json json, const std::string& text) {
    if (!command.json) {
      std::cout << title << text;
      return;
    }
    Json out = {{"arm", recorded.arm.label},
                {"arm_key", recorded.arm.arm_key},
                {"sweep_uuid", recorded.sweep_uuid},
                {"task", recorded.task},
                {"input_sha256", recorded.input_sha256}};
    out.update(json);
    print_json_line(std::cout, out);
  };
  if (rebuilt.info->score_answer == nullptr) {
    const TextWindow& window = dataset.windows.at(rebuilt.index);
    const auto report = explain_window(request, window);
    if (!report) return stopped(signals);
    const TokenNames names{*opened.tokenizer, window.ids};
    print(window_json(*report, names), window_report_text(*report, names));
    return report->error.empty() ? ExitCode::kOk : ExitCode::kNotEvaluable;
  }
  const Sample* sample = &dataset.samples.at(rebuilt.index);
  const auto reports = explain_answers(request, {&sample, 1});
  if (!reports) return stopped(signals);
  note_difference(recorded, reports->front());
  const TokenNames names{*opened.tokenizer, sample->prompt_ids};
  print(answer_json(reports->front(), names),
        answer_report_text(reports->front(), names, *opened.tokenizer));
  return reports->front().error.empty() ? ExitCode::kOk : ExitCode::kNotEvaluable;
}

// Dense rows of the prompts that run together, with half as much again for what else is kept.
std::int64_t prompt_bytes(const Model& model, int length_tokens) {
  const auto row_floats = std::int64_t(model.attention_shape(0).row_floats());
  return kPlantedBatch * std::int64_t{length_tokens} * model.config.n_layers * row_floats * 6;
}

ExitCode run_planted(const WhyCommand& command, const CudaSupport& cuda) {
  const StopSignals signals;
  const ArmPlan arm{parse_policy(command.policy), parse_budget_ratio(command.budget)};
  if (arm.policy.is_full())
    throw UsageError("why --planted: " + command.policy + " evicts nothing");
  const OpenedModel opened = open_model(command.model, cuda);
  // The same prompts three times.
  opened.engine->use_prefix_cache(prompt_bytes(*opened.model, command.plan.length_tokens));
  const ExplainRequest request{*opened.engine,
                               *opened.tokenizer,
                               arm,
                               kNeedleTask.score_answer,
                               command.explain,
                               {},
                               [&signals] { return signals.requested(); }};
  PlantedOptions plan = command.plan;
  plan.n_failures = command.planted;
  plan.seed = command.explain.seed;
  std::optional<PlantedResult> result;
  {
    Progress progress("planted", plan.n_failures, "failures");
    int found = 0;
    result = explain_planted(request, plan, [&](int n) {
      progress.advance(n - found);
      found = n;
    });
  }
  if (!result) return stopped(signals);
  if (command.json) {
    Json out = {{"policy", arm.policy.canonical},
                {"budget", arm.budget.label()},
                {"length_tokens", plan.length_tokens},
                {"haystack", plan.haystack.empty() ? "noise" : plan.haystack.string()},
                {"seed", plan.seed},
                {"model", opened.model->config.name}};
    out.update(planted_json(*result));
    print_json_line(std::cout, out);
  } else {
    std::cout << arm.label() << ", needles in " << plan.length_tokens << " tokens\n"
              << planted_text(*result);
  }
  return result->n_failures > 0 ? ExitCode::kOk : ExitCode::kNotEvaluable;
}

ExitCode run_why(const WhyCommand& given, const CudaSupport& cuda) {
  WhyCommand command = given;
  command.explain.room =
      command.room == "within" ? Restoration::Room::kWithin : Restoration::Room::kBeside;
  if (command.planted > 0) {
    if (!command.run.empty()) throw UsageError("why: RUN SAMPLE ARM, or --planted; not both");
    return run_planted(command, cuda);
  }
  if (command.arm.empty()) {
    throw UsageError("why: name a RUN (or newest), a SAMPLE and an ARM of it, or give --planted N");
  }
  return run_recorded(command, cuda);
}

}  // namespace

void add_why_command(CLI::App& app, CommandContext& context) {
  CLI::App* command = app.add_subcommand(
      "why", "Which evicted tokens an answer lacked: found, put back, and run again");
  auto options = std::make_shared<WhyCommand>();
  command->add_option("RUN", options->run,
                      "Run or sweep by the first characters of its id, or newest");
  command->add_option("SAMPLE", options->sample, "Sample key, or its beginning");
  command->add_option("ARM", options->arm, "Arm of that run: POLICY@BUDGET, row id or key");
  command->add_option("--db", options->database, "Database of sweeps (default kvscope.db)");
  add_model_file_option(*command, options->model.file);
  add_chat_option(*command, options->model.chat_template);
  command
      ->add_option("--threads", options->model.threads,
                   "Computing threads of the CPU (default: all processors)")
      ->check(CLI::Range(0, 1024));
  command
      ->add_option("--top", options->explain.top,
                   "Tokens to put back (default: as many as the evidence has, else 16)")
      ->check(CLI::Range(1, 100'000));
  command
      ->add_option("--controls", options->explain.n_controls,
                   "Draws of as many random evicted tokens, put back as a control")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command->add_option("--seed", options->explain.seed, "Of the draws, and of planted needles")
      ->capture_default_str();
  command
      ->add_option("--room", options->room,
                   "beside: in addition to what the policy keeps; within: in place of the lightest")
      ->capture_default_str()
      ->check(CLI::IsMember({"beside", "within"}));
  command
      ->add_option("--planted", options->planted,
                   "Instead of a record: make needles until so many are lost to eviction, and "
                   "explain these")
      ->check(CLI::Range(1, 100'000));
  command->add_option("--policy", options->policy, "With --planted: what evicts the needle")
      ->capture_default_str();
  command->add_option("--budget", options->budget, "With --planted: its budget, a ratio")
      ->capture_default_str();
  command->add_option("--length", options->plan.length_tokens, "With --planted: prompt tokens")
      ->capture_default_str()
      ->check(CLI::Range(64, 1'000'000));
  command->add_option("--haystack", options->plan.haystack,
                      "With --planted: text to hide needles in (default: noise)");
  command->add_flag("--json", options->json, "One JSON object");
  command->footer(
      "Examples:\n"
      "  kvscope why newest magic_number:length=1024:depth=50 h2o@0.200 --db demo.db\n"
      "  kvscope why --planted 50 --policy streaming_llm:positions=absolute --budget 0.2 --json\n"
      "How it is measured, and what it cannot see: docs/why.md.");
  set_action(*command, context, [options, &context] { return run_why(*options, context.cuda); });
}

}  // namespace kvscope
