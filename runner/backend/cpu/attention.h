// CPU attention: one arithmetic for dense, scan and decode rows (architecture.md §3). See
// page_kernels.h.
#pragma once

#include <span>

#include "runner/backend/backend.h"
#include "runner/base/thread_pool.h"

namespace kvscope::cpu {

void attend_dense(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                  const DenseJob& job);
void attend_sparse(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                   const SparseJob& job);
void column_weights(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                    const ColumnWeightsJob& job);
void attention_rows(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
                    const AttentionRowsJob& job);
void gather(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
            std::span<const GatherJob> jobs);
void scan(ThreadPool& pool, const AttentionShape& shape, const RopeTable& rope,
          std::span<const ScanJob> jobs);

}  // namespace kvscope::cpu
