#include "runner/engine/decode_rows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "runner/base/exp_weights.h"
#include "runner/engine/step_batch.h"

namespace kvscope {

namespace {

enum Role : std::uint8_t { kFree = 0, kForced = 1, kGold = 2 };
constexpr std::array kRoles{kFree, kForced, kGold};

struct Row {
  DecodeSample* sample = nullptr;
  std::size_t arm = 0;
  Sequence sequence;
  std::array<bool, 3> roles{};
  int fed = 0;             // tokens fed since the prompt
  std::int32_t token = 0;  // to be fed next

  bool is_full() const { return arm == 0 && sample->request.forced; }
  // Index of the answer token that the logits after `fed` tokens predict; negative while the prefix
  // is fed.
  int answer_index() const { return fed - int(sample->feed.size()); }
};

class Decoder {
 public:
  Decoder(EngineContext& context, Forward& forward, std::span<DecodeSample> samples)
      : context_(context),
        forward_(forward),
        batch_(context, forward),
        samples_(samples),
        hidden_(context.backend.memory()) {}

  bool run(const std::function<bool()>& stop) {
    for (DecodeSample& sample : samples_) {
      for (std::size_t a = 0; a < sample.arms.size(); ++a) {
        Row row;
        row.sample = &sample;
        row.arm = a;
        row.sequence = std::move(sample.arms[a].sequence);
        row.roles[kFree] = true;
        row.roles[kForced] = sample.request.forced && a > 0;
        row.roles[kGold] = !sample.request.gold.empty();
        row.token = sample.feed.front();
        rows_.push_back(std::move(row));
      }
    }
    while (!rows_.empty()) {
      if (stop && stop()) return false;
      step();
    }
    return true;
  }

 private:
  void step() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<StepRow> batch;
    for (Row& row : rows_) {
      DecodeArm& arm = row.sample->arms[row.arm];
      // How long the answer gets is not known: no row is the last.
      StepRow step{&row.sequence, arm.how, row.token, row.sample->prompt_tokens + row.fed,
                   nullptr,       0,       row.fed,   1};
      if (row.roles[kFree]) {
        step.account = &arm.account;
        step.account_row = arm.account_rows + std::size_t(row.fed);
      } else {
        step.how.probe = nullptr;
      }
      batch.push_back(step);
    }
    const std::span<const float> x = batch_.run(batch);
    predict(x);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (Row& row : rows_) {
      if (!row.roles[kFree]) continue;
      GenerateArmResult& result = row.sample->arms[row.arm].result;
      result.decode_seconds_per_step += seconds;  // divided by the steps when the row ends
      ++result.decode_steps;
    }
    advance();
  }

  // Logits of the rows that predict an answer token: rows_[predicting_[i]] has logits row i.
  void predict(std::span<const float> x) {
    const auto d_model = std::size_t(context_.model.config.d_model);
    predicting_.clear();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      ++rows_[i].fed;
      if (rows_[i].answer_index() < 0) continue;
      predicting_.push_back(i);
    }
    const int n = int(predicting_.size());
    logits_ = context_.logits.own.floats(std::size_t(n) * n_vocab());
    lse_.resize(n);
    greedy_.resize(n);
    if (n == 0) return;
    const std::vector<std::int32_t> rows(predicting_.begin(), predicting_.end());
    const std::span<float> hidden = hidden_.floats(n * d_model);
    context_.backend.copy_rows(x, int(d_model), rows, hidden);
    forward_.logits(hidden, n, logits_);
    context_.backend.log_sum_exp(logits_, n, lse_);
    context_.backend.greedy(logits_, n, greedy_);
  }

  std::size_t n_vocab() const { return context_.model.config.n_vocab; }
  std::span<const float> logits(std::size_t i) const {
    return logits_.subspan(i * n_vocab(), n_vocab());
  }

