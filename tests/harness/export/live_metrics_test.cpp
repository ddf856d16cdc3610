#include "harness/export/live_metrics.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

const ArmLabels kArm = {"tiny", "h2o:norm=mean", "0.200"};

SampleOutcome needle_outcome() {
  SampleOutcome outcome;
  outcome.mode_run = "monolithic";
  outcome.metrics = {{"recall", 1.0}, {"kl_full_nats", 0.02}, {"top1_agreement", 0.75}};
  outcome.n_compared = 4;
  outcome.has_output = true;
  outcome.n_prompt_tokens = 1000;
  outcome.n_decode_steps = 9;
  outcome.prefill_seconds = 0.3;
  outcome.decode_seconds_per_step = 0.02;
  outcome.ledger.evicted_tokens = 4800;
  outcome.ledger.mean_resident_tokens = 200;
  outcome.ledger.steady = {100, 128, 16};
  outcome.ledger.prefill_peak = {1000, 1024, 64};
  outcome.ledger.decode_peak = {110, 128, 16};
  outcome.ledger.ghost_peak_bytes = 7;
  ProbeSummary probes;
  probes.mass_hit.by_layer.resize(2);
  probes.mass_hit.by_layer[0].add(0.96);  // layer 1 has no ghosts
  probes.rebound_mass.overall.add(0.25);
  probes.rebound_mass.overall.add(0.5);
  probes.rebound_mass_histogram[6] = 1;
  probes.rebound_mass_histogram[7] = 1;
  probes.rebound_events = 5;
  probes.top_key_hits = 60;
  probes.top_key_misses = 4;
  outcome.probes = probes;
  return outcome;
}

// The lines of one arm; those of the process (times, memory) differ from run to run.
std::string lines_with(const std::string& text, std::string_view part) {
  std::string out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(part) != std::string::npos && line[0] != '#' &&
        line.find("_bucket") == std::string::npos) {
      out += line + '\n';
    }
  }
  return out;
}

TEST(LiveMetrics, CountsASample) {
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  metrics.planned(kArm, "needle", 20);
  metrics.sample_done(kArm, "needle", needle_outcome());
  const std::string arm = "budget=\"0.200\",";
  const std::string rest = "model_name=\"tiny\",policy=\"h2o:norm=mean\"";
  const auto series = [&](std::string name, std::string before, std::string middle,
                          std::string after, std::string value) {
    return "kvscope_" + name + "{" + before + arm + middle + rest + after + "} " + value + "\n";
  };
  EXPECT_EQ(
      lines_with(metrics.text(), "h2o"),
      series("samples_planned", "", "dataset=\"needle\",", "", "20") +
          series("samples_total", "", "dataset=\"needle\",", ",status=\"error\"", "0") +
          series("samples_total", "", "dataset=\"needle\",", ",status=\"ok\"", "1") +
          series("samples_total", "", "dataset=\"needle\",", ",status=\"skipped\"", "0") +
          series("prompt_tokens_total", "", "", "", "1000") +
          series("generation_tokens_total", "", "", "", "9") +
          series("evicted_tokens_total", "", "", "", "4800") +
          series("kv_cache_resident_tokens", "", "", "", "200") +
          // 4,800 dropped positions of 6 (layer, KV head) pairs: 200 of 1,000 are left.
          series("kv_cache_usage_ratio", "", "", "", "0.2") +
          series("kv_cache_bytes", "", "kind=\"ghost\",", "", "7") +
          series("kv_cache_bytes", "", "kind=\"logical\",", "", "100") +
          series("kv_cache_bytes", "", "kind=\"metadata\",", "", "16") +
          series("kv_cache_bytes", "", "kind=\"physical\",", "", "128") +
          series("kv_cache_peak_bytes", "", "", ",stage=\"decode\"", "144") +
          series("kv_cache_peak_bytes", "", "", ",stage=\"prefill\"", "1088") +
          series("attention_mass_retained_ratio_count", "", "", "", "1") +
          series("attention_mass_retained_ratio_sum", "", "", "", "0.96") +
          series("attention_rebound_ratio_count", "", "", "", "2") +
          series("attention_rebound_ratio_sum", "", "", "", "0.75") +
          series("attention_rebound_events_total", "", "", "", "5") +
          series("cache_top_keys_total", "", "", ",result=\"hit\"", "60") +
          series("cache_top_keys_total", "", "", ",result=\"miss\"", "4") +
          series("output_kl_divergence_nats_count", "", "", "", "1") +
          series("output_kl_divergence_nats_sum", "", "", "", "0.02") +
          series("token_comparisons_total", "", "", ",result=\"match\"", "3") +
          series("token_comparisons_total", "", "", ",result=\"mismatch\"", "1") +
          series("task_results_total", "", "dataset=\"needle\",", ",result=\"correct\"", "1") +
          series("task_results_total", "", "dataset=\"needle\",", ",result=\"incorrect\"", "0") +
          series("time_to_first_token_seconds_count", "", "", "", "1") +
          series("time_to_first_token_seconds_sum", "", "", "", "0.3") +
          series("inter_token_latency_seconds_count", "", "", "", "1") +
          series("inter_token_latency_seconds_sum", "", "", "", "0.02"));
}

