// What kvscope doctor found, for people and for programs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/commands/choose_backend.h"
#include "harness/commands/machine_facts.h"
#include "harness/report/json.h"
#include "runner/backend/cpu/machine_limits.h"
#include "runner/engine/stage_profile.h"

namespace kvscope {

// A stage as a share of what the machine can do.
struct StageFigures {
  std::string name;  // "qkv"
  StageCounter counter;
  double flops_per_second = 0.0;
  double bytes_per_second = 0.0;
  double compute_share = 0.0;  // of the multiply-adds of the stage's element type
  double memory_share = 0.0;   // above 1 where what it reads comes from a cache
};
StageFigures stage_figures(const Model& model, const cpu::MachineLimits& limits,
                           const StageCounter& counter);

struct DoctorReport {
  MachineFacts facts;
  cpu::MachineLimits limits;
  std::string backend;  // Backend::description
  int threads = 0;
  std::filesystem::path model_file;
  bool model_present = false;
  std::vector<std::string> notes;  // what is amiss and what to do

  CudaDevices cuda;
  std::string cuda_build;                   // CudaSupport::description
  std::optional<CudaDevice> device;         // that the phases ran on; nothing: the CPU
  std::optional<CudaLimits> device_limits;  // of it, if they can be measured

  const Model* model = nullptr;  // of the phases, if there are any
  std::vector<ProfilePhase> phases;
};

std::string doctor_text(const DoctorReport& report);
Json doctor_json(const DoctorReport& report);

}  // namespace kvscope