  // Compares all forced rows with their samples' full rows, which come first among a sample's rows.
  // A sample whose full row predicts nothing in this step has nothing to compare.
  void compare_forced() {
    full_logits_.assign(samples_.size(), kNone);
    comparisons_.resize(predicting_.size());
    std::vector<LogitPair> pairs;
    std::vector<std::size_t> compared;
    for (std::size_t at = 0; at < predicting_.size(); ++at) {
      const Row& row = rows_[predicting_[at]];
      if (!std::isfinite(lse_[at])) continue;
      std::size_t& full = full_logits_of(*row.sample);
      if (row.is_full() && row.roles[kFree]) full = at;
      if (!row.roles[kForced] || full == kNone) continue;
      pairs.push_back({logits(full), lse_[full], logits(at), lse_[at]});
      compared.push_back(at);
    }
    std::vector<LogitComparison> found(pairs.size());
    context_.backend.compare_logits(pairs, found);
    for (std::size_t i = 0; i < compared.size(); ++i) comparisons_[compared[i]] = found[i];
  }

  // What full's greedy answer has at `index`: known already, or predicted by this step's row.
  std::int32_t answer_token(const DecodeSample& sample, int index, std::size_t full) const {
    const std::vector<std::int32_t>& answer = sample.arms[0].result.new_ids;
    return index < int(answer.size()) ? answer[index] : greedy_[full];
  }

  // The logits of the tokens that forced and gold rows ask about.
  void pick_asked() {
    asked_.assign(predicting_.size(), Asked{});
    std::vector<LogitPlace> places;
    std::vector<float*> wanted;
    const auto ask = [&](std::size_t at, std::int32_t id, float& logit) {
      places.push_back({std::int32_t(at), id});
      wanted.push_back(&logit);
    };
    for (std::size_t at = 0; at < predicting_.size(); ++at) {
      const Row& row = rows_[predicting_[at]];
      const GenerateRequest& request = row.sample->request;
      const int index = row.answer_index();
      if (row.roles[kGold]) ask(at, request.gold[index], asked_[at].gold);
      const std::size_t full = full_logits_of(*row.sample);
      if (!row.roles[kForced] || full == kNone) continue;
      const std::int32_t token = answer_token(*row.sample, index, full);
      ask(at, token, asked_[at].forced);
      ask(full, token, asked_[at].forced_full);
    }
    std::vector<float> found(places.size());
    if (!places.empty()) context_.backend.pick_logits(logits_, int(n_vocab()), places, found);
    for (std::size_t i = 0; i < found.size(); ++i) *wanted[i] = found[i];
  }

