// What the forward pass needs of a machine, in spans and shapes. Coarse on purpose: one call is a
// stage of a layer. A backend never sees a policy, only its rule as data (ScanRule) or a host
// callback (PolicyState).
//
// Promise of every implementation: a row's bits depend on that row alone, never on the rows, arms
// or threads beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/base/dtype.h"
#include "runner/base/memory.h"
#include "runner/cache/ghost_cache.h"
#include "runner/cache/head_cache.h"
#include "runner/engine/ledger.h"
#include "runner/engine/logit_divergence.h"
#include "runner/engine/probe_sink.h"
#include "runner/policies/minference_index.h"
#include "runner/policies/policy.h"
#include "runner/policies/policy_state.h"
#include "runner/policies/prompt_layer.h"
#include "runner/policies/quest_pages.h"

namespace kvscope {

// Memory of a device, apart from the process's.
struct DeviceMemory {
  std::int64_t allocated_bytes = 0;     // by the backend's own account
  std::int64_t peak_bytes = 0;          // likewise
  std::int64_t driver_delta_bytes = 0;  // what the driver says was free before, less what is now
};

class PackedMatrix {  // weights in the backend's own layout
 public:
  virtual ~PackedMatrix() = default;
  virtual int n_out() const = 0;
  virtual int n_in() const = 0;
  virtual std::size_t bytes() const = 0;
};

// Fills rows first … first + n - 1 of a matrix of weights: out [n][n_in]. Called by several threads
// at once, each for other rows; what it throws comes out of pack().
using ReadRows = std::function<void(int first, int n, float* out)>;
ReadRows rows_of(std::span<const float> weights, int n_in);  // weights: [n_out][n_in], kept alive

class EmbeddingTable {
 public:
  virtual ~EmbeddingTable() = default;
};

struct AttentionShape {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int group() const { return n_heads / n_kv_heads; }
  std::size_t row_floats() const {
    return std::size_t(n_heads + 2 * n_kv_heads) * head_dim;
  }  // q, k, v of a row
};

// cos and sin of position × inverse frequency, adjacent pairs (2i, 2i+1); angles rounded to float32
// (reference/README.md).
struct RopeTable {
  int head_dim = 0;
  int n_positions = 0;
  SharedVector<float> cos;         // [n_positions][head_dim / 2]
  SharedVector<float> sin;         // [n_positions][head_dim / 2]
  std::vector<float> cos_by_pair;  // the same as [head_dim / 2][n_positions], for keys side by side
  std::vector<float> sin_by_pair;
  std::vector<float> inverse_frequency = {};  // [head_dim / 2]
};

// Causal attention of consecutive rows over everything before them; keys and values of the rows are
// appended first.
struct DenseJob {
  HeadCache* heads = nullptr;  // [n_kv_heads], all with the same slots in order of position
  const float* qkv =
      nullptr;           // [n_rows][row_floats] raw projections (no RoPE): queries, keys, values
  float* out = nullptr;  // [n_rows][n_heads * head_dim]
  int n_rows = 0;
  int first_position = 0;
  float* lse = nullptr;  // optional [n_heads][n_rows]: log-sum-exp of each row
  int n_known = 0;       // leading rows that are only appended: their attention is known already
};

// Slots and pages of one unit after each row; bytes follow from them (ledger).
struct StepSlots {
  std::int32_t visible_slots = 0;
  std::int32_t visible_pages = 0;
  std::int32_t resident_slots = 0;
  std::int32_t resident_pages = 0;
  // Bytes beyond slots and pages: quantised tokens outside pages, bounds that rows choose pages by.
  KvBytes visible_beyond;
  KvBytes resident_beyond;
};

// Row after row of one selection unit: append, attend over the visible slots, observe, select,
// evict (policies.md 1.2).
struct ScanJob {
  int layer = 0;
  int first_kv_head = 0;
  int n_kv_heads = 1;            // 1, or all of the layer for Scope::kLayer
  HeadCache* heads = nullptr;    // [n_kv_heads] caches of this unit
  GhostCache* ghosts = nullptr;  // [n_kv_heads] only where a probe wants them
  const float* qkv =
      nullptr;  // row r at qkv + r * qkv_stride: [row_floats] raw, of the whole layer
  std::size_t qkv_stride = 0;
  float* out = nullptr;  // row r at out + r * out_stride: [n_heads * head_dim] of the whole layer
  std::size_t out_stride = 0;
  int n_rows = 0;
  int rows_before = 0;     // rows of the same stretch that earlier jobs advanced …
  int rows_after = 0;      // … and later ones will: `chunk` counts over the whole stretch
  int first_position = 0;  // row r has original position first_position + r
  PositionMode positions = PositionMode::kAbsolute;
  ScanRule rule;                 // rule.evicts() false: grow
  PolicyState* host = nullptr;   // if set: this code decides instead of `rule`
  std::optional<ReadRule> read;  // attend to the chosen pages only; nothing is evicted then …
  QuestPages* read_pages =
      nullptr;    // … [n_kv_heads] the bounds of the slots' pages, kept up to date
  int chunk = 1;  // evict after every `chunk` rows of the stretch (and its last)
  ProbeSink* probe = nullptr;
  StepSlots* steps = nullptr;  // optional [n_kv_heads][n_rows]
};

// Which rows share one product. A backend may compute each kind in its own way (blocks of another
// size), so a row's bits are kept by always computing it as the same kind.
enum class RowKind : std::uint8_t {
  kPass,  // of a pass layer by layer: a prompt, a scored text
  kStep,  // of a decoding step; logits of any row
};

struct LogitPlace {
  std::int32_t row = 0;
  std::int32_t id = 0;
};

// Next-token logits of two arms on the same tokens, with their log-sum-exps.
struct LogitPair {
  std::span<const float> full;  // [n_vocab]
  double full_lse = 0.0;
  std::span<const float> arm;  // [n_vocab]
  double arm_lse = 0.0;
};

// Σ over prompt rows u of weight_u · a_u(i) (policy.h PromptNeed), from queries, cached keys and
// the rows' log-sum-exps.
struct ColumnWeightsJob {
  const HeadCache* heads = nullptr;  // [n_kv_heads], slots = positions 0 … n_rows-1
  const float* qkv = nullptr;        // [n_rows][row_floats]
  const float* lse = nullptr;        // [n_heads][n_rows]
  int n_rows = 0;
  PromptNeed need;
  float* out = nullptr;  // [n_heads][n_rows]
};

// Causal attention of prompt rows over the columns of an index, one a query head. The keys and
// values of all rows are in `heads`.
struct SparseJob {
  const HeadCache* heads = nullptr;  // [n_kv_heads], slots = positions 0 … n_rows-1
  const float* qkv = nullptr;        // [n_rows][row_floats]
  float* out = nullptr;              // [n_rows][n_heads * head_dim]
  int n_rows = 0;
  std::span<const std::unique_ptr<PrefillIndex>> index;  // [n_heads]
};

// Probabilities of a few dense rows, as ColumnWeightsJob's.
struct AttentionRowsJob {
  const HeadCache* heads = nullptr;  // [n_kv_heads], slots = positions 0 …
  const float* qkv = nullptr;        // [n_prompt][row_floats]
  const float* lse = nullptr;        // [n_heads][n_prompt]
  int n_prompt = 0;
  int first_row = 0;
  int n_rows = 0;
  float* out = nullptr;  // [n_rows][n_heads][n_prompt]; row u writes u + 1 columns
};

// Appends chosen rows of a dense prompt to an arm's cache.
struct GatherJob {
  HeadCache* head = nullptr;
  int kv_head = 0;
  std::span<const std::int32_t> keep;  // ascending positions < n_rows
  const float* qkv = nullptr;          // [n_rows][row_floats]
  int n_rows = 0;
  PositionMode positions = PositionMode::kAbsolute;
};

// Rows, norm weights, rotation tables and pages that operations take lie in memory(), where that is
// not null. Operations may return before they are done; the next ones see what they wrote, host
// code after sync(). How many slots a cache has is known at once; its arrays are written like all
// else. Those whose results are the host's (log-sum-exps, ids, single logits, comparisons,
// statistics of prompt rows) return finished, and such results may lie anywhere.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual std::string description() const = 0;  // instruction set and libraries really used
  virtual int n_threads() const = 0;
  virtual Memory* memory() const { return nullptr; }
  virtual void sync() {}
  virtual void release_scratch() {}  // what it keeps from call to call only to be fast
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }

  // The matrix is read once, in blocks of rows: it never exists as a whole in float32.
  virtual std::unique_ptr<PackedMatrix> pack(const ReadRows& rows, int n_out, int n_in,
                                             DType dtype) = 0;
  virtual std::unique_ptr<EmbeddingTable> pack_embedding(const ReadRows& rows, int n_vocab,
                                                         int d_model, DType dtype) = 0;

  virtual void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                     std::span<float> out) = 0;  // [ids][d_model]
  virtual void matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
                      std::span<float> y) = 0;  // [rows][n_in] → [rows][n_out]
  virtual void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
                        int rows, std::span<float> y) = 0;
  virtual void swiglu(std::span<const float> gate_up, int rows, int d_ff,
                      std::span<float> y) = 0;  // [rows][gate d_ff | up d_ff] → [rows][d_ff]
  virtual void add(std::span<const float> x, std::span<float> y) = 0;  // y += x
  // out[i] = row rows[i] of x, rows of `width` floats.
  virtual void copy_rows(std::span<const float> x, int width, std::span<const std::int32_t> rows,
                         std::span<float> out) = 0;
  // Of each row of logits [rows][n_vocab]: log-sum-exp in double.
  virtual void log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) = 0;
  // The first of the largest logits of each row.
  virtual void greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) = 0;
  // Single logits.
  virtual void pick_logits(std::span<const float> logits, int n_vocab,
                           std::span<const LogitPlace> places, std::span<float> out) = 0;
  // KL and top-1 agreement of each pair (logit_divergence.h).
  virtual void compare_logits(std::span<const LogitPair> pairs, std::span<LogitComparison> out) = 0;

  // Attention. `rope` covers every position and rank used.
  virtual void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                            const DenseJob& job) = 0;
  virtual void attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                             const SparseJob& job) = 0;
  virtual void column_weights(const AttentionShape& shape, const RopeTable& rope,
                              const ColumnWeightsJob& job) = 0;
  virtual void attention_rows(const AttentionShape& shape, const RopeTable& rope,
                              const AttentionRowsJob& job) = 0;
  virtual void gather(const AttentionShape& shape, const RopeTable& rope,
                      std::span<const GatherJob> jobs) = 0;
  virtual void scan(const AttentionShape& shape, const RopeTable& rope,
                    std::span<const ScanJob> jobs) = 0;
};

std::unique_ptr<Backend> make_cpu_backend(int n_threads);  // 0 = all processors

}  // namespace kvscope
