// What a run tells Prometheus while it works and when it ends (observability.md §1). The store is
// the record; nothing here can fail a run: no member throws, faults become one warning on stderr
// for each kind (counting, serving, writing the file) and are counted.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/store/queries.h"
#include "harness/store/records.h"
#include "runner/backend/backend.h"

namespace kvscope {

struct RunLabels {
  std::string run_uuid;
  std::string sweep_uuid;
  std::string suite = "sweep";
  int selection_units = 1;  // layers × KV heads, for the share of a full cache
  std::string gpu_name = "none";
  std::string cuda_version = "none";  // CudaSupport::description, of builds with CUDA
};

struct ArmLabels {
  std::string model_name;
  std::string policy;  // canonical
  std::string budget;  // Budget::label(): "0.200" or "256tok"
  bool question_hidden = false;
};

// "9400" and ":9400" listen on the loopback interface only; "HOST:PORT" on that address. Port 0
// takes a free one. Throws UsageError.
std::string parse_listen_address(std::string_view text);  // "127.0.0.1:9400"

class LiveMetrics {
 public:
  explicit LiveMetrics(const RunLabels& run);
  ~LiveMetrics();
  LiveMetrics(const LiveMetrics&) = delete;
  LiveMetrics& operator=(const LiveMetrics&) = delete;

  // Serves http://ADDRESS/metrics until the end. Returns ADDRESS with the port really used;
  // nothing, after a warning, if it is busy.
  std::optional<std::string> listen(const std::string& address);

  void planned(const ArmLabels& arm, std::string_view dataset, std::int64_t n_samples);
  void sample_done(const ArmLabels& arm, std::string_view dataset, const SampleOutcome& outcome);
  // total_bytes: what the device has.
  void device_memory(const DeviceMemory& memory, std::int64_t total_bytes);
  void committed(double transaction_seconds, std::int64_t store_bytes);
  void error(std::string_view kind);  // oom | cuda | nonfinite | io | input
  void arm_result(const ArmLabels& arm, std::string_view dataset,
                  std::span<const ArmMetricRow> metrics);
  void run_done(double duration_seconds, bool success);

  // Replaces FILE by rename, so that a collector never reads half a file.
  void write_textfile(const std::filesystem::path& file);

  std::string text() const;  // exposition format 0.0.4
  int failures() const;

 private:
  struct Impl;
  enum class Part { kCounts, kListen, kTextfile };  // each warns once
  template <typename Work>
  void guarded(Part part, std::string_view what, Work&& work) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvscope
