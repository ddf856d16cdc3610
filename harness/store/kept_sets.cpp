#include "harness/store/kept_sets.h"

#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {

std::vector<KeptSetsRow> kept_sets(Store& store, std::int64_t arm_id) {
  std::vector<KeptSetsRow> rows;
  // A file of schema version 1, opened for reading, stays as it is.
  Statement table(store.database(), "SELECT 1 FROM sqlite_master WHERE name='kept_sets'");
  if (!table.step()) return rows;
  Statement s(store.database(),
              "SELECT d.task,d.name,d.dataset_key,k.sample_id,r.mode_run,k.kept_sets_hash,"
              "k.budget_tokens,k.offered_tokens,k.kept_tokens,k.final_tokens,k.finding "
              "FROM kept_sets k JOIN sample_result r USING(arm_id,sample_id) "
              "JOIN sample x ON x.sample_id=k.sample_id JOIN dataset d USING(dataset_id) "
              "WHERE k.arm_id=? ORDER BY k.sample_id");
  s.bind(arm_id);
  while (s.step()) {
    rows.push_back({s.text(0), s.text(1), s.text(2), s.int64(3), s.text(4), s.text(5), s.integer(6),
                    s.integer(7), s.real(8), s.real(9), s.text(10)});
  }
  return rows;
}

}  // namespace kvscope
