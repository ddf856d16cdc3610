// Scans that want the host between rows: policies in host code, probes, reading without eviction,
// quantisation by tokens. The rows of all jobs go in step; attention runs on the device, everything
// else is UnitScan's.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "runner/backend/cpu/slots.h"
#include "runner/backend/cuda/device_backend.h"
#include "runner/backend/cuda/kivi.h"
#include "runner/base/half.h"

namespace kvscope::cuda {
namespace {

// One job's rows. Buffers lie in the backend's memory: kernels read and write them.
class HostRows : public cpu::UnitScan {
 public:
  HostRows(const AttentionShape& shape, const RopeTable& rope, const ScanJob& job, Memory* memory)
      : UnitScan(shape, rope, job),
        q_(memory),
        logits_(memory),
        ghost_logits_(memory),
        views_(job.n_kv_heads),
        widened_(memory),
        reads_(job.n_kv_heads) {}

  void prepare(int r) {
    open_row(r);
    const auto n_queries = std::size_t(job().n_kv_heads) * group();
    q_.resize(n_queries * head_dim());
    logits_.resize(n_queries * n_slots());
    std::size_t ghosts = 0;
    ghost_first_.resize(job().n_kv_heads);
    for (int h = 0; h < job().n_kv_heads; ++h) {
      views_[h] = view_of(h, r);
      ghost_first_[h] = ghosts;
      if (sees_ghosts(h))
        ghosts +=
            std::size_t(group()) * (ghosts_of(h).prompt().n_slots() + ghosts_of(h).own().n_slots());
      for (int g = 0; g < group(); ++g) turn_query(h, g, r);
      reads_[h] = job().read.has_value();
      if (reads_[h]) {
        note_key(h);
        reads_[h] = !reads_all(h);
      }
    }
    ghost_logits_.resize(ghosts);
  }

  // Reads only some of KV head h's slots in this row.
  bool reads_some(int h) const { return reads_[h]; }
  // KV head h has tokens that lie outside its pages.
  bool is_widened(int h) const {
    const KiviStore* kivi = job().heads[h].kivi();
    return kivi != nullptr && std::max(kivi->n_keys(), kivi->n_values()) > 0;
  }
  float* q(int h) { return q_.data() + std::size_t(h) * group() * head_dim(); }
  float* logits(int h) { return logits_.data() + std::size_t(h) * group() * n_slots(); }
  // Some ghosts are there, and the probe asks for their logits in this row.
  bool sees_ghosts(int h) const {
    return views_[h] >= RowView::kGhosts && ghosts_of(h).n_ghosts() > 0;
  }
  // [group][slots of the ghosts' prompt], then [group][slots of their own].
  float* ghost_logits(int h) { return ghost_logits_.data() + ghost_first_[h]; }
  float* own_ghost_logits(int h) {
    return ghost_logits(h) + std::size_t(group()) * ghosts_of(h).prompt().n_slots();
  }

  // Where KV head h's slots are to be widened to: float32 pages of this object.
  std::vector<std::byte*> widened_pages(int h) {
    const std::size_t page_floats = 2 * std::size_t(head_dim()) * kPageSlots;
    const int n_pages = (n_slots() + kPageSlots - 1) / kPageSlots;
    widened_.resize(job().n_kv_heads * n_pages * page_floats);
    std::vector<std::byte*> pages;
    for (int p = 0; p < n_pages; ++p) {
      pages.push_back(reinterpret_cast<std::byte*>(widened_.data() +
                                                   (std::size_t(h) * n_pages + p) * page_floats));
    }
    return pages;
  }

  void finish(int r) {
    for (int h = 0; h < job().n_kv_heads; ++h) {
      if (views_[h] == RowView::kNothing) continue;
      if (sees_ghosts(h)) read_ghosts(h);
      show_probe(h, r, views_[h], logits(h), ghosts_);
    }
    close_row(r);
  }

 private:
  void read_ghosts(int h) {
    const GhostCache& ghosts = ghosts_of(h);
    const auto n_group = std::size_t(group());
    std::vector<cpu::QueryState> queries(n_group);
    for (std::size_t g = 0; g < n_group; ++g) queries[g].q = q(h) + g * std::size_t(head_dim());
    ghosts_.take(ghosts, queries, head_dim(),
                 {ghost_logits(h), n_group * ghosts.prompt().n_slots()},
                 {own_ghost_logits(h), n_group * ghosts.own().n_slots()});
    if (views_[h] >= RowView::kOutputs) ghosts_.weigh_values(ghosts, group(), head_dim());
  }

