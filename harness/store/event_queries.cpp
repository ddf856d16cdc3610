#include "harness/store/event_queries.h"

#include <algorithm>
#include <string_view>

#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {
namespace {

bool has_events(Store& store) { return store.database().pragma("user_version") >= 4; }

// The limit stands inside, so that only what is returned is joined.
std::vector<EventRow> events_where(Store& store, std::string_view condition, std::int64_t arm_id,
                                   const std::optional<std::string>& sample_key, int most) {
  std::vector<EventRow> rows;
  if (!has_events(store)) return rows;
  Statement s(store.database(),
              "SELECT arm_id,label,sample_key,layer,kv_head,position,token,evicted_at,rebound_at,"
              "step,mass,mass_rank,wrongful,kl_full_nats,answered FROM v_rebound_event WHERE "
              "(arm_id,sample_id,nth) IN (SELECT arm_id,sample_id,nth FROM rebound_event WHERE "
              "arm_id=?1 " +
                  std::string(condition) + " ORDER BY mass DESC LIMIT ?3) ORDER BY mass DESC,nth");
  s.bind(arm_id, sample_key, most);
  while (s.step()) {
    EventRow row{s.int64(0), s.text(1), s.text(2), {}, {}};
    row.record.event = {s.integer(3),      s.integer(4),  s.integer(5),
                        s.integer(7),      s.integer(8),  s.integer(9),
                        float(s.real(10)), s.integer(11), s.integer(12) != 0};
    row.record.token = s.text(6);
    if (!s.is_null(13)) row.record.kl_full_nats = s.real(13);
    if (!s.is_null(14)) row.answered = s.integer(14) != 0;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<EventRow> heaviest_events_of_arm(Store& store, std::int64_t arm_id, int most) {
  return events_where(store, "", arm_id, std::nullopt, most);
}

std::vector<EventRow> heaviest_events_of_sample(Store& store, std::int64_t arm_id,
                                                const std::string& sample_key, int most) {
  return events_where(store, "AND sample_id IN (SELECT sample_id FROM sample WHERE sample_key=?2)",
                      arm_id, sample_key, most);
}

std::vector<EventRow> heaviest_events(Store& store, int most) {
  std::vector<EventRow> all;
  Statement arms(store.database(), "SELECT arm_id FROM arm ORDER BY arm_id");
  while (arms.step()) {
    const auto some = heaviest_events_of_arm(store, arms.int64(0), most);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::stable_sort(all, [](const EventRow& a, const EventRow& b) {
    return a.record.event.mass > b.record.event.mass;
  });
  if (std::ssize(all) > most) all.resize(std::size_t(most));
  return all;
}

std::vector<SurvivalByVerdict> survival_by_verdict(Store& store, std::int64_t arm_id) {
  constexpr std::string_view kVerdicts =
      "WITH verdict AS (SELECT v.sample_id, d.task, d.name AS dataset, d.dataset_id, "
      "v.value>0.5 AS is_right FROM sample_metric v JOIN metric m USING(metric_id) "
      "JOIN sample s USING(sample_id) JOIN dataset d USING(dataset_id) "
      "WHERE v.arm_id=?1 AND m.name IN ('recall','exact_match')) ";
  std::vector<SurvivalByVerdict> sets;
  Statement means(store.database(),
                  std::string(kVerdicts) +
                      "SELECT task,dataset,is_right,count(*),avg(v.value) FROM verdict "
                      "JOIN sample_metric v ON v.arm_id=?1 AND v.sample_id=verdict.sample_id "
                      "JOIN metric m USING(metric_id) WHERE m.name='evidence_survival' "
                      "GROUP BY dataset_id,is_right ORDER BY dataset_id,is_right");
  means.bind(arm_id);
  while (means.step()) {
    if (sets.empty() || sets.back().dataset != means.text(1)) {
      sets.emplace_back();
      sets.back().task = means.text(0);
      sets.back().dataset = means.text(1);
    }
    const bool right = means.integer(2) != 0;
    (right ? sets.back().n_right : sets.back().n_wrong) = means.integer(3);
    (right ? sets.back().right : sets.back().wrong) = means.real(4);
  }
  Statement layers(store.database(),
                   std::string(kVerdicts) +
                       "SELECT dataset,is_right,layer,avg(mean) FROM verdict JOIN layer_stat l ON "
                       "l.arm_id=?1 AND l.sample_id=verdict.sample_id JOIN metric m "
                       "USING(metric_id) WHERE m.name='evidence_survival' "
                       "GROUP BY dataset_id,is_right,layer ORDER BY dataset_id,is_right,layer");
  layers.bind(arm_id);
  while (layers.step()) {
    const auto set = std::ranges::find(sets, layers.text(0), &SurvivalByVerdict::dataset);
    if (set == sets.end()) continue;
    (layers.integer(1) != 0 ? set->right_by_layer : set->wrong_by_layer).push_back(layers.real(3));
  }
  return sets;
}

}  // namespace kvscope
