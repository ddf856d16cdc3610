#include "runner/policies/params.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "runner/policies/nearest.h"

namespace kvscope {
namespace {

constexpr std::string_view kEllipsis = "…";

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split_choices(std::string_view values) {
  std::vector<std::string_view> choices;
  while (true) {
    const std::size_t bar = values.find('|');
    choices.push_back(values.substr(0, bar));
    if (bar == std::string_view::npos) return choices;
    values.remove_prefix(bar + 1);
  }
}

// "lo…hi" or "lo…"; the second has the upper bound `unbounded`.
template <class Number>
std::pair<Number, Number> bounds(std::string_view range, Number unbounded) {
  const std::size_t dots = range.find(kEllipsis);
  const auto low = parse_number<Number>(range.substr(0, dots));
  const auto high = parse_number<Number>(range.substr(dots + kEllipsis.size()));
  return {low.value_or(Number{}), high.value_or(unbounded)};
}

template <class Number>
std::optional<Number> in_range(std::string_view text, std::string_view range, Number unbounded) {
  const auto value = parse_number<Number>(text);
  const auto [low, high] = bounds<Number>(range, unbounded);
  // Written so that NaN is outside every range.
  if (!value || !(*value >= low && *value <= high)) return std::nullopt;
  return value;
}

std::optional<std::string> canonical_value(std::string_view values, std::string_view text) {
  if (values.starts_with("float ")) {
    const auto value = in_range<float>(text, values.substr(6), std::numeric_limits<float>::max());
    if (!value) return std::nullopt;
    char buffer[32];
    const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, *value);
    return std::string(buffer, end);
  }
  if (values.find(kEllipsis) != std::string_view::npos) {
    const bool odd = values.starts_with("odd ");
    const std::string_view range = odd ? values.substr(4) : values;
    const auto value = in_range<std::uint64_t>(text, range, std::numeric_limits<int>::max());
    if (!value || (odd && *value % 2 == 0)) return std::nullopt;
    return std::to_string(*value);
  }
  const auto choices = split_choices(values);
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) return std::nullopt;
  return std::string(text);
}

template <class Number>
Number stored(const std::map<std::string, std::string>& params, const std::string& name) {
  return parse_number<Number>(params.at(name)).value();
}

}  // namespace

std::string checked_value(std::string_view where, const ParamInfo& info, std::string_view text) {
  if (info.fallback == "auto" && text == "auto") return "auto";
  const std::string_view values = info.values.substr(0, info.values.find(" ("));
  if (auto value = canonical_value(values, text)) return *value;
  std::string message(where);
  message += std::string(info.name) + "=" + std::string(text) + " is not allowed; " +
             std::string(info.name) + " takes " + std::string(values);
  if (values.find('|') != std::string_view::npos)
    message += suggestion(text, split_choices(values));
  throw UsageError(message);
}

int int_param(const PolicySpec& spec, const std::string& name) {
  return stored<int>(spec.params, name);
}
int int_param(const PartSpec& part, const std::string& name) {
  return stored<int>(part.params, name);
}

std::uint64_t seed_param(const PolicySpec& spec, const std::string& name) {
  return stored<std::uint64_t>(spec.params, name);
}

float float_param(const PolicySpec& spec, const std::string& name) {
  return stored<float>(spec.params, name);
}
float float_param(const PartSpec& part, const std::string& name) {
  return stored<float>(part.params, name);
}

bool never_evicts(const PolicySpec& spec, const FitRequest& request) {
  return spec.is_full() || request.budget.permille == 1000;
}

int fit_param(const PolicySpec& spec, const FitRequest& request, const std::string& name, int wish,
              int most, int most_written, std::string_view limit) {
  if (spec.params.at(name) == "auto") return std::max(0, std::min(wish, most));
  const int value = int_param(spec, name);
  if (value > most_written && !never_evicts(spec, request)) {
    throw DoesNotFit("policy \"" + spec.canonical + "\": " + name + "=" + std::to_string(value) +
                     " does not fit, it may be at most " + std::to_string(most_written) + " (" +
                     std::string(limit) + "); write less, give a larger budget or leave " + name +
                     " out");
  }
  return value;
}

}  // namespace kvscope
