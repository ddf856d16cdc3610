#include "harness/store/schema.h"

#include "harness/store/schema_quantities.h"

namespace kvscope {
namespace {

constexpr std::string_view kTables = R"sql(
-- Dimensions, keyed by content: the same thing has the same key in every file.
CREATE TABLE model(
  model_id INTEGER PRIMARY KEY,
  model_key TEXT NOT NULL UNIQUE,              -- sha-256 over name, weights, shape, dtype, kv_dtype, backend
  name TEXT NOT NULL,
  weights_sha256 TEXT NOT NULL,
  dtype TEXT NOT NULL,
  kv_dtype TEXT NOT NULL,
  n_layers INTEGER NOT NULL, n_heads INTEGER NOT NULL, n_kv_heads INTEGER NOT NULL,
  head_dim INTEGER NOT NULL, context_length INTEGER NOT NULL
) STRICT;

CREATE TABLE dataset(
  dataset_id INTEGER PRIMARY KEY,
  dataset_key TEXT NOT NULL UNIQUE,            -- sha-256 over name, version and the sample hashes
  task TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, n_samples INTEGER NOT NULL
) STRICT;

CREATE TABLE sample(
  sample_id INTEGER PRIMARY KEY,
  dataset_id INTEGER NOT NULL REFERENCES dataset,
  sample_key TEXT NOT NULL,                    -- stable name inside the data set
  input_sha256 TEXT NOT NULL,                  -- the tokens the model sees
  cluster_key TEXT NOT NULL,                   -- unit of independent draw
  n_prompt_tokens INTEGER NOT NULL CHECK (n_prompt_tokens > 0),
  tags TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(tags)),
  UNIQUE(dataset_id, sample_key)
) STRICT;

CREATE TABLE policy(
  policy_id INTEGER PRIMARY KEY,
  policy_key TEXT NOT NULL UNIQUE,             -- sha-256 over the canonical text and a plug-in's build
  canonical TEXT NOT NULL,                     -- 'snapkv:window=16', the label; of two builds the same
  name TEXT NOT NULL,                          -- 'snapkv'
  params TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(params))
) STRICT;

CREATE TABLE metric(
  metric_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  unit TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('binary','continuous','count')),
  better TEXT NOT NULL CHECK (better IN ('higher','lower','none')),
  help TEXT NOT NULL
) STRICT;

-- A sweep is one plan; one process is one run; what is compared is an arm.
CREATE TABLE sweep(
  sweep_uuid TEXT PRIMARY KEY,
  plan_hash TEXT NOT NULL,
  program_version TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running','finished')),
  created_unix REAL NOT NULL,
  options TEXT NOT NULL CHECK (json_valid(options))
) STRICT, WITHOUT ROWID;
CREATE INDEX sweep_by_plan ON sweep(plan_hash, program_version);

