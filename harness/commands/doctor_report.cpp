#include "harness/commands/doctor_report.h"

#include <limits>

#include "harness/build_info/build_info.h"
#include "harness/report/table.h"

namespace kvscope {
namespace {

std::string giga(double per_second, const char* unit) {
  return format_fixed(per_second / 1e9, 1) + " " + unit;
}

std::string count_of(int n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string phase_title(const ProfilePhase& phase) {
  return phase.is_prefill
             ? "prefill of " + count_of(phase.rows, "token")
             : count_of(phase.steps, "decode step") + " of " + count_of(phase.rows, "row");
}

// Limits of what the phases ran on; not numbers where they are not known.
cpu::MachineLimits limits_of_phases(const DoctorReport& report) {
  if (!report.device) return report.limits;
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  cpu::MachineLimits limits;
  limits.f32_flops_per_second = kUnknown;
  limits.bf16_flops_per_second = kUnknown;
  limits.read_bytes_per_second = kUnknown;
  if (report.device_limits) {
    limits.f32_flops_per_second = report.device_limits->f32_flops_per_second;
    limits.bf16_flops_per_second = report.device_limits->bf16_flops_per_second;
    limits.read_bytes_per_second = report.device_limits->copy_bytes_per_second;
  }
  return limits;
}

std::string capability_text(const CudaDevice& device) {
  return std::to_string(device.compute_capability / 10) + "." +
         std::to_string(device.compute_capability % 10);
}

// "device 0: NVIDIA H200, compute capability 9.0, 139.8 GiB, 139.2 GiB free"
std::string device_line(const CudaDevice& device) {
  std::string line = "device " + std::to_string(device.index) + ": " + device.name +
                     ", compute capability " + capability_text(device) + ", " +
                     format_bytes(device.total_bytes);
  return device.unusable.empty() ? line + ", " + format_bytes(device.free_bytes) + " free"
                                 : line + ", cannot be used: " + device.unusable;
}

Json device_json(const CudaDevice& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"compute_capability", capability_text(device)},
          {"total_bytes", device.total_bytes},
          {"free_bytes", device.free_bytes},
          {"usable", device.unusable.empty()},
          {"why_not", device.unusable}};
}

Json cuda_json(const DoctorReport& report) {
  Json devices = Json::array();
  for (const CudaDevice& device : report.cuda.all) devices.push_back(device_json(device));
  Json json = {
      {"build", report.cuda_build}, {"devices", devices}, {"why_none", report.cuda.why_none}};
  if (report.device_limits) {
    json["limits"] = {
        {"f32_flops_per_second", json_number(report.device_limits->f32_flops_per_second)},
        {"bf16_flops_per_second", json_number(report.device_limits->bf16_flops_per_second)},
        {"copy_bytes_per_second", json_number(report.device_limits->copy_bytes_per_second)}};
  }
  return json;
}

void append_phase(std::string& out, const DoctorReport& report, const ProfilePhase& phase) {
  out += "\n" + phase_title(phase) + ": " + format_fixed(phase.seconds, 2) + " s, " +
         format_fixed(phase.tokens_per_second(), 0) + " tokens/s\n\n";
  Table table({"stage", "calls", "ms", "GFLOP/s", "of compute", "GB/s", "of memory"});
  for (const StageCounter& counter : phase.stages) {
    const StageFigures f = stage_figures(*report.model, limits_of_phases(report), counter);
    const bool computes = counter.work.flops > 0;
    table.add_row({f.name, std::to_string(counter.calls), format_fixed(counter.seconds * 1e3, 1),
                   computes ? format_fixed(f.flops_per_second / 1e9, 1) : "-",
                   computes ? format_percent(f.compute_share, 0) : "-",
                   format_fixed(f.bytes_per_second / 1e9, 1), format_percent(f.memory_share, 0)});
  }
  table.add_row({"outside the backend", "", format_fixed(phase.seconds_outside_stages() * 1e3, 1),
                 "", "", "", ""});
  out += table.text();
}

// What the stage multiplies: weights, keys and values, or activations.
DType factor_type(const Model& model, const StageCounter& counter) {
  if (counter.n_out > 0) return model.dtype;
  const std::string_view s = counter.stage;
  const bool is_attention = s == "attend_dense" || s == "scan" || s == "column_weights";
  return is_attention ? model.kv_dtype : DType::kF32;
}

Json stage_json(const DoctorReport& report, const StageCounter& counter) {
  const StageFigures f = stage_figures(*report.model, limits_of_phases(report), counter);
  return {{"stage", f.name},
          {"calls", counter.calls},
          {"seconds", json_number(counter.seconds)},
          {"flops", json_number(counter.work.flops)},
          {"bytes", json_number(counter.work.bytes)},
          {"flops_per_second", json_number(f.flops_per_second)},
          {"compute_share", json_number(f.compute_share)},
          {"bytes_per_second", json_number(f.bytes_per_second)},
          {"memory_share", json_number(f.memory_share)}};
}

Json phase_json(const DoctorReport& report, const ProfilePhase& phase) {
  Json stages = Json::array();
  for (const StageCounter& counter : phase.stages) stages.push_back(stage_json(report, counter));
  return {{"phase", phase.is_prefill ? "prefill" : "decode"},
          {"rows", phase.rows},
          {"steps", phase.steps},
          {"seconds", json_number(phase.seconds)},
          {"tokens_per_second", json_number(phase.tokens_per_second())},
          {"seconds_outside_stages", json_number(phase.seconds_outside_stages())},
          {"stages", stages}};
}

}  // namespace