  void turn_query(int h, int g, int r) {
    float* to = q(h) + std::size_t(g) * head_dim();
    cpu::rotate_row(rope(), query(h, g, r), query_angle(r), 1.0F / std::sqrt(float(head_dim())),
                    to);
    const PageShape& shape = job().heads[h].pool().shape();
    if (shape.in_pairs() && job().positions != PositionMode::kCacheRelative && !is_widened(h)) {
      for (int i = 0; i < head_dim(); ++i) to[i] = from_bf16_bits(bf16_bits(to[i]));
    }
  }

  SharedVector<float> q_;                 // [n_kv_heads * group][head_dim]
  SharedVector<float> logits_;            // [n_kv_heads * group][n_slots]
  SharedVector<float> ghost_logits_;      // [n_kv_heads][prompt, own][group][slots]
  std::vector<RowView> views_;            // [n_kv_heads]
  cpu::GhostRows ghosts_;                 // of the KV head that is shown
  SharedVector<float> widened_;           // [n_kv_heads][pages][2][head_dim · kPageSlots]
  std::vector<std::size_t> ghost_first_;  // [n_kv_heads]
  std::vector<bool> reads_;               // [n_kv_heads]
};

KiviHead kivi_head(const HeadCache& head, const HeadSlots& out, Uploads::Batch& batch) {
  const KiviStore& store = *head.kivi();
  const auto views = [&](const std::vector<KiviStore::BlockView>& blocks) {
    std::vector<KiviBlock> on_device;
    for (const KiviStore::BlockView& block : blocks)
      on_device.push_back({block.codes, block.min_max});
    return batch.add(on_device);
  };
  KiviHead kivi;
  kivi.keys = views(store.key_blocks());
  kivi.values = views(store.value_blocks());
  kivi.n_keys = store.n_keys();
  kivi.n_values = store.n_values();
  kivi.bits = store.options().bits;
  kivi.group = store.options().group;
  kivi.residual_tokens = store.options().residual_tokens;
  std::vector<std::byte*> pages;
  for (const PageId page : head.pages()) pages.push_back(head.pool().keys(page));
  kivi.pages = batch.add(pages);
  kivi.first_page = head.first_page();
  kivi.n_slots = out.n_slots;
  kivi.out = out.pages;
  return kivi;
}

// Rows of attention that share a launch: of pages that lie alike.
struct AttentionBatch {
  std::vector<AttendRow> rows;
  int most_slots = 0;
  void add(const AttendRow& row) {
    rows.push_back(row);
    most_slots = std::max(most_slots, row.slots.n_slots);
  }
};

// Queries that read some slots only, one a query head.
struct SelectedBatch {
  std::vector<HeadSlots> heads;
  std::vector<std::int32_t> head_of_query;
  std::vector<SlotRange> ranges;
  std::vector<std::int32_t> first_range{0};
  std::vector<float*> out;
  std::vector<float> q;  // [n_queries][head_dim]

