#include "harness/report/text_rates.h"

#include <cmath>
#include <numbers>

#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {

std::optional<TextRates> text_rates(Store& store, std::int64_t arm_id,
                                    std::string_view dataset_key) {
  Statement s(store.database(),
              "SELECT "
              "sum(v.value*json_extract(x.tags,'$.scored_tokens')),sum(json_extract(x.tags,'$."
              "scored_tokens')),"
              "sum(json_extract(x.tags,'$.scored_words')),sum(json_extract(x.tags,'$.scored_bytes')"
              ") FROM sample_metric v "
              "JOIN metric m USING(metric_id) JOIN sample x USING(sample_id) "
              "JOIN dataset d USING(dataset_id) WHERE v.arm_id=? AND d.dataset_key=? "
              "AND m.name='nll_nats'");
  s.bind(arm_id, dataset_key);
  if (!s.step() || s.is_null(0) || s.is_null(2) || !(s.real(2) > 0) || !(s.real(3) > 0)) {
    return std::nullopt;
  }
  const double nats = s.real(0);
  return TextRates{std::exp(nats / s.real(1)), std::exp(nats / s.real(2)),
                   std::exp(nats / s.real(3)), nats / std::numbers::ln2 / s.real(3)};
}

Json text_rates_json(const TextRates& rates) {
  return {{"token_perplexity", json_number(rates.token_perplexity)},
          {"word_perplexity", json_number(rates.word_perplexity)},
          {"byte_perplexity", json_number(rates.byte_perplexity)},
          {"bits_per_byte", json_number(rates.bits_per_byte)}};
}

}  // namespace kvscope