StageFigures stage_figures(const Model& model, const cpu::MachineLimits& limits,
                           const StageCounter& counter) {
  const double compute_limit =
      factor_type(model, counter) == DType::kBF16
          ? limits.bf16_flops_per_second.value_or(limits.f32_flops_per_second)
          : limits.f32_flops_per_second;
  StageFigures f;
  f.name = stage_name(model, counter);
  f.counter = counter;
  f.flops_per_second = counter.work.flops / counter.seconds;
  f.bytes_per_second = counter.work.bytes / counter.seconds;
  f.compute_share = f.flops_per_second / compute_limit;
  f.memory_share = f.bytes_per_second / limits.read_bytes_per_second;
  return f;
}

std::string doctor_text(const DoctorReport& report) {
  const cpu::MachineLimits& limits = report.limits;
  std::string libraries;
  for (const LibraryVersion& library : report.facts.libraries) {
    libraries += (libraries.empty() ? "" : ", ") + library.name + " " + library.version;
  }
  std::string measured = "f32 " + giga(limits.f32_flops_per_second, "GFLOP/s") + ", ";
  measured += limits.bf16_flops_per_second
                  ? "bf16 " + giga(*limits.bf16_flops_per_second, "GFLOP/s")
                  : "no bf16 in hardware";
  measured += ", memory read " + giga(limits.read_bytes_per_second, "GB/s");
  const std::string model = report.model_present ? report.model_file.string()
                                                 : "not there: " + report.model_file.string();
  std::string out = version_line() + "\n";
  const auto line = [&](const char* name, const std::string& value) {
    out += name + std::string(12 - std::string_view(name).size(), ' ') + value + "\n";
  };
  line("processor", report.facts.processor + ", " + count_of(report.threads, "thread") + ", load " +
                        format_fixed(report.facts.load_average, 1));
  line("vectors", limits.vector_target);
  line("backend", report.backend);
  line("libraries", libraries);
  line("huge pages", report.facts.huge_pages);
  line("limits", measured);
  if (report.cuda.all.empty()) line("cuda", "not there: " + report.cuda.why_none);
  for (const CudaDevice& device : report.cuda.all) line("cuda", device_line(device));
  if (const auto& device = report.device_limits) {
    line("device", "measured f32 " + giga(device->f32_flops_per_second, "GFLOP/s") + ", bf16 " +
                       giga(device->bf16_flops_per_second, "GFLOP/s") + ", copy " +
                       giga(device->copy_bytes_per_second, "GB/s"));
  }
  line("model", model);
  for (const std::string& note : report.notes) line("note", note);
  for (const ProfilePhase& phase : report.phases) append_phase(out, report, phase);
  if (!report.phases.empty()) {
    out +=
        "\nBytes are those a stage names; what a cache holds can be read faster than memory, over "
        "100 %.\n";
  }
  return out;
}

Json doctor_json(const DoctorReport& report) {
  Json libraries = Json::object();
  for (const LibraryVersion& l : report.facts.libraries) libraries[l.name] = l.version;
  Json model = {{"file", report.model_file.string()}, {"present", report.model_present}};
  if (report.model != nullptr) {
    model["name"] = report.model->config.name;
    model["dtype"] = name_of(report.model->dtype);
    model["kv_dtype"] = name_of(report.model->kv_dtype);
  }
  Json phases = Json::array();
  for (const ProfilePhase& phase : report.phases) phases.push_back(phase_json(report, phase));
  const auto& bf16 = report.limits.bf16_flops_per_second;
  return {{"version", version_line()},
          {"processor", report.facts.processor},
          {"threads", report.threads},
          {"load_average", json_number(report.facts.load_average)},
          {"vector_target", report.limits.vector_target},
          {"backend", report.backend},
          {"libraries", libraries},
          {"huge_pages", report.facts.huge_pages},
          {"limits",
           {{"f32_flops_per_second", json_number(report.limits.f32_flops_per_second)},
            {"bf16_flops_per_second", bf16 ? json_number(*bf16) : Json(nullptr)},
            {"read_bytes_per_second", json_number(report.limits.read_bytes_per_second)}}},
          {"cuda", cuda_json(report)},
          {"model", model},
          {"notes", report.notes},
          {"phases", phases}};
}

}  // namespace kvscope
