#include "harness/gpu_check/agreement.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "harness/report/table.h"

namespace kvscope {
namespace {

std::size_t common_beginning(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::size_t(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Share of the kept tokens that both kept, over all heads; NaN if they are not as many.
double kept_by_both(const Observed& a, const Observed& b) {
  std::size_t all = 0;
  std::size_t both = 0;
  if (a.kept.size() != b.kept.size()) return std::nan("");
  for (std::size_t h = 0; h < a.kept.size(); ++h) {
    std::vector<std::int32_t> common;
    std::ranges::set_intersection(a.kept[h], b.kept[h], std::back_inserter(common));
    if (a.kept[h].size() != b.kept[h].size()) return std::nan("");
    all += a.kept[h].size();
    both += common.size();
  }
  return all == 0 ? 1.0 : double(both) / double(all);
}

struct Difference {
  double mean = 0.0;
  double max = 0.0;
};

// NaN where one of the first n is, or is missing.
Difference difference(std::span<const double> a, std::span<const double> b, std::size_t n) {
  if (a.size() < n || b.size() < n) return {std::nan(""), std::nan("")};
  Difference d;
  for (std::size_t i = 0; i < n; ++i) {
    const double one = std::abs(a[i] - b[i]);
    d.mean += one / double(n);
    d.max = std::isnan(one) || one > d.max ? one : d.max;
  }
  return d;
}

std::optional<double> probe_difference(const Observed& a, const Observed& b) {
  // It watches the free-running row.
  if (!a.rebound_mass || !b.rebound_mass || a.answer != b.answer) return std::nullopt;
  return std::max(std::abs(*a.rebound_mass - *b.rebound_mass),
                  std::abs(*a.hit_at_32 - *b.hit_at_32));
}

}  // namespace

AgreementLimits agreement_limits(DType dtype, int n_layers, bool ranks) {
  // Measured with the CPU against itself, every stage's results moved by 1e-6 of their size
  // (tests/harness/gpu_check/perturbed_backend.h), texts of 512 tokens: mean NLL, NLL of a token,
  // KL and share kept by both.
  //   f32, 30 layers      : 5e-5, 2e-4, 2e-5, 100 %; where a token changed places 0.04, 0.3,
  //   0.04, 99.9 % bf16, Llama, 2      : 0.014, 0.042, 0.002, 100 %; ranking policies 0.07, 0.28,
  //   0.017, 99.6 % bf16, SmolLM2, 30   : 0.09, 0.24, 0.022, 100 %; ranking policies 0.45, 1.7,
  //   0.11, 97.8 %
  // Rounding to bf16 saturates in many random layers. Logits that are wrong cost 1.7 on average.
  if (dtype == DType::kF32) {
    return ranks ? AgreementLimits{0.1, 1.0, 0.2, 0.995, 0.01, false}
                 : AgreementLimits{2e-4, 1e-3, 1e-4, 1.0, 0.0, true};
  }
  constexpr int kFewLayers = 4;
  if (n_layers <= kFewLayers) {
    return ranks ? AgreementLimits{0.25, 1.0, 0.1, 0.98, 0.02, false}
                 : AgreementLimits{0.05, 0.2, 0.02, 1.0, 0.0, false};
  }
  return ranks ? AgreementLimits{0.8, 4.0, 0.4, 0.95, 0.02, false}
               : AgreementLimits{0.2, 0.8, 0.08, 1.0, 0.0, false};
}

bool same_ledger(const Ledger& a, const Ledger& b) {
  const auto same = [](const KvBytes& x, const KvBytes& y) {
    return x.logical_bytes == y.logical_bytes && x.physical_bytes == y.physical_bytes &&
           x.metadata_bytes == y.metadata_bytes;
  };
  return same(a.prefill_peak, b.prefill_peak) && same(a.decode_peak, b.decode_peak) &&
         same(a.steady, b.steady) && a.ghost_peak_bytes == b.ghost_peak_bytes &&
         a.peak_resident_tokens == b.peak_resident_tokens &&
         a.peak_visible_tokens == b.peak_visible_tokens && a.evicted_tokens == b.evicted_tokens &&
         a.mean_resident_tokens == b.mean_resident_tokens && a.bytes_by_row == b.bytes_by_row &&
         a.bytes_by_layer == b.bytes_by_layer;
}

AgreementRow compare_observed(const Observed& reference, const Observed& tested,
                              const AgreementLimits& limits) {
  AgreementRow row;
  for (const Observed* one : {&reference, &tested}) {
    if (!one->error.empty()) row.faults.push_back("failed: " + one->error);
  }
  if (!row.faults.empty()) return row;
  const Difference nll = difference(reference.nll_nats, tested.nll_nats, reference.nll_nats.size());
  row.mean_nll_nats = nll.mean;
  row.max_nll_nats = nll.max;
  // The forced rows follow the full arm's answer: the same tokens as far as the two answers agree.
  std::size_t n_kl = reference.kl_nats.size();
  if (!reference.full_answer.empty()) {
    const std::size_t agrees = common_beginning(reference.full_answer, tested.full_answer);
    n_kl = std::min(n_kl, agrees + 1);
  }
  row.max_kl_nats = difference(reference.kl_nats, tested.kl_nats, n_kl).max;
  row.kept = kept_by_both(reference, tested);
  row.probe = probe_difference(reference, tested);
  row.answer_tokens = reference.answer.size();
  row.answer_agrees = common_beginning(reference.answer, tested.answer);
  row.same_bytes = same_ledger(reference.ledger, tested.ledger);

  // Written so that a NaN is a fault.
  const auto require = [&](bool holds, const char* what) {
    if (!holds) row.faults.emplace_back(what);
  };
  require(row.mean_nll_nats <= limits.mean_nll_nats, "mean NLL");
  require(row.max_nll_nats <= limits.max_nll_nats, "NLL of a token");
  require(row.max_kl_nats <= limits.max_kl_nats, "KL of a token");
  require(row.kept >= limits.least_kept, "kept tokens");
  require(!row.probe || *row.probe <= limits.probe, "probes");
  require(row.same_bytes, "bytes");
  require(!limits.same_answer ||
              (row.answer_agrees == row.answer_tokens && tested.answer.size() == row.answer_tokens),
          "answer");
  return row;
}

std::vector<AgreementRow> compare_backends(const AgreementWork& work, Backend& reference,
                                           Backend& tested) {
  // One after the other: two models of 8B shape would be twice the memory.
  const std::vector<ObservedWork> wanted = observe(work, reference);
  const std::vector<ObservedWork> found = observe(work, tested);
  const std::span<const CheckArm> arms = check_arms();
  std::vector<AgreementRow> rows;
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    for (std::size_t a = 0; a < arms.size(); ++a) {
      AgreementRow row =
          compare_observed(wanted[w].arms[a], found[w].arms[a],
                           agreement_limits(work.dtype, work.config.n_layers, arms[a].ranks));
      row.model = work.config.name;
      row.dtype = work.dtype;
      row.work = wanted[w].name;
      row.arm = arms[a].name;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string agreement_text(const std::vector<AgreementRow>& rows) {
  Table table({"model", "dtype", "work", "arm", "mean ΔNLL", "max ΔNLL", "max ΔKL", "kept by both",
               "Δprobes", "answer", "bytes", "verdict"});
  for (const std::size_t column : {1, 2, 3, 10, 11}) table.align(column, Table::Align::kLeft);
  for (const AgreementRow& row : rows) {
    std::string verdict = row.faults.empty() ? "agrees" : "DIFFERS:";
    for (const std::string& fault : row.faults)
      verdict += (verdict.back() == ':' ? " " : ", ") + fault;
    table.add_row({row.model, std::string(name_of(row.dtype)), row.work, row.arm,
                   format_significant(row.mean_nll_nats, 2),
                   format_significant(row.max_nll_nats, 2), format_significant(row.max_kl_nats, 2),
                   format_percent(row.kept, 2), row.probe ? format_significant(*row.probe, 2) : "-",
                   row.answer_tokens == 0 ? "-"
                                          : std::to_string(row.answer_agrees) + "/" +
                                                std::to_string(row.answer_tokens),
                   row.same_bytes ? "equal" : "differ", verdict});
  }
  return table.text();
}

Json agreement_json(const std::vector<AgreementRow>& rows) {
  Json out = Json::array();
  for (const AgreementRow& row : rows) {
    out.push_back({{"model", row.model},
                   {"dtype", name_of(row.dtype)},
                   {"work", row.work},
                   {"arm", row.arm},
                   {"mean_nll_difference_nats", json_number(row.mean_nll_nats)},
                   {"max_nll_difference_nats", json_number(row.max_nll_nats)},
                   {"max_kl_difference_nats", json_number(row.max_kl_nats)},
                   {"kept_by_both", json_number(row.kept)},
                   {"probe_difference", row.probe ? json_number(*row.probe) : Json(nullptr)},
                   {"answer_tokens", row.answer_tokens},
                   {"answer_tokens_that_agree", row.answer_agrees},
                   {"same_bytes", row.same_bytes},
                   {"faults", row.faults}});
  }
  return out;
}

}  // namespace kvscope
