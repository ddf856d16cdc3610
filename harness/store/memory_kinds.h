// What the store knows about memory beyond each result's ledger: bytes by kind, and the most that a
// run's process and page pools took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/store/store.h"

namespace kvscope {

// Of a result that has its row in sample_result; inside the caller's transaction.
void record_kinds(Database& database, std::int64_t arm_id, std::int64_t sample_id,
                  const KvBytesByKind& kinds);

// Means over an arm's finished samples on one data set.
struct KindRow {
  std::string task;
  std::string dataset;
  std::string kind;
  double logical_bytes = 0;
  double physical_bytes = 0;
};
std::vector<KindRow> arm_kinds(Store& store, std::int64_t arm_id);

struct ProcessMemory {
  std::int64_t process_peak_bytes = 0;    // 0: the system does not say
  std::int64_t page_pool_peak_bytes = 0;  // 0: not known
};
void put_process_memory(Store& store, std::int64_t run_id, const ProcessMemory& memory);
// Nothing of runs of older programs.
std::optional<ProcessMemory> process_memory(Store& store, std::int64_t run_id);

}  // namespace kvscope
