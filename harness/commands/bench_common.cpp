#include "harness/commands/bench_common.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "harness/commands/input.h"
#include "harness/commands/ledger_report.h"
#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/base/splitmix.h"

namespace kvscope {

void add_bench_options(CLI::App& command, BenchOptions& options) {
  add_model_options(command, options.model);
  command
      .add_option("--repetitions", options.repetitions,
                  "Of every measurement, in turn, after one to warm up")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000));
  command.add_flag("--json", options.json, "One JSON object");
}

Json bench_json(std::string_view bench, const OpenedModel& opened, const BenchOptions& options) {
  return {{"bench", bench},
          {"backend", opened.backend->description()},
          {"device_memory", device_memory_json(opened.backend->device_memory())},
          {"threads", opened.backend->n_threads()},
          {"dtype", name_of(opened.model->dtype)},
          {"kv_dtype", name_of(opened.model->kv_dtype)},
          {"repetitions", options.repetitions}};
}

std::string bench_line(const OpenedModel& opened, const BenchOptions& options) {
  return opened.backend->description() + ", weights " + std::string(name_of(opened.model->dtype)) +
         ", cache " + std::string(name_of(opened.model->kv_dtype)) + ", medians of " +
         std::to_string(options.repetitions) + " [min–max]\n";
}

double Samples::median() const {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Samples::min() const {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : std::ranges::min(values);
}

double Samples::max() const {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : std::ranges::max(values);
}

Samples Samples::rates(double work) const {
  Samples rates;
  for (const double value : values) rates.values.push_back(work / value);
  return rates;
}

Json samples_json(const Samples& samples) {
  return {{"median", json_number(samples.median())},
          {"min", json_number(samples.min())},
          {"max", json_number(samples.max())},
          {"values", json_numbers(std::span<const double>(samples.values))}};
}

std::string samples_text(const Samples& samples, int decimals) {
  return format_fixed(samples.median(), decimals) + " [" + format_fixed(samples.min(), decimals) +
         "–" + format_fixed(samples.max(), decimals) + "]";
}

std::vector<Samples> measure_in_turn(int repetitions,
                                     std::span<const std::function<double()>> measurements) {
  for (const auto& measure : measurements) measure();
  std::vector<Samples> samples(measurements.size());
  for (int round = 0; round < repetitions; ++round) {
    for (std::size_t i = 0; i < measurements.size(); ++i) {
      samples[i].values.push_back(measurements[i]());
    }
  }
  return samples;
}

std::vector<std::int32_t> bench_tokens(const Tokenizer& tokenizer, const std::string& text_file,
                                       int n) {
  const auto wanted = static_cast<std::size_t>(n);
  if (!text_file.empty()) {
    auto ids = tokenizer.encode(read_exact_text(text_file), SpecialTokens::kParse);
    if (ids.size() < wanted) {
      throw DataError(text_file + " has " + std::to_string(ids.size()) + " tokens, fewer than " +
                      std::to_string(n) + ": name a longer text or measure fewer tokens");
    }
    ids.resize(wanted);
    return ids;
  }
  std::vector<std::int32_t> ids(wanted);
  const auto n_vocab = static_cast<std::uint64_t>(tokenizer.n_vocab());
  for (std::size_t i = 0; i < wanted; ++i) ids[i] = static_cast<std::int32_t>(smix(i) % n_vocab);
  return ids;
}

}  // namespace kvscope
