// What a record says about one sample of one run, so that it can be run again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/store/queries.h"

namespace kvscope {

struct RecordedSample {
  std::string sweep_uuid;
  std::string options_json;  // of the sweep, defaults filled in
  std::string program_version;
  ArmRow arm;
  std::string task;
  std::string dataset;
  std::string sample_key;
  std::string input_sha256;
  std::optional<ResultRow> result;  // the arm's; nothing: not finished
};

// run: a run's id or its first characters (a sweep's too), or `newest`. sample: a key or its
// beginning. arm: as find_arm, within the run's sweep. UsageError where none or several fit, naming
// what could be meant.
RecordedSample find_recorded(Store& store, std::string_view run, std::string_view sample,
                             std::string_view arm);

}  // namespace kvscope
