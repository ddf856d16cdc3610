// The part of the schema that holds distributions and memory by kind. Since version 5.
#pragma once

#include <string_view>

namespace kvscope {

inline constexpr std::string_view kQuantities = R"sql(
CREATE TABLE sketch(                           -- a metric's distribution over the rows and heads of one result, mergeable
  sketch_id INTEGER PRIMARY KEY,
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL, metric_id INTEGER NOT NULL REFERENCES metric,
  scale TEXT NOT NULL CHECK (scale IN ('ratio','log')),  -- which bins: sketch.h
  n INTEGER NOT NULL CHECK (n > 0),
  min REAL NOT NULL, max REAL NOT NULL,
  bins BLOB NOT NULL,                          -- LEB128: bin minus the one before (zigzag), count; ascending
  worst_mean REAL, worst_layer INTEGER, worst_kv_head INTEGER,  -- the head with the worst mean, where heads were told apart
  UNIQUE(arm_id, metric_id, sample_id),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT;

CREATE TABLE kv_kind(                          -- what the bytes held after the last row are, as if the arm ran alone
  arm_id INTEGER NOT NULL, sample_id INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('keys','values','scales','positions','scores','tables')),
  logical_bytes INTEGER NOT NULL,              -- of live slots
  physical_bytes INTEGER NOT NULL,             -- held
  PRIMARY KEY(arm_id, sample_id, kind),
  FOREIGN KEY(arm_id, sample_id) REFERENCES sample_result ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

ALTER TABLE run ADD COLUMN process_peak_bytes INTEGER;  -- resident set of the process during the run, weights included
ALTER TABLE run ADD COLUMN page_pool_peak_bytes INTEGER;  -- pages of all arms and samples at once, shared ones once
)sql";

}  // namespace kvscope