  void add(HostRows& rows, int h, int r, const HeadSlots& slots) {
    const auto d = std::size_t(rows.head_dim());
    const std::span<const float> of_group(rows.q(h), rows.group() * d);
    heads.push_back(slots);
    for (int g = 0; g < rows.group(); ++g) {
      for (const KeyRange& range : rows.chosen_slots(h, g, of_group))
        ranges.push_back({range.begin, range.end});
      first_range.push_back(std::int32_t(ranges.size()));
      head_of_query.push_back(std::int32_t(heads.size()) - 1);
      out.push_back(rows.out(h, g, r));
    }
    q.insert(q.end(), of_group.begin(), of_group.end());
  }
};

}  // namespace

void DeviceBackend::scan_by_host(const AttentionShape& shape, const RopeTable& rope,
                                 std::span<const ScanJob* const> jobs) {
  sync();  // the host reads projections and writes pages
  std::vector<std::unique_ptr<HostRows>> scans;
  int n_rows = 0;
  for (const ScanJob* job : jobs) {
    scans.push_back(std::make_unique<HostRows>(shape, rope, *job, &memory_));
    n_rows = std::max(n_rows, job->n_rows);
  }
  const RopeRows angles = rope_rows(rope);
  for (int r = 0; r < n_rows; ++r) {
    using ByFormat = std::map<SlotFormat, AttentionBatch>;
    ByFormat attention;
    using GhostLayout = std::pair<SlotFormat, bool>;  // has values
    std::map<GhostLayout, AttentionBatch> ghosts;
    std::map<SlotFormat, SelectedBatch> selected;
    std::map<SlotFormat, std::vector<KiviHead>> kivi;
    std::map<SlotFormat, PageLayout> layouts;
    std::map<GhostLayout, PageLayout> ghost_layouts;
    Uploads::Batch batch(uploads_);
    for (const auto& rows : scans) {
      const ScanJob& job = rows->job();
      if (r >= job.n_rows) continue;
      rows->prepare(r);
      for (int h = 0; h < job.n_kv_heads; ++h) {
        const HeadCache& head = job.heads[h];
        HeadSlots slots;
        slots.n_slots = rows->n_slots();
        PageLayout layout = layout_of(head.pool().shape());
        if (rows->is_widened(h)) {
          slots.pages = batch.add(rows->widened_pages(h));
          kivi[layout.format].push_back(kivi_head(head, slots, batch));
          layouts[layout.format] = layout;
          layout = layout_of({shape.head_dim, DType::kF32, true});
        } else {
          slots.pages = pages_of(head, slots.n_slots, batch);
        }
        if (job.positions == PositionMode::kCacheRelative) slots.rank = head.rank.data();
        layouts[layout.format] = layout;
        if (rows->reads_some(h)) {
          selected[layout.format].add(*rows, h, r, slots);
          continue;
        }
        AttendRow row;
        row.slots = slots;
        row.q = rows->q(h);
        row.out = rows->out(h, 0, r);
        row.logits = rows->logits(h);
        if (rows->observes()) row.weights = rows->probabilities_of(h, 0);
        attention[layout.format].add(row);
        if (!rows->sees_ghosts(h)) continue;
        const auto add_ghosts = [&](const HeadCache& gone, float* logits) {
          if (gone.n_slots() == 0) return;
          const PageLayout ghost_layout = layout_of(gone.pool().shape());
          AttendRow ghost_row;
          ghost_row.slots = {pages_of(gone, gone.n_slots(), batch), nullptr, gone.n_slots()};
          ghost_row.q = rows->q(h);
          ghost_row.logits = logits;
          // Pages with and without values lie apart in different ways.
          const GhostLayout key{ghost_layout.format, gone.pool().shape().has_values};
          ghost_layouts[key] = ghost_layout;
          ghosts[key].add(ghost_row);
        };
        add_ghosts(rows->ghosts_of(h).prompt(), rows->ghost_logits(h));
        add_ghosts(rows->ghosts_of(h).own(), rows->own_ghost_logits(h));
      }
    }
    for (const auto& [format, heads] : kivi) {
      const KiviHead* on_device = batch.add(heads);
      batch.send();
      kivi_widen(on_device, int(heads.size()), layouts[format], stream());
    }
    for (const auto& [format, group] : attention) {
      const AttendRow* on_device = batch.add(group.rows);
      batch.send();
      auto* partials = partials_.get<float>(decode_partial_floats(
          int(group.rows.size()), shape.group(), shape.head_dim, group.most_slots));
      attend_rows(on_device, int(group.rows.size()), shape.group(), group.most_slots,
                  layouts[format], angles, partials, stream());
    }
    for (const auto& [format, group] : ghosts) {
      const AttendRow* on_device = batch.add(group.rows);
      batch.send();
      row_logits(on_device, int(group.rows.size()), shape.group(), group.most_slots,
                 ghost_layouts[format], angles, stream());
    }
    for (const auto& [format, group] : selected) {
      SelectedRows rows;
      rows.heads = batch.add(group.heads);
      rows.head_of_query = batch.add(group.head_of_query);
      rows.q = batch.add(group.q);
      rows.ranges = batch.add(group.ranges);
      rows.first_range = batch.add(group.first_range);
      rows.out = batch.add(group.out);
      rows.n_queries = int(group.out.size());
      batch.send();
      attend_selected(rows, layouts[format], stream());
    }
    launched();
    sync();
    for (const auto& rows : scans) {
      if (r < rows->job().n_rows) rows->finish(r);
    }
  }
}

}  // namespace kvscope::cuda
