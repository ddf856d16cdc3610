#include "harness/export/metric_book.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <prometheus/text_serializer.h>

#include "harness/export/metric_catalogue.h"
#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

constexpr std::string_view kNonfinite = "kvscope_nonfinite_values_total";

// The library writes HELP as it is; a raw backslash or line feed there makes scrapers refuse the
// page.
std::string escape_help(std::string_view help) {
  std::string out;
  for (const char c : help) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// A model's file may name itself with any bytes.
std::string valid_utf8(std::string value) {
  for (std::size_t valid; (valid = utf8_valid_prefix(value)) < value.size();) value[valid] = '?';
  return value;
}

MetricBook::Labels clean(const MetricBook::Labels& labels) {
  MetricBook::Labels out;
  for (const auto& [name, value] : labels) out.emplace(name, valid_utf8(value));
  return out;
}

const FamilyInfo& known_family(std::string_view name, FamilyType type) {
  const FamilyInfo* info = find_family(name);
  if (info == nullptr || info->type != type) {
    throw std::logic_error("no such metric family of this type: " + std::string(name));
  }
  return *info;
}

}  // namespace

MetricBook::MetricBook(std::size_t max_series)
    : registry_(std::make_shared<prometheus::Registry>()), max_series_(max_series) {
  // All at once, so that the order is that of the catalogue.
  for (const FamilyInfo& info : metric_families()) {
    const std::string name(info.name);
    const std::string help = escape_help(info.help);
    switch (info.type) {
      case FamilyType::kGauge:
        gauges_[name] = &prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
        break;
      case FamilyType::kCounter:
        counters_[name] = &prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
        break;
      case FamilyType::kHistogram:
        histograms_[name] =
            &prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_);
        break;
    }
  }
}

bool MetricBook::admit(std::string_view family, const Labels& labels, std::size_t n_series) {
  std::string key(family);
  for (const auto& [name, value] : labels) key += '\n' + name + '\t' + value;
  if (known_.contains(key)) return true;
  if (n_series_ + n_series > max_series_) {
    ++refused_;
    return false;
  }
  known_.insert(std::move(key));
  n_series_ += n_series;
  return true;
}

bool MetricBook::usable(std::string_view family, double value) {
  if (std::isfinite(value)) return true;
  if (family != kNonfinite) add(kNonfinite, {{"probe", std::string(family)}}, 1.0);
  return false;
}

void MetricBook::set(std::string_view family, const Labels& labels, double value) {
  known_family(family, FamilyType::kGauge);
  const Labels cleaned = clean(labels);
  if (!usable(family, value) || !admit(family, cleaned, 1)) return;
  gauges_.find(family)->second->Add(cleaned).Set(value);
}

void MetricBook::set_max(std::string_view family, const Labels& labels, double value) {
  known_family(family, FamilyType::kGauge);
  const Labels cleaned = clean(labels);
  if (!usable(family, value) || !admit(family, cleaned, 1)) return;
  auto& gauge = gauges_.find(family)->second->Add(cleaned);
  gauge.Set(std::max(gauge.Value(), value));
}

void MetricBook::add(std::string_view family, const Labels& labels, double increment) {
  known_family(family, FamilyType::kCounter);
  const Labels cleaned = clean(labels);
  const double allowed = increment < 0 ? std::nan("") : increment;
  if (!usable(family, allowed) || !admit(family, cleaned, 1)) return;
  counters_.find(family)->second->Add(cleaned).Increment(increment);
}

prometheus::Histogram* MetricBook::histogram(std::string_view family, const Labels& labels) {
  const FamilyInfo& info = known_family(family, FamilyType::kHistogram);
  const Labels cleaned = clean(labels);
  constexpr std::size_t kInfSumCount = 3;
  if (!admit(family, cleaned, info.buckets.size() + kInfSumCount)) return nullptr;
  const prometheus::Histogram::BucketBoundaries buckets(info.buckets.begin(), info.buckets.end());
  return &histograms_.find(family)->second->Add(cleaned, buckets);
}

void MetricBook::observe(std::string_view family, const Labels& labels, double value) {
  if (!usable(family, value)) return;
  if (auto* metric = histogram(family, labels)) metric->Observe(value);
}

void MetricBook::observe_many(std::string_view family, const Labels& labels,
                              std::span<const std::int64_t> counts, double sum) {
  if (!usable(family, sum)) return;
  if (auto* metric = histogram(family, labels)) {
    metric->ObserveMultiple(std::vector<double>(counts.begin(), counts.end()), sum);
  }
}

std::string MetricBook::text() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  std::erase_if(families, [](const auto& family) { return family.metric.empty(); });
  const auto place = [](const prometheus::MetricFamily& family) {
    return find_family(family.name) - metric_families().data();
  };
  std::sort(families.begin(), families.end(),
            [&](const auto& a, const auto& b) { return place(a) < place(b); });
  for (auto& family : families) {
    std::sort(family.metric.begin(), family.metric.end(),
              [](const auto& a, const auto& b) { return a.label < b.label; });
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace kvscope