TEST(LiveMetrics, EveryCounterOfAnArmStartsAtZero) {
  LiveMetrics planned({"run-1", "sweep-1", "sweep", 6});
  planned.planned(kArm, "needle", 20);
  LiveMetrics done({"run-1", "sweep-1", "sweep", 6});
  done.planned(kArm, "needle", 20);
  done.sample_done(kArm, "needle", needle_outcome());
  const auto counters = [](const std::string& text) {
    std::string names;
    std::istringstream lines(lines_with(text, "_total{"));
    for (std::string line; std::getline(lines, line);)
      names += line.substr(0, line.rfind(' ')) + '\n';
    return names;
  };
  EXPECT_EQ(counters(planned.text()), counters(done.text()));
  EXPECT_NE(counters(done.text()).find("token_comparisons_total"), std::string::npos);
  std::istringstream lines(lines_with(planned.text(), "_total{"));
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(line.ends_with("} 0")) << line;
}

TEST(LiveMetrics, ScoringATextGeneratesNothingAndHasNoLatency) {
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  metrics.planned(kArm, "text", 1);
  SampleOutcome outcome = needle_outcome();
  outcome.has_output = false;
  outcome.decode_seconds_per_step = 0;
  metrics.sample_done(kArm, "text", outcome);
  EXPECT_TRUE(lines_with(metrics.text(), "generation_tokens_total{").ends_with("} 0\n"));
  EXPECT_EQ(lines_with(metrics.text(), "kvscope_inter_token_latency_seconds"), "");
}

TEST(LiveMetrics, AFailedSampleCountsAsAnErrorAndNothingElse) {
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  metrics.sample_done(kArm, "qa", error_outcome("nonfinite", "a NaN"));
  const std::string text = metrics.text();
  EXPECT_NE(text.find("kvscope_errors_total{kind=\"nonfinite\"} 1\n"), std::string::npos);
  EXPECT_EQ(lines_with(text, "h2o"),
            "kvscope_samples_total{budget=\"0.200\",dataset=\"qa\",model_name=\"tiny\","
            "policy=\"h2o:norm=mean\",status=\"error\"} 1\n");
}

TEST(LiveMetrics, ArmsThatDoNotSeeTheQuestionHaveSeriesOfTheirOwn) {
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  ArmLabels hidden = kArm;
  hidden.question_hidden = true;
  metrics.sample_done(kArm, "qa", error_outcome("nonfinite", "a NaN"));
  metrics.sample_done(hidden, "qa", error_outcome("nonfinite", "a NaN"));
  const std::string start =
      "kvscope_samples_total{budget=\"0.200\",dataset=\"qa\",model_name=\"tiny\","
      "policy=\"h2o:norm=mean\",";
  EXPECT_EQ(lines_with(metrics.text(), "samples_total"),
            start + "question=\"hidden\",status=\"error\"} 1\n" + start + "status=\"error\"} 1\n");
}

