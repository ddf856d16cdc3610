#include "harness/commands/doctor.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/commands/doctor_report.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct DoctorOptions {
  ModelOptions model;
  bool no_model = false;
  bool json = false;
};

// What slows this machine down and can be changed.
std::vector<std::string> notes_on(const DoctorReport& report) {
  std::vector<std::string> notes;
  if (report.facts.huge_pages == "never") {
    notes.emplace_back(
        "huge pages are off: reading weights can take twice as long; write madvise to "
        "/sys/kernel/mm/transparent_hugepage/enabled");
  }
  // Half a processor in use by others shows in every figure.
  if (report.facts.load_average > 0.5) {
    notes.emplace_back(
        "other programs were running: all figures are lower than on an idle machine");
  }
  if (!report.model_present) {
    notes.emplace_back("no model to run: run scripts/fetch-model, or name one with --model");
  }
  return notes;
}

ExitCode run_doctor(const DoctorOptions& options, const CudaSupport& cuda) {
  DoctorReport report;
  // The default model may be absent, one that was named may not.
  const std::string& named = options.model.file;
  report.model_file = named.empty() ? default_model_file() : model_file_or_default(named);
  std::error_code ignored;
  report.model_present = std::filesystem::exists(report.model_file, ignored);
  report.facts = machine_facts();
  report.notes = notes_on(report);
  report.cuda = find_devices(cuda);
  report.cuda_build = cuda.description;
  {
    ThreadPool pool(options.model.threads);
    report.limits = cpu::measure_machine_limits(pool);
    report.threads = pool.size();
  }

  OpenedModel opened;
  if (report.model_present && !options.no_model) {
    opened = open_model(options.model, cuda);
    report.model = opened.model.get();
    report.device = opened.device;
    if (opened.device && cuda.measure_limits)
      report.device_limits = cuda.measure_limits(opened.device->index);
    report.phases = profile_stages(*opened.model, *opened.backend, {});
  }
  report.backend = opened.backend ? opened.backend->description()
                                  : make_cpu_backend(options.model.threads)->description();
  if (options.json) {
    print_json_line(std::cout, doctor_json(report));
  } else {
    std::cout << doctor_text(report);
  }
  return ExitCode::kOk;
}

}  // namespace

void add_doctor_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "This machine, its measured limits, and how near each stage comes to them");
  add_model_options(*command, options->model);
  command->add_flag("--no-model", options->no_model, "Only the machine: do not run a model");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n  kvscope doctor\n  kvscope doctor --dtype bf16 --json\n"
      "  kvscope doctor --backend cuda --dtype bf16");
  set_action(*command, context, [options, &context] { return run_doctor(*options, context.cuda); });
}

}  // namespace kvscope
