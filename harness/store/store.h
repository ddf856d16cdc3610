// The experiment store: one SQLite file that is the record of every sweep (observability.md §3). A
// row in sample_result exists if and only if that (arm, sample) is finished, so it is the resume
// ledger too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/store/records.h"
#include "runner/backend/backend.h"

namespace kvscope {

class Database;

enum class StoreAccess {
  kCreate,    // read and write; made if the file is absent or empty, brought to this version
  kReadOnly,  // IoError if the file is absent
};

// Errors of every member: IoError (74) for a file that cannot be used (read-only folder, full disk,
// another program's or a newer database, which stays untouched), DataError (65) for a damaged file
// and for a second, different value under the same key. One Store serves one thread.
class Store {
 public:
  // Throws what open() would throw for the file and its folder; changes nothing. For an early
  // answer.
  static void check(const std::filesystem::path& file);
  static Store open(const std::filesystem::path& file, StoreAccess access);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::filesystem::path& path() const;

  // Each returns the row's id in this file; a second call with equal content returns the same id.
  std::int64_t put_model(const ModelRecord& model);
  std::int64_t put_dataset(const DatasetRecord& dataset, std::span<const SampleRecord> samples);
  std::int64_t put_arm(const std::string& sweep_uuid,
                       const ArmRecord& arm);  // the model must be there

  // The newest sweep with this plan and program version that is not finished, else the newest
  // finished one.
  struct SweepState {
    std::string uuid;
    bool finished = false;
  };
  std::optional<SweepState> find_sweep(std::string_view plan_hash,
                                       std::string_view program_version);
  void begin_sweep(const SweepRecord& sweep);
  void add_sweep_dataset(const std::string& sweep_uuid, std::int64_t dataset_id);
  // Runs of the sweep that still say `running` (killed processes) become `interrupted`.
  std::int64_t begin_run(const RunRecord& run);
  void heartbeat(std::int64_t run_id);
  void put_device_memory(std::int64_t run_id,
                         const DeviceMemory& memory);  // of a run with a device
  // Also settles the sweep and its arms: finished where every (arm, sample) has a row.
  void end_run(std::int64_t run_id, RunStatus status);

  std::int64_t sample_id(std::int64_t dataset_id, std::string_view sample_key);
  std::set<std::int64_t> finished_samples(std::int64_t arm_id);
  bool finished(std::int64_t arm_id, std::int64_t sample_id);

  // One transaction with everything the outcome holds; numbers that are not finite are refused
  // (refuse_nonfinite). Finished already: compares what must be equal (status, metrics, output,
  // traces) and writes nothing.
  void record(std::int64_t run_id, std::int64_t arm_id, std::int64_t sample_id,
              const SampleOutcome& outcome);

  // Empties the write-ahead log into the file; at the end of a run.
  void checkpoint();
  Database& database();  // for queries (queries.h)

 private:
  explicit Store(std::unique_ptr<Database> database, std::filesystem::path file);
  std::unique_ptr<Database> database_;
  std::filesystem::path file_;
};

}  // namespace kvscope
