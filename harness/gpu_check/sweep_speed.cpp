#include "harness/gpu_check/sweep_speed.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kRounds = 2;  // after one to warm up

struct SweepPrompt {
  std::vector<std::int32_t> prompt, prefix, gold;
};

GenerateRequest request_of(const SweepPrompt& tokens, const SpeedWork& work, bool three_rows,
                           bool all_arms) {
  GenerateRequest request;
  request.prompt = tokens.prompt;
  request.max_new_tokens = work.answer_tokens;  // nothing stops early
  if (three_rows) {
    request.prefix = tokens.prefix;
    request.gold = tokens.gold;
    request.forced = true;
  }
  const int length = int(tokens.prompt.size()) - (three_rows ? 0 : 1);  // the last one is held back
  request.arms.push_back({check_policy("full", 1000, length, false), nullptr});
  if (!all_arms) return request;
  for (const std::string& policy : work.policies) {
    for (const int permille : work.permilles) {
      request.arms.push_back({check_policy(policy, permille, length, false), nullptr});
    }
  }
  return request;
}

struct Timed {
  double seconds = std::numeric_limits<double>::infinity();  // the best round's
  Ledger full;
};

Timed time_request(Engine& engine, const GenerateRequest& request) {
  Timed timed;
  for (int round = 0; round <= kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const auto results = engine.generate(std::span(&request, 1)).value();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    if (round > 0) timed.seconds = std::min(timed.seconds, time.count());
    for (const GenerateArmResult& arm : results.front()) {
      if (!arm.error.empty()) throw DataError("bench gpu: sweep: " + arm.error);
    }
    timed.full = results.front().front().ledger;
  }
  return timed;
}

}  // namespace

SweepSpeed measure_sweep_speed(CheckModel& check, const SpeedWork& work) {
  SweepPrompt tokens;
  tokens.prompt = check_tokens(work.config, work.prompt_tokens, 11);
  tokens.prefix = check_tokens(work.config, 16, 12);
  tokens.gold = check_tokens(work.config, 16, 13);
  const auto run = [&](bool three_rows, bool all_arms) {
    return time_request(check.engine, request_of(tokens, work, three_rows, all_arms));
  };
  SweepSpeed speed;
  speed.n_arms = int(work.policies.size() * work.permilles.size());
  const Timed full = run(false, false);
  speed.full_seconds = full.seconds;
  speed.memory.ledger_bytes = full.full.peak().physical_bytes;
  speed.memory.pool_bytes = check.engine.pool_peak_bytes();
  speed.memory.device = check.engine.backend().device_memory();
  speed.answers_seconds = run(false, true).seconds;
  speed.sweep_full_seconds = run(true, false).seconds;
  speed.sweep_seconds = run(true, true).seconds;
  return speed;
}

}  // namespace kvscope