TEST(LiveMetrics, ExportsResultsWithTheirStandardErrors) {
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  const ArmMetricRow row = {"needle", "needle", "key", "recall", "ratio", "higher", 20, 0.9, 0.05};
  metrics.arm_result(kArm, "needle", std::span(&row, 1));
  const std::string labels =
      "{budget=\"0.200\",dataset=\"needle\",model_name=\"tiny\",policy=\"h2o:norm=mean\"} ";
  EXPECT_EQ(lines_with(metrics.text(), "h2o"),
            "kvscope_result_task_accuracy_ratio" + labels + "0.9\n" +
                "kvscope_result_task_accuracy_stderr_ratio" + labels + "0.05\n" +
                "kvscope_result_samples" + labels + "20\n");
}

TEST(LiveMetrics, ABusyPortIsAWarningAndTheRunGoesOn) {
  const int busy = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(busy, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(busy, 1), 0);
  ASSERT_EQ(::getsockname(busy, reinterpret_cast<sockaddr*>(&address), &size), 0);

  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(metrics.listen("127.0.0.1:" + std::to_string(ntohs(address.sin_port))), std::nullopt);
  const std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("kvscope: warning: metrics: cannot listen on 127.0.0.1:"),
            std::string::npos)
      << warning;
  EXPECT_EQ(metrics.failures(), 1);
  ::close(busy);
}

TEST(LiveMetrics, ServesOnAFreePort) {
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  const auto address = metrics.listen("127.0.0.1:0");
  ASSERT_TRUE(address);
  const int port = std::stoi(address->substr(address->rfind(':') + 1));
  ASSERT_GT(port, 0);

  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<std::uint16_t>(port));
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&server), sizeof(server)), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  ASSERT_EQ(::send(client, request.data(), request.size(), 0), ssize_t(request.size()));
  std::string answer;
  char block[4096];
  for (ssize_t n; (n = ::recv(client, block, sizeof(block), 0)) > 0;) {
    answer.append(block, static_cast<std::size_t>(n));
  }
  ::close(client);
  EXPECT_NE(answer.find("200 OK"), std::string::npos);
  EXPECT_NE(answer.find("kvscope_run_info{"), std::string::npos);
}

TEST(LiveMetrics, ReplacesTheTextfileWhole) {
  const fs::path folder =
      fs::temp_directory_path() / ("kvscope_export_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  LiveMetrics metrics({"run-1", "sweep-1", "sweep", 6});
  const fs::path file = folder / "kvscope.prom";
  std::ofstream(file) << "old";
  metrics.write_textfile(file);
  std::ostringstream contents;
  contents << std::ifstream(file).rdbuf();
  EXPECT_EQ(contents.str(), metrics.text());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  EXPECT_EQ(metrics.failures(), 0);

  // One warning for each kind of failure, however often it happens.
  ::testing::internal::CaptureStderr();
  metrics.write_textfile(folder / "absent" / "kvscope.prom");
  metrics.write_textfile(folder / "absent" / "kvscope.prom");
  EXPECT_EQ(metrics.listen("192.0.2.1:1"), std::nullopt);  // TEST-NET-1: no address of ours
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 2) << warnings;
  EXPECT_NE(warnings.find("cannot write "), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("cannot listen on "), std::string::npos) << warnings;
  EXPECT_EQ(metrics.failures(), 3);
  fs::remove_all(folder);
}

TEST(LiveMetrics, ListenAddressesAreLoopbackUnlessAHostIsNamed) {
  EXPECT_EQ(parse_listen_address("9400"), "127.0.0.1:9400");
  EXPECT_EQ(parse_listen_address(":0"), "127.0.0.1:0");
  EXPECT_EQ(parse_listen_address("localhost:9400"), "127.0.0.1:9400");
  EXPECT_EQ(parse_listen_address("0.0.0.0:9400"), "0.0.0.0:9400");
  for (const char* bad : {"", "abc", "127.0.0.1", "host:", "1:65536", "1:-1", "1:80x"}) {
    EXPECT_THROW(parse_listen_address(bad), UsageError) << bad;
  }
}

}  // namespace
}  // namespace kvscope
