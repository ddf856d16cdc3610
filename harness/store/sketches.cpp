#include "harness/store/sketches.h"

#include <algorithm>
#include <stdexcept>

#include "harness/store/database.h"
#include "harness/store/metric_info.h"
#include "harness/store/statement.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

void put_varint(std::uint64_t value, std::vector<std::byte>& out) {
  for (; value >= 128; value >>= 7U) out.push_back(std::byte(value | 128U));
  out.push_back(std::byte(value));
}

class VarintReader {
 public:
  explicit VarintReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  std::uint64_t next() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = std::to_integer<std::uint64_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      value |= (byte & 127U) << shift;
      if (byte < 128) return value;
    }
    throw DataError("the database holds a sketch whose bins cannot be read; it is damaged");
  }

 private:
  std::span<const std::byte> bytes_;
};

std::uint64_t zigzag(std::int64_t value) {
  return (std::uint64_t(value) << 1U) ^ std::uint64_t(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
  return std::int64_t(value >> 1U) ^ -std::int64_t(value & 1U);
}

class SketchWriter {
 public:
  SketchWriter(Database& database, std::int64_t arm_id, std::int64_t sample_id)
      : arm_id_(arm_id),
        sample_id_(sample_id),
        insert_(database,
                "INSERT INTO sketch(arm_id,sample_id,metric_id,scale,n,min,max,bins,worst_mean,"
                "worst_layer,worst_kv_head) VALUES(?,?,(SELECT metric_id FROM metric WHERE name=?),"
                "?,?,?,?,?,?,?,?)") {}

  void write(std::string_view metric, const Sketch& sketch,
             const std::optional<WorstHead>& worst = {}) {
    if (sketch.n() == 0) return;
    std::optional<double> mean;
    std::optional<std::int64_t> layer;
    std::optional<std::int64_t> head;
    if (worst) {
      mean = worst->mean;
      layer = worst->layer;
      head = worst->kv_head;
    }
    const std::vector<std::byte> bins = encode_bins(sketch);
    insert_
        .bind(arm_id_, sample_id_, metric, name_of(sketch.scale()), sketch.n(), sketch.min(),
              sketch.max(), std::span<const std::byte>(bins), mean, layer, head)
        .run();
  }

 private:
  std::int64_t arm_id_;
  std::int64_t sample_id_;
  Statement insert_;
};

// Which end of a metric's range is bad, for heads.
Worst worst_of(std::string_view metric) {
  for (const auto& quantity : named_quantities<ProbeMetric>()) {
    if (quantity.metric == without_sampled(metric)) return quantity.worst;
  }
  return Worst::kLargest;
}

}  // namespace

std::vector<std::byte> encode_bins(const Sketch& sketch) {
  std::vector<std::byte> bytes;
  std::int64_t before = 0;
  for (const auto& [bin, count] : sketch.bins()) {
    put_varint(zigzag(bin - before), bytes);
    put_varint(std::uint64_t(count), bytes);
    before = bin;
  }
  return bytes;
}

Sketch decode_bins(SketchScale scale, double min, double max, std::span<const std::byte> bytes) {
  std::vector<std::pair<std::int32_t, std::int64_t>> bins;
  VarintReader reader(bytes);
  std::int64_t bin = 0;
  constexpr std::int64_t kBeyond = 1 << 20;  // any sketch's bins
  while (!reader.done()) {
    bin += std::clamp(unzigzag(reader.next()), -kBeyond, kBeyond);
    bin = std::clamp(bin, -kBeyond, kBeyond);
    bins.emplace_back(std::int32_t(bin), std::int64_t(reader.next()));
  }
  try {
    return Sketch::of_bins(scale, min, max, bins);
  } catch (const std::invalid_argument&) {
    throw DataError("the database holds a sketch with bins that no sketch has; it is damaged");
  }
}

void record_sketches(Database& database, std::int64_t arm_id, std::int64_t sample_id,
                     const SampleOutcome& outcome) {
  SketchWriter writer(database, arm_id, sample_id);
  if (outcome.probes) {
    for (const NamedProbe& probe : named_probes(*outcome.probes)) {
      writer.write(probe.metric, probe.values.sketch, probe.values.worst_head);
    }
  }
  for (const BinnedMetric& binned : outcome.binned) {
    if (binned.sketch) writer.write(binned.metric, *binned.sketch);
  }
}

std::vector<MetricSketch> arm_sketches(Store& store, std::int64_t arm_id) {
  std::vector<MetricSketch> merged;
  // A file of an older schema, opened for reading, stays as it is.
  Statement table(store.database(), "SELECT 1 FROM sqlite_master WHERE name='sketch'");
  if (!table.step()) return merged;
  Statement s(store.database(),
              "SELECT d.task,d.name,m.name,k.scale,k.min,k.max,k.bins,k.worst_mean,k.worst_layer,"
              "k.worst_kv_head FROM sketch k JOIN metric m USING(metric_id) "
              "JOIN sample x ON x.sample_id=k.sample_id JOIN dataset d USING(dataset_id) "
              "WHERE k.arm_id=? ORDER BY d.dataset_id,m.metric_id,k.sample_id");
  s.bind(arm_id);
  while (s.step()) {
    const std::string task = s.text(0);
    const std::string dataset = s.text(1);
    const std::string metric = s.text(2);
    const SketchScale scale = parse_sketch_scale(s.text(3)).value_or(SketchScale::kLog);
    const bool same = !merged.empty() && merged.back().task == task &&
                      merged.back().dataset == dataset && merged.back().metric == metric;
    if (!same) merged.push_back({task, dataset, metric, Sketch(scale), {}});
    MetricSketch& into = merged.back();
    into.sketch.merge(decode_bins(into.sketch.scale(), s.real(4), s.real(5), s.blob(6)));
    if (s.is_null(7)) continue;
    const WorstHead head{s.real(7), s.integer(8), s.integer(9)};
    ProbeMetric worst;
    worst.worst_head = into.worst_head;
    worst.take_worse(head, worst_of(metric));
    into.worst_head = worst.worst_head;
  }
  return merged;
}

}  // namespace kvscope