  // Scores every role on the new logits and decides what it is fed next; roles that part take a
  // copy of the row.
  void advance() {
    compare_forced();
    pick_asked();
    std::vector<Row> next;
    std::size_t p = 0;
    // A sample's full row comes first among its rows: its token is known when the forced rows ask
    // for it.
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      const bool in_prefix = p == predicting_.size() || predicting_[p] != i;
      const std::size_t at = in_prefix ? kNone : p++;
      DecodeArm& arm = row.sample->arms[row.arm];
      if (std::string error = row.sequence.rule_error(); !error.empty()) {
        arm.result.error = std::move(error);
        end_free(row);
        continue;
      }
      if (in_prefix) {
        row.token = row.sample->feed[row.fed];
        next.push_back(std::move(row));
        continue;
      }
      if (!std::isfinite(lse_[at])) {
        arm.result.error =
            "non-finite logits at answer token " + std::to_string(row.answer_index());
        end_free(row);
        continue;
      }
      std::array<std::optional<std::int32_t>, 3> wanted;
      for (const Role role : kRoles) {
        if (row.roles[role]) wanted[role] = next_token(row, role, at);
      }
      if (row.roles[kFree] && !wanted[kFree]) end_free(row);
      split(std::move(row), wanted, next);
    }
    rows_ = std::move(next);
  }

  // Where an answer ends at all, it does at any of the model's own ends too.
  bool stops(const GenerateRequest& request, std::int32_t token) const {
    const std::vector<std::int32_t>& ends = context_.model.config.stop_tokens;
    return request.stop_token &&
           (token == *request.stop_token || std::ranges::find(ends, token) != ends.end());
  }

  std::optional<std::int32_t> next_token(Row& row, Role role, std::size_t at) {
    DecodeArm& arm = row.sample->arms[row.arm];
    GenerateArmResult& result = arm.result;
    const GenerateRequest& request = row.sample->request;
    const int index = row.answer_index();
    if (role == kFree) {
      const std::int32_t token = greedy_[at];
      result.new_ids.push_back(token);
      const bool ends =
          stops(request, token) || int(result.new_ids.size()) >= request.max_new_tokens;
      return ends ? std::nullopt : std::optional(token);
    }
    if (role == kGold) {
      result.gold_nll_nats.push_back(float(lse_[at] - double(asked_[at].gold)));
      return index + 1 < int(request.gold.size()) ? std::optional(request.gold[index])
                                                  : std::nullopt;
    }
    // Forced: the full row, further up in this batch, has just predicted its answer token `index`.
    const std::vector<std::int32_t>& answer = row.sample->arms[0].result.new_ids;
    const std::size_t full = full_logits_of(*row.sample);
    if (index >= int(answer.size()) || full == kNone) return std::nullopt;
    const LogitComparison& comparison = comparisons_[at];
    result.kl_full_nats.push_back(float(comparison.kl_full_to_arm_nats));
    result.top1_agrees.push_back(comparison.top1_agrees ? 1 : 0);
    const std::int32_t token = answer[index];
    result.forced_delta_nll_nats.push_back(float((lse_[at] - double(asked_[at].forced)) -
                                                 (lse_[full] - double(asked_[at].forced_full))));
    const bool full_goes_on = !stops(request, token) && int(answer.size()) < request.max_new_tokens;
    return full_goes_on ? std::optional(token) : std::nullopt;
  }

  void end_free(Row& row) {
    if (!row.roles[kFree]) return;
    DecodeArm& arm = row.sample->arms[row.arm];
    if (arm.result.decode_steps > 0) arm.result.decode_seconds_per_step /= arm.result.decode_steps;
    arm.tokens_seen = row.sample->prompt_tokens + row.fed;
    const ModelConfig& c = context_.model.config;
    for (int layer = 0; layer < c.n_layers; ++layer) {
      arm.bytes_by_layer.push_back(layer_bytes(row.sequence, layer, c.n_kv_heads));
    }
    std::int64_t ghost_bytes = 0;
    for (const HeadCache& head : row.sequence.ghosts) ghost_bytes += head.physical_bytes();
    arm.account.ghosts(ghost_bytes);
  }

  // One row for each distinct next token; the one with the free role keeps the sequence (and its
  // ghosts).
  static void split(Row row, const std::array<std::optional<std::int32_t>, 3>& wanted,
                    std::vector<Row>& next) {
    std::vector<Row> parts;
    for (const Role role : kRoles) {
      if (!wanted[role]) continue;
      const auto same = std::find_if(parts.begin(), parts.end(),
                                     [&](const Row& r) { return r.token == *wanted[role]; });
      if (same != parts.end()) {
        same->roles[role] = true;
        continue;
      }
      Row part;
      part.sample = row.sample;
      part.arm = row.arm;
      part.fed = row.fed;
      part.token = *wanted[role];
      part.roles[role] = true;
      parts.push_back(std::move(part));
    }
    for (std::size_t k = parts.size(); k-- > 0;) {
      parts[k].sequence = k == 0 ? std::move(row.sequence) : row.sequence.fork();
    }
    for (Row& part : parts) next.push_back(std::move(part));
  }

  std::size_t& full_logits_of(const DecodeSample& sample) {
    return full_logits_[std::size_t(&sample - samples_.data())];
  }

  struct Asked {  // logits of the tokens that a row's roles ask about
    float gold = 0.0F;
    float forced = 0.0F;
    float forced_full = 0.0F;  // the full row's
  };
  static constexpr std::size_t kNone = std::size_t(-1);
  EngineContext& context_;
  Forward& forward_;
  StepBatch batch_;
  std::span<DecodeSample> samples_;
  std::vector<Row> rows_;
  std::vector<std::size_t> predicting_;
  Scratch hidden_;                            // [predicting][d_model]
  std::span<float> logits_;                   // [predicting][n_vocab]
  std::vector<double> lse_;                   // [predicting]
  std::vector<std::int32_t> greedy_;          // [predicting]
  std::vector<Asked> asked_;                  // [predicting]
  std::vector<LogitComparison> comparisons_;  // [predicting], of forced rows
  std::vector<std::size_t> full_logits_;      // [samples] logits row of the full arm in this step
};

}  // namespace

bool decode_rows(EngineContext& context, Forward& forward, std::span<DecodeSample> samples,
                 const std::function<bool()>& stop) {
  return Decoder(context, forward, samples).run(stop);
}

}  // namespace kvscope
