// kvscope bench gpu: is the CUDA backend right, and how near does it come to its device? Needs no
// model: random ones of known shapes. What a machine with a GPU is to be checked with
// (scripts/gpu-check).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "harness/build_info/build_info.h"
#include "harness/commands/bench.h"
#include "harness/gpu_check/agreement.h"
#include "harness/gpu_check/check_model.h"
#include "harness/gpu_check/speed.h"
#include "harness/report/table.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct GpuBenchOptions {
  BackendOptions backend{.backend = "cuda", .device = {}};
  int threads = 0;
  bool tiny = false;
  bool no_speed = false;
  bool require_targets = false;
  std::string out;
  bool json = false;
};

struct GpuReport {
  std::string backend;    // Backend::description
  std::string reference;  // likewise
  std::vector<AgreementRow> agreement;
  std::optional<SpeedReport> speed;
  double seconds = 0.0;
  bool is_drill = false;  // no device: the CPU against itself

  bool agrees() const {
    return std::ranges::all_of(agreement,
                               [](const AgreementRow& row) { return row.faults.empty(); }) &&
           (!speed || speed->memory.agree());
  }
  bool meets_targets() const {
    return !speed || std::ranges::all_of(speed->figures, &SpeedFigure::met);
  }
};

std::vector<AgreementWork> agreement_work(bool tiny) {
  if (tiny) {
    return {{tiny_shape(), DType::kF32, 64, 64, 6}, {tiny_shape(), DType::kBF16, 64, 64, 6}};
  }
  return {{smollm2_shape(), DType::kF32},
          {smollm2_shape(), DType::kBF16},
          {llama3_8b_shape(2), DType::kF32},
          {llama3_8b_shape(2), DType::kBF16}};
}

ModelNeed need_of(const AgreementWork& work) {
  ModelNeed need;
  need.config = work.config;
  need.dtype = need.kv_dtype = work.dtype;
  return need;
}

void progress(const std::string& what) { std::fprintf(stderr, "bench gpu: %s\n", what.c_str()); }

// Nothing to check: said in one line, and a status of its own.
std::optional<std::string> why_no_device(const GpuBenchOptions& options, const CudaSupport& cuda) {
  if (options.backend.backend != "cuda") return std::nullopt;
  const CudaDevices devices = find_devices(cuda);
  if (devices.all.empty()) return devices.why_none;
  for (const CudaDevice& device : devices.all) {
    if (device.unusable.empty()) return std::nullopt;
  }
  return devices.all.front().name + ": " + devices.all.front().unusable;
}

GpuReport check(const GpuBenchOptions& options, const CudaSupport& cuda) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<AgreementWork> works = agreement_work(options.tiny);
  const BackendChoice choice = choose_backend(options.backend, cuda, need_of(works.front()));
  const auto tested = make_backend(choice, cuda, options.threads);
  const auto reference = make_cpu_backend(options.threads);
  GpuReport report;
  report.backend = tested->description();
  report.is_drill = !choice.device;
  report.reference = reference->description();
  for (const AgreementWork& work : works) {
    const std::string what = work.config.name + ", " + std::string(name_of(work.dtype));
    if (choice.device) {
      if (const auto shortage = memory_shortage(need_of(work), *choice.device, {})) {
        progress("left out: " + what + ": " + *shortage);
        continue;
      }
    }
    progress("agreement: " + what);
    for (AgreementRow& row : compare_backends(work, *reference, *tested))
      report.agreement.push_back(std::move(row));
  }
  // Large models are not for the CPU.
  if (!options.no_speed && (choice.device || options.tiny)) {
    std::optional<CudaLimits> limits;
    if (choice.device && cuda.measure_limits && !options.tiny) {
      progress("limits of the device");
      limits = cuda.measure_limits(choice.device->index);
    }
    report.speed =
        measure_speed(options.tiny ? tiny_speed_work() : speed_work(choice.device->free_bytes),
                      *tested, limits, progress);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  report.seconds = time.count();
  return report;
}

Json report_json(const GpuReport& report) {
  return {{"bench", "gpu"},
          {"version", version_line()},
          {"backend", report.backend},
          {"reference", report.reference},
          {"agreement", agreement_json(report.agreement)},
          {"speed", report.speed ? speed_json(*report.speed) : Json(nullptr)},
          {"agrees", report.agrees()},
          {"meets_targets", report.meets_targets()},
          {"seconds", json_number(report.seconds)}};
}

std::string report_text(const GpuReport& report) {
  std::string text = version_line() + "\nchecked    " + report.backend + "\nagainst    " +
                     report.reference + "\n\n" + agreement_text(report.agreement);
  if (report.speed) text += '\n' + speed_text(*report.speed);
  text += report.agrees() ? "\nAgrees" : "\nDIFFERS";
  if (report.is_drill) {
    text += ", a drill: the CPU against itself";  // no target is for that
  } else if (report.speed) {
    text += report.meets_targets() ? ", all targets met" : ", targets MISSED";
  }
  return text + "; " + format_duration(report.seconds) + ".\n";
}

ExitCode bench_gpu(const GpuBenchOptions& options, const CudaSupport& cuda) {
  std::ofstream out;
  if (!options.out.empty()) {
    out.open(options.out);  // a file that cannot be written shows before the work
    if (!out) throw IoError("--out " + options.out + ": cannot be written");
  }
  if (const auto why = why_no_device(options, cuda)) {
    std::fprintf(stderr, "kvscope: bench gpu: nothing checked: %s\n", why->c_str());
    return ExitCode::kNotEvaluable;
  }
  const GpuReport report = check(options, cuda);
  if (!options.out.empty()) {
    print_json_line(out, report_json(report));
    if (!out.flush()) throw IoError("--out " + options.out + ": cannot be written");
  }
  if (options.json) {
    print_json_line(std::cout, report_json(report));
  } else {
    std::cout << report_text(report);
  }
  const bool passed = report.agrees() && (!options.require_targets || report.meets_targets());
  return passed ? ExitCode::kOk : ExitCode::kGateFailed;
}

}  // namespace

void add_bench_gpu(CLI::App& bench, CommandContext& context) {
  auto options = std::make_shared<GpuBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "gpu", "Is the CUDA backend right, and how fast? Against the CPU, on random models");
  command
      ->add_option("--backend", options->backend.backend,
                   "What is checked: cuda, or cpu as a drill")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--device", options->backend.device, "CUDA device by number")
      ->check(CLI::Range(0, 1024));
  command->add_option("--threads", options->threads, "Of the CPU (default: all processors)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--tiny", options->tiny, "Tiny models: seconds, and no figure means anything");
  command->add_flag("--no-speed", options->no_speed, "Only whether it is right");
  command->add_flag("--require-targets", options->require_targets,
                    "A target that is missed fails, too");
  command->add_option("--out", options->out, "Write the JSON object to this file");
  command->add_flag("--json", options->json, "Print one JSON object instead of tables");
  command->footer(
      "Exit status: 0 agrees, 1 differs, 3 no device to check.\n"
      "Examples:\n"
      "  kvscope bench gpu --out gpu.json\n"
      "  kvscope bench gpu --tiny --backend cpu");
  set_action(*command, context, [options, &context] { return bench_gpu(*options, context.cuda); });
}

}  // namespace kvscope
