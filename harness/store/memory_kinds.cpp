#include "harness/store/memory_kinds.h"

#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {
namespace {

// Files of older schemas, opened for reading, stay as they are.
bool has_kinds(Store& store) {
  return Statement(store.database(), "SELECT 1 FROM sqlite_master WHERE name='kv_kind'").step();
}

}  // namespace

void record_kinds(Database& database, std::int64_t arm_id, std::int64_t sample_id,
                  const KvBytesByKind& kinds) {
  Statement insert(database, "INSERT INTO kv_kind VALUES(?,?,?,?,?)");
  for (const auto& [kind, bytes] : named_kinds(kinds)) {
    insert.bind(arm_id, sample_id, kind, bytes.logical_bytes, bytes.physical_bytes).run();
  }
}

std::vector<KindRow> arm_kinds(Store& store, std::int64_t arm_id) {
  std::vector<KindRow> rows;
  if (!has_kinds(store)) return rows;
  Statement s(store.database(),
              "SELECT d.task,d.name,k.kind,avg(k.logical_bytes),avg(k.physical_bytes) FROM kv_kind "
              "k JOIN sample x ON x.sample_id=k.sample_id JOIN dataset d USING(dataset_id) WHERE "
              "k.arm_id=? GROUP BY d.dataset_id,k.kind ORDER BY d.dataset_id,avg(k.physical_bytes) "
              "DESC,k.kind");
  s.bind(arm_id);
  while (s.step()) rows.push_back({s.text(0), s.text(1), s.text(2), s.real(3), s.real(4)});
  return rows;
}

void put_process_memory(Store& store, std::int64_t run_id, const ProcessMemory& memory) {
  Statement(store.database(),
            "UPDATE run SET process_peak_bytes=?, page_pool_peak_bytes=? WHERE run_id=?")
      .bind(memory.process_peak_bytes, memory.page_pool_peak_bytes, run_id)
      .run();
}

std::optional<ProcessMemory> process_memory(Store& store, std::int64_t run_id) {
  if (!has_kinds(store)) return std::nullopt;
  Statement s(store.database(),
              "SELECT process_peak_bytes,page_pool_peak_bytes FROM run WHERE run_id=?");
  if (!s.bind(run_id).step() || s.is_null(0)) return std::nullopt;
  return ProcessMemory{s.int64(0), s.int64(1)};
}

}  // namespace kvscope
