#include "metrics/stats/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace kvscope {
namespace {

// ---- ratios ----

constexpr std::array kNearZero = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005,
                                  0.01,   0.015,  0.02,   0.03,  0.04};
constexpr int kMiddleEdges = 37;  // 0.05, 0.075, … 0.95
constexpr double kBelowOne = 1.0 - 0x1p-53;
constexpr std::size_t kEdges = 2 * kNearZero.size() + kMiddleEdges + 2;

// Upper edges of the bins, inclusive: 0, … , the last number below 1. Bin kEdges is 1 itself.
constexpr std::array<double, kEdges> ratio_edges() {
  std::array<double, kEdges> edges{};
  std::size_t i = 0;
  edges[i++] = 0.0;
  for (const double edge : kNearZero) edges[i++] = edge;
  for (int middle = 0; middle < kMiddleEdges; ++middle) edges[i++] = (2.0 + middle) / 40.0;
  for (std::size_t near = kNearZero.size(); near-- > 0;) edges[i++] = 1.0 - kNearZero[near];
  edges[i++] = kBelowOne;
  return edges;
}
constexpr std::array<double, kEdges> kRatioEdges = ratio_edges();

// For each 1/256 of [0, 1] the first bin that can hold a value there.
constexpr int kHints = 256;
constexpr std::array<std::uint8_t, kHints + 1> ratio_hints() {
  std::array<std::uint8_t, kHints + 1> hints{};
  for (int i = 0; i <= kHints; ++i) {
    std::size_t bin = 0;
    while (bin<kEdges&& double(i) / kHints> kRatioEdges[bin]) ++bin;
    hints[std::size_t(i)] = std::uint8_t(bin);
  }
  return hints;
}
constexpr std::array<std::uint8_t, kHints + 1> kRatioHints = ratio_hints();

std::int32_t ratio_bin(double value) {
  const double size = std::min(std::abs(value), 1.0);
  std::size_t bin = kRatioHints[std::size_t(size * kHints)];
  while (bin < kEdges && size > kRatioEdges[bin]) ++bin;
  return value < 0 ? -std::int32_t(bin) : std::int32_t(bin);
}

double ratio_of_bin(std::int32_t bin) {
  const auto i = std::size_t(std::abs(bin));
  if (i == 0) return 0.0;
  const double value = i == kEdges ? 1.0 : (kRatioEdges[i - 1] + kRatioEdges[i]) / 2;
  return bin < 0 ? -value : value;
}

// ---- positive numbers ----

// A double's exponent and the first 6 bits of its fraction, which is log2 interpolated linearly.
constexpr int kFractionBits = 6;
constexpr int kDropped = 52 - kFractionBits;
constexpr double kLeast = 0x1p-20;
constexpr double kMost = 0x1p40;

constexpr std::int64_t code_of(double value) {
  return std::bit_cast<std::int64_t>(value) >> kDropped;
}
constexpr std::int32_t kMaxLogBin = std::int32_t(code_of(kMost) - code_of(kLeast)) + 1;

// 0: below kLeast, negative numbers too.
std::int32_t log_bin(double value) {
  if (!(value >= kLeast)) return 0;
  return std::int32_t(code_of(std::min(value, kMost)) - code_of(kLeast)) + 1;
}

double log_of_bin(std::int32_t bin) {
  if (bin == 0) return 0.0;
  const std::int64_t code = code_of(kLeast) + bin - 1;
  const auto low = std::bit_cast<double>(code << kDropped);
  return (low + std::bit_cast<double>((code + 1) << kDropped)) / 2;
}

}  // namespace

std::string_view name_of(SketchScale scale) {
  return scale == SketchScale::kRatio ? "ratio" : "log";
}

std::optional<SketchScale> parse_sketch_scale(std::string_view name) {
  for (const SketchScale scale : {SketchScale::kRatio, SketchScale::kLog}) {
    if (name == name_of(scale)) return scale;
  }
  return std::nullopt;
}

void Sketch::add(double value) {
  add_count(scale_ == SketchScale::kRatio ? ratio_bin(value) : log_bin(value), 1);
  min_ = n_ == 1 ? value : std::min(min_, value);
  max_ = n_ == 1 ? value : std::max(max_, value);
}

void Sketch::add_count(std::int32_t bin, std::int64_t count) {
  if (counts_.empty()) first_bin_ = bin;
  if (bin < first_bin_) {
    counts_.insert(counts_.begin(), std::size_t(first_bin_ - bin), 0);
    first_bin_ = bin;
  }
  const auto at = std::size_t(bin - first_bin_);
  if (at >= counts_.size()) counts_.resize(at + 1);
  counts_[at] += count;
  n_ += count;
}

void Sketch::merge(const Sketch& other) {
  if (other.n_ == 0) return;
  if (scale_ != other.scale_) throw std::invalid_argument("sketches of two scales do not merge");
  min_ = n_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = n_ == 0 ? other.max_ : std::max(max_, other.max_);
  for (const auto& [bin, count] : other.bins()) add_count(bin, count);
}

std::optional<double> Sketch::quantile(double q) const {
  if (n_ == 0) return std::nullopt;
  if (q >= 1) return max_;
  std::int64_t rank = std::max<std::int64_t>(1, std::int64_t(std::ceil(q * double(n_) - 1e-9)));
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    rank -= counts_[i];
    if (rank > 0) continue;
    const auto bin = first_bin_ + std::int32_t(i);
    const double value = scale_ == SketchScale::kRatio ? ratio_of_bin(bin) : log_of_bin(bin);
    return std::clamp(value, min_, max_);
  }
  return max_;
}

std::vector<std::pair<std::int32_t, std::int64_t>> Sketch::bins() const {
  std::vector<std::pair<std::int32_t, std::int64_t>> result;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] != 0) result.emplace_back(first_bin_ + std::int32_t(i), counts_[i]);
  }
  return result;
}

Sketch Sketch::of_bins(SketchScale scale, double min, double max,
                       const std::vector<std::pair<std::int32_t, std::int64_t>>& bins) {
  const auto most = scale == SketchScale::kRatio ? std::int32_t(kEdges) : kMaxLogBin;
  const std::int32_t least = scale == SketchScale::kRatio ? -most : 0;
  Sketch sketch(scale);
  for (const auto& [bin, count] : bins) {
    if (bin < least || bin > most || count <= 0) throw std::invalid_argument("no bins of a sketch");
    sketch.add_count(bin, count);
  }
  sketch.min_ = min;
  sketch.max_ = max;
  return sketch;
}

bool Sketch::operator==(const Sketch& other) const {
  return scale_ == other.scale_ && min_ == other.min_ && max_ == other.max_ &&
         bins() == other.bins();
}

}  // namespace kvscope
