// What the benchmarks share: options, repeated measurements taken in turn, token ids to work on,
// the process's memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/commands/common.h"
#include "harness/plan/process_peak.h"
#include "harness/report/json.h"

namespace kvscope {

struct BenchOptions {
  ModelOptions model;
  int repetitions = 3;
  bool json = false;
};

// The model's options, --repetitions and --json.
void add_bench_options(CLI::App& command, BenchOptions& options);

// Backend, threads and element types: what every figure depends on.
Json bench_json(std::string_view bench, const OpenedModel& opened, const BenchOptions& options);
std::string bench_line(const OpenedModel& opened, const BenchOptions& options);  // ends in '\n'

// ---- measurements ----

// Repeated measurements of one quantity, in the order they were taken.
struct Samples {
  std::vector<double> values;

  double median() const;  // NaN if there are none
  double min() const;
  double max() const;
  // work / value of each: tokens per second from seconds.
  Samples rates(double work) const;
};

Json samples_json(const Samples& samples);                       // median, min, max, values
std::string samples_text(const Samples& samples, int decimals);  // "593.0 [570.1–601.2]"

// Every measurement once to warm up, then `repetitions` rounds in which each is taken once. In turn
// and not one after the other, so that a disturbance or a change of the clock rate meets all of
// them.
std::vector<Samples> measure_in_turn(int repetitions,
                                     std::span<const std::function<double()>> measurements);

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// ---- tokens ----

// The first `n` ids of a text. Without a file: ids drawn from the whole vocabulary, the same ones
// in every run (what they say does not matter to the time). Throws DataError for a shorter text.
std::vector<std::int32_t> bench_tokens(const Tokenizer& tokenizer, const std::string& text_file,
                                       int n);

}  // namespace kvscope
