#include "harness/export/live_metrics.h"

#include <sys/resource.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <utility>

#include <prometheus/exposer.h>

#include "harness/build_info/build_info.h"
#include "harness/export/metric_book.h"
#include "harness/export/sample_metrics.h"
#include "harness/export/textfile.h"

namespace kvscope {
namespace {

double unix_seconds() { return double(std::time(nullptr)); }

double peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) * 1024.0;
}

MetricBook::Labels labels_of(const ArmLabels& arm) {
  MetricBook::Labels labels = {
      {"model_name", arm.model_name}, {"policy", arm.policy}, {"budget", arm.budget}};
  // An absent label is the empty one: arms that see the question keep the series they always had.
  if (arm.question_hidden) labels["question"] = "hidden";
  return labels;
}

}  // namespace

struct LiveMetrics::Impl {
  MetricBook book;
  std::unique_ptr<prometheus::Exposer> exposer;
  RunLabels run;
  std::array<int, 3> failures{};  // by Part
};

template <typename Work>
void LiveMetrics::guarded(Part part, std::string_view what, Work&& work) noexcept {
  try {
    work();
  } catch (const std::exception& error) {
    if (++impl_->failures[std::size_t(part)] == 1) {
      std::fprintf(stderr, "kvscope: warning: metrics: cannot %.*s: %s; the run goes on\n",
                   int(what.size()), what.data(), error.what());
    }
  }
}

LiveMetrics::LiveMetrics(const RunLabels& run) : impl_(std::make_unique<Impl>()) {
  impl_->run = run;
  guarded(Part::kCounts, "start", [&] {
    const BuildInfo& build = build_info();
    impl_->book.set("kvscope_build_info",
                    {{"version", std::string(build.version)},
                     {"git_sha", std::string(build.git_sha)},
                     {"cuda_version", run.cuda_version}},
                    1);
    impl_->book.set("kvscope_run_info",
                    {{"run_uuid", run.run_uuid},
                     {"sweep_uuid", run.sweep_uuid},
                     {"suite", run.suite},
                     {"shard", "0"},
                     {"gpu_name", run.gpu_name}},
                    1);
    impl_->book.set("kvscope_run_start_timestamp_seconds", {}, unix_seconds());
    for (const char* kind : {"oom", "cuda", "nonfinite", "io", "input"}) {
      impl_->book.add("kvscope_errors_total", {{"kind", kind}}, 0);
    }
    impl_->book.add("kvscope_nonfinite_values_total", {{"probe", "attention_mass"}}, 0);
    impl_->book.set("kvscope_process_peak_memory_bytes", {}, peak_memory_bytes());
  });
}

LiveMetrics::~LiveMetrics() = default;

std::optional<std::string> LiveMetrics::listen(const std::string& address) {
  std::optional<std::string> bound;
  guarded(Part::kListen, "listen on " + address, [&] {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    exposer->RegisterCollectable(impl_->book.registry());
    const auto ports = exposer->GetListeningPorts();
    bound = address.substr(0, address.rfind(':') + 1) + std::to_string(ports.at(0));
    impl_->exposer = std::move(exposer);
  });
  return bound;
}

void LiveMetrics::planned(const ArmLabels& arm, std::string_view dataset, std::int64_t n_samples) {
  guarded(Part::kCounts, "count planned samples", [&] {
    MetricBook::Labels labels = labels_of(arm);
    labels["dataset"] = dataset;
    impl_->book.set("kvscope_samples_planned", labels, double(n_samples));
    start_arm_counters(impl_->book, labels_of(arm), std::string(dataset));
  });
}

void LiveMetrics::sample_done(const ArmLabels& arm, std::string_view dataset,
                              const SampleOutcome& outcome) {
  guarded(Part::kCounts, "count a sample", [&] {
    add_sample_metrics(impl_->book, labels_of(arm), std::string(dataset), outcome,
                       impl_->run.selection_units);
    impl_->book.set("kvscope_run_last_progress_timestamp_seconds", {}, unix_seconds());
    impl_->book.set("kvscope_process_peak_memory_bytes", {}, peak_memory_bytes());
  });
}

void LiveMetrics::device_memory(const DeviceMemory& memory, std::int64_t total_bytes) {
  guarded(Part::kCounts, "report device memory", [&] {
    const auto set = [&](const char* kind, std::int64_t bytes) {
      impl_->book.set("kvscope_gpu_memory_bytes", {{"kind", kind}}, double(bytes));
    };
    set("used", memory.allocated_bytes);
    set("peak", memory.peak_bytes);
    set("total", total_bytes);
  });
}

void LiveMetrics::committed(double transaction_seconds, std::int64_t store_bytes) {
  guarded(Part::kCounts, "count a transaction", [&] {
    impl_->book.observe("kvscope_store_transaction_duration_seconds", {}, transaction_seconds);
    impl_->book.set("kvscope_store_size_bytes", {}, double(store_bytes));
  });
}

void LiveMetrics::error(std::string_view kind) {
  guarded(Part::kCounts, "count an error", [&] {
    impl_->book.add("kvscope_errors_total", {{"kind", std::string(kind)}}, 1);
  });
}

void LiveMetrics::arm_result(const ArmLabels& arm, std::string_view dataset,
                             std::span<const ArmMetricRow> metrics) {
  guarded(Part::kCounts, "export a result", [&] {
    MetricBook::Labels labels = labels_of(arm);
    labels["dataset"] = dataset;
    add_result_metrics(impl_->book, labels, metrics);
  });
}

void LiveMetrics::run_done(double duration_seconds, bool success) {
  guarded(Part::kCounts, "export the run's end", [&] {
    const MetricBook::Labels suite = {{"suite", impl_->run.suite}};
    impl_->book.set("kvscope_run_duration_seconds", suite, duration_seconds);
    impl_->book.set("kvscope_run_completion_timestamp_seconds", suite, unix_seconds());
    if (success) {
      impl_->book.set("kvscope_run_last_success_timestamp_seconds", suite, unix_seconds());
    }
  });
}

void LiveMetrics::write_textfile(const std::filesystem::path& file) {
  guarded(Part::kTextfile, "write " + file.string(),
          [&] { replace_file(file, impl_->book.text()); });
}

std::string LiveMetrics::text() const { return impl_->book.text(); }

int LiveMetrics::failures() const {
  return std::accumulate(impl_->failures.begin(), impl_->failures.end(), 0);
}

}  // namespace kvscope