CREATE TABLE sweep_dataset(
  sweep_uuid TEXT NOT NULL REFERENCES sweep, dataset_id INTEGER NOT NULL REFERENCES dataset,
  PRIMARY KEY(sweep_uuid, dataset_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE run(
  run_id INTEGER PRIMARY KEY,
  run_uuid TEXT NOT NULL UNIQUE,
  sweep_uuid TEXT NOT NULL REFERENCES sweep,
  shard_index INTEGER NOT NULL DEFAULT 0, shard_count INTEGER NOT NULL DEFAULT 1,
  status TEXT NOT NULL CHECK (status IN ('running','finished','failed','interrupted')),
  started_unix REAL NOT NULL, heartbeat_unix REAL NOT NULL, finished_unix REAL,
  program_version TEXT NOT NULL,
  git_sha TEXT NOT NULL, git_dirty INTEGER NOT NULL CHECK (git_dirty IN (0,1)),
  host TEXT NOT NULL, backend TEXT NOT NULL,
  argv TEXT NOT NULL CHECK (json_valid(argv)),
  CHECK (shard_index >= 0 AND shard_index < shard_count),
  CHECK ((status IN ('finished','failed')) = (finished_unix IS NOT NULL))
) STRICT;
CREATE INDEX run_by_sweep ON run(sweep_uuid);

CREATE TABLE arm(
  arm_id INTEGER PRIMARY KEY,
  arm_key TEXT NOT NULL,                       -- sha-256 over everything below and the model
  sweep_uuid TEXT NOT NULL REFERENCES sweep,
  model_id INTEGER NOT NULL REFERENCES model,
  policy_id INTEGER NOT NULL REFERENCES policy,
  budget_permille INTEGER CHECK (budget_permille BETWEEN 1 AND 1000),  -- an integer, so that 0.1 + 0.2 never splits a group
  budget_tokens INTEGER CHECK (budget_tokens >= 1),
  prefill_mode TEXT NOT NULL CHECK (prefill_mode IN ('monolithic','streaming','two_pass')),
  position_mode TEXT NOT NULL CHECK (position_mode IN ('absolute','cache_relative','rerotate')),
  question_visibility TEXT NOT NULL CHECK (question_visibility IN ('visible','hidden')),
  dtype TEXT NOT NULL,
  kv_dtype TEXT NOT NULL,
  is_reference INTEGER NOT NULL CHECK (is_reference IN (0,1)),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending','running','finished')),
  UNIQUE(sweep_uuid, arm_key),
  CHECK ((budget_permille IS NULL) <> (budget_tokens IS NULL))
) STRICT;
CREATE INDEX arm_lookup ON arm(policy_id, model_id);

-- Facts. A row in sample_result exists if and only if the (arm, sample) is finished.
CREATE TABLE sample_result(
  arm_id INTEGER NOT NULL REFERENCES arm ON DELETE CASCADE,
  sample_id INTEGER NOT NULL REFERENCES sample,
  run_id INTEGER NOT NULL REFERENCES run,
  status TEXT NOT NULL CHECK (status IN ('ok','error','skipped')),
  error_kind TEXT, error TEXT,
  mode_run TEXT CHECK (mode_run IN ('in_stream','monolithic','streaming','two_pass')),
  fitted_params TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(fitted_params)),
  n_prompt_tokens INTEGER NOT NULL, n_decode_steps INTEGER NOT NULL,
  finished_unix REAL NOT NULL, duration_seconds REAL NOT NULL,
  prefill_seconds REAL NOT NULL, decode_seconds_per_step REAL NOT NULL,
  -- ledger: bytes as if the arm ran alone; peaks of the parts need not fall on the same step
  kv_prefill_peak_logical_bytes INTEGER NOT NULL, kv_prefill_peak_physical_bytes INTEGER NOT NULL,
  kv_prefill_peak_metadata_bytes INTEGER NOT NULL,
  kv_decode_peak_logical_bytes INTEGER NOT NULL, kv_decode_peak_physical_bytes INTEGER NOT NULL,
  kv_decode_peak_metadata_bytes INTEGER NOT NULL,
  kv_steady_logical_bytes INTEGER NOT NULL, kv_steady_physical_bytes INTEGER NOT NULL,
  kv_steady_metadata_bytes INTEGER NOT NULL,
  ghost_peak_bytes INTEGER NOT NULL,
  peak_resident_tokens INTEGER NOT NULL, peak_visible_tokens INTEGER NOT NULL,
  evicted_tokens INTEGER NOT NULL,             -- positions, summed over layers and KV heads
  output_sha256 TEXT,
  PRIMARY KEY(arm_id, sample_id),
  CHECK ((status = 'ok') = (error IS NULL)),
  CHECK (status <> 'ok' OR mode_run IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX result_by_run ON sample_result(run_id);

CREATE TABLE sample_metric(
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL, metric_id INTEGER NOT NULL REFERENCES metric,
  value REAL NOT NULL CHECK (abs(value) < 9e999),  -- NOT NULL refuses NaN, the check refuses infinity
  PRIMARY KEY(arm_id, metric_id, sample_id),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE layer_stat(                       -- a probe over the heads and steps of one layer
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL, metric_id INTEGER NOT NULL REFERENCES metric,
  layer INTEGER NOT NULL,
  n INTEGER NOT NULL, mean REAL NOT NULL, m2 REAL NOT NULL, min REAL NOT NULL, max REAL NOT NULL,
  PRIMARY KEY(arm_id, metric_id, sample_id, layer),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE step_stat(                        -- the same probe over layers and heads, by step [step_lo, step_hi)
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL, metric_id INTEGER NOT NULL REFERENCES metric,
  step_lo INTEGER NOT NULL, step_hi INTEGER NOT NULL CHECK (step_hi > step_lo),
  n INTEGER NOT NULL, mean REAL NOT NULL, m2 REAL NOT NULL, min REAL NOT NULL, max REAL NOT NULL,
  PRIMARY KEY(arm_id, metric_id, sample_id, step_lo),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Blobs stand in ROWID tables: without rowid each overflows into a page of its own.
CREATE TABLE sample_output(
  output_id INTEGER PRIMARY KEY,
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL,
  text TEXT NOT NULL,                          -- invalid UTF-8 replaced; the ids are exact
  token_ids BLOB NOT NULL CHECK (length(token_ids) % 4 = 0),  -- int32, little-endian
  gold TEXT NOT NULL,
  UNIQUE(arm_id, sample_id),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT;

CREATE TABLE token_trace(                      -- every prediction of a scored text
  trace_id INTEGER PRIMARY KEY,
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL,
  first_position INTEGER NOT NULL,             -- of the first predicted token
  n_tokens INTEGER NOT NULL,
  nll_nats BLOB NOT NULL,                      -- float32, little-endian
  kl_full_nats BLOB,
  UNIQUE(arm_id, sample_id),
  CHECK (length(nll_nats) = 4 * n_tokens),
  CHECK (kl_full_nats IS NULL OR length(kl_full_nats) = 4 * n_tokens),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT;

CREATE TABLE gate_result(
  gate_id INTEGER PRIMARY KEY, created_unix REAL NOT NULL, gate_name TEXT NOT NULL,
  baseline_arm_id INTEGER NOT NULL REFERENCES arm, candidate_arm_id INTEGER NOT NULL REFERENCES arm,
  dataset_id INTEGER NOT NULL REFERENCES dataset, metric_id INTEGER NOT NULL REFERENCES metric,
  n_pairs INTEGER NOT NULL, n_clusters INTEGER NOT NULL,
  delta REAL, ci_low REAL, ci_high REAL, p_value REAL, p_adjusted REAL, margin REAL NOT NULL, mde REAL,
  verdict TEXT NOT NULL CHECK (verdict IN ('pass','fail','inconclusive','error')),
  detail TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(detail))
) STRICT;
CREATE INDEX gate_by_time ON gate_result(created_unix);
)sql";

// Since version 2. Which tokens an arm kept, and whether that is what was asked for.
constexpr std::string_view kKeptSets = R"sql(
CREATE TABLE kept_sets(
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL,
  kept_sets_hash TEXT NOT NULL,                -- sha-256 over the positions that each (layer, KV head) kept
  budget_tokens INTEGER NOT NULL,              -- asked for, fitted to the sample
  offered_tokens INTEGER NOT NULL,             -- that each (layer, KV head) chose from
  kept_tokens REAL NOT NULL,                   -- of them, mean over layers and KV heads
  final_tokens REAL NOT NULL,                  -- resident after the last row, likewise
  finding TEXT CHECK (finding IN ('held_everything','evicted_nothing','other_ratio','other_ratio_later')),
  PRIMARY KEY(arm_id, sample_id),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
)sql";

// Since version 3. What computed the numbers, and the memory it took of a device (none: all NULL).
constexpr std::string_view kBackends = R"sql(
ALTER TABLE model ADD COLUMN backend TEXT NOT NULL DEFAULT 'cpu';
ALTER TABLE run ADD COLUMN device_allocated_bytes INTEGER;    -- at the run's end
ALTER TABLE run ADD COLUMN device_peak_bytes INTEGER;
ALTER TABLE run ADD COLUMN device_driver_delta_bytes INTEGER; -- what the driver has less of
)sql";

// Since version 4. What traced samples were short of, event by event and head by head.
constexpr std::string_view kEvents = R"sql(
CREATE TABLE rebound_event(                    -- an evicted token that full attention would have wanted back; frame: local
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL,
  nth INTEGER NOT NULL CHECK (nth >= 0),       -- 0: the heaviest of this result
  layer INTEGER NOT NULL, kv_head INTEGER NOT NULL,
  position INTEGER NOT NULL, token TEXT NOT NULL,  -- the evicted one; invalid UTF-8 replaced
  evicted_at INTEGER NOT NULL,                 -- position of the last row that saw it
  rebound_at INTEGER NOT NULL,                 -- position of the row that wanted it
  step INTEGER NOT NULL,                       -- that row's number after the prompt
  mass REAL NOT NULL,                          -- its share of full attention, mean over the group's query heads
  mass_rank INTEGER NOT NULL CHECK (mass_rank >= 1),  -- among all tokens seen
  wrongful INTEGER NOT NULL CHECK (wrongful IN (0,1)),  -- an evictable token in the cache weighed less
  kl_full_nats REAL,                           -- of that step's prediction, on full's tokens; NULL where nothing was compared
  PRIMARY KEY(arm_id, sample_id, nth),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX event_by_mass ON rebound_event(arm_id, mass DESC);

CREATE TABLE evidence_trace(                   -- how much of the asked-for fact each (layer, KV head) still held
  trace_id INTEGER PRIMARY KEY,
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL,
  rows_fed INTEGER NOT NULL CHECK (rows_fed >= 0),  -- since the prompt; 0: right after the selection
  n_tokens INTEGER NOT NULL CHECK (n_tokens > 0),   -- of the fact
  alive BLOB NOT NULL CHECK (length(alive) % 4 = 0),  -- int32, little-endian, [n_layers][n_kv_heads]
  UNIQUE(arm_id, sample_id, rows_fed),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT;
)sql";

// Views: plain SQL, so that any SQLite reader can use them.
constexpr std::string_view kArmView = R"sql(
CREATE VIEW v_arm AS
SELECT a.arm_id, a.arm_key, a.sweep_uuid, m.name AS model, p.canonical AS policy, p.name AS policy_name, p.params,
       a.budget_permille, a.budget_tokens,
       CASE WHEN a.budget_tokens IS NULL THEN printf('%.3f', a.budget_permille / 1000.0)
            ELSE a.budget_tokens || 'tok' END AS budget,
       p.canonical || '@' || CASE WHEN a.budget_tokens IS NULL THEN printf('%.3f', a.budget_permille / 1000.0)
            ELSE a.budget_tokens || 'tok' END
         || CASE a.question_visibility WHEN 'hidden' THEN ' question=hidden' ELSE '' END AS label,
       a.prefill_mode, a.position_mode, a.question_visibility, a.dtype, a.kv_dtype, m.backend, a.is_reference, a.status,
       (SELECT count(*) FROM sample_result r WHERE r.arm_id=a.arm_id AND r.status='ok') AS n_ok,
       (SELECT count(*) FROM sample_result r WHERE r.arm_id=a.arm_id AND r.status='error') AS n_error,
       (SELECT count(*) FROM sample_result r WHERE r.arm_id=a.arm_id AND r.status='skipped') AS n_skipped,
       s.created_unix AS started_unix
FROM arm a JOIN model m USING(model_id) JOIN policy p USING(policy_id) JOIN sweep s USING(sweep_uuid);
)sql";

// Since version 4. answered: 1 right, 0 wrong, NULL where a task has no such verdict.
constexpr std::string_view kEventView = R"sql(
CREATE VIEW v_rebound_event AS
SELECT e.*, a.label, a.sweep_uuid, d.task, d.name AS dataset, s.sample_key,
       (SELECT max(v.value > 0.5) FROM sample_metric v JOIN metric m USING(metric_id)
         WHERE v.arm_id=e.arm_id AND v.sample_id=e.sample_id AND m.name IN ('recall','exact_match')) AS answered
FROM rebound_event e JOIN v_arm a USING(arm_id) JOIN sample s USING(sample_id) JOIN dataset d USING(dataset_id);
)sql";

constexpr std::string_view kViews = R"sql(
CREATE VIEW v_arm_metric AS
SELECT t.arm_id, a.label, a.sweep_uuid, a.model, a.policy, a.budget, a.is_reference,
       t.dataset_id, d.task, d.name AS dataset, d.dataset_key, t.metric_id, k.name AS metric, k.unit, k.better, k.kind,
       t.n, t.mean, t.min, t.max,
       CASE WHEN t.n > 1 THEN (SELECT sum((v.value-t.mean)*(v.value-t.mean))
          FROM sample_metric v JOIN sample s ON s.sample_id=v.sample_id
         WHERE v.arm_id=t.arm_id AND v.metric_id=t.metric_id AND s.dataset_id=t.dataset_id) / (t.n-1) END AS variance
FROM (SELECT v.arm_id, s.dataset_id, v.metric_id, count(*) AS n, avg(v.value) AS mean, min(v.value) AS min, max(v.value) AS max
        FROM sample_metric v JOIN sample s ON s.sample_id=v.sample_id GROUP BY v.arm_id, s.dataset_id, v.metric_id) t
JOIN v_arm a ON a.arm_id=t.arm_id JOIN dataset d ON d.dataset_id=t.dataset_id JOIN metric k ON k.metric_id=t.metric_id;

-- Every valid pair: the same sample, both with the metric. d > 0 means that B is larger.
CREATE VIEW v_ab_pair AS
SELECT a.arm_id AS a_arm, b.arm_id AS b_arm, s.dataset_id, a.metric_id, a.sample_id, s.cluster_key,
       a.value AS a_value, b.value AS b_value, b.value-a.value AS d
FROM sample_metric a JOIN sample_metric b ON b.metric_id=a.metric_id AND b.sample_id=a.sample_id AND b.arm_id<>a.arm_id
JOIN sample s ON s.sample_id=a.sample_id;

-- Filter with WHERE a_arm=? AND b_arm=?. One level of aggregation only: SQLite pushes the filter through one GROUP BY, not
-- through two; sums over clusters are correlated subqueries. se2 = square of the standard error of delta.
CREATE VIEW v_ab_summary AS
SELECT t.a_arm, t.b_arm, t.dataset_id, d.task, d.name AS dataset, m.name AS metric, m.unit, m.better, m.kind,
       t.n AS n_pairs, t.a_mean, t.b_mean, t.delta,
       CASE WHEN t.n > 1 THEN (SELECT sum((p.d-t.delta)*(p.d-t.delta)) FROM v_ab_pair p
          WHERE p.a_arm=t.a_arm AND p.b_arm=t.b_arm AND p.metric_id=t.metric_id AND p.dataset_id=t.dataset_id)
          / (t.n-1) / t.n END AS se2_paired,
       (SELECT CASE WHEN count(*) > 1 THEN sum((sd-k*t.delta)*(sd-k*t.delta)) * count(*) / (count(*)-1.0) / (1.0*t.n*t.n) END
          FROM (SELECT sum(p.d) AS sd, count(*) AS k FROM v_ab_pair p
                 WHERE p.a_arm=t.a_arm AND p.b_arm=t.b_arm AND p.metric_id=t.metric_id AND p.dataset_id=t.dataset_id
                 GROUP BY p.cluster_key)) AS se2_cluster,
       (SELECT count(DISTINCT p.cluster_key) FROM v_ab_pair p
         WHERE p.a_arm=t.a_arm AND p.b_arm=t.b_arm AND p.metric_id=t.metric_id AND p.dataset_id=t.dataset_id) AS n_clusters,
       CASE m.kind WHEN 'binary' THEN t.won END AS only_b, CASE m.kind WHEN 'binary' THEN t.lost END AS only_a
FROM (SELECT a_arm, b_arm, dataset_id, metric_id, count(*) AS n, avg(a_value) AS a_mean, avg(b_value) AS b_mean, avg(d) AS delta,
             sum(a_value>0.5 AND b_value<=0.5) AS lost, sum(a_value<=0.5 AND b_value>0.5) AS won
        FROM v_ab_pair GROUP BY a_arm, b_arm, dataset_id, metric_id) t
JOIN metric m ON m.metric_id=t.metric_id JOIN dataset d ON d.dataset_id=t.dataset_id;
)sql";

}  // namespace

std::string schema_sql() {
  return std::string(kTables)
      .append(kKeptSets)
      .append(kBackends)
      .append(kQuantities)
      .append(kEvents)
      .append(kArmView)
      .append(kViews)
      .append(kEventView);
}

std::string upgrade_sql(int from) {
  std::string sql;
  if (from < 2) sql.append(kKeptSets);
  if (from < 3) sql.append(kBackends).append("DROP VIEW v_arm;").append(kArmView);
  if (from < 4) sql.append(kEvents).append(kEventView);
  if (from < 5) sql.append(kQuantities);
  return sql;
}

}  // namespace kvscope
