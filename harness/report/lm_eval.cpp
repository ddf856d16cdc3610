#include "harness/report/lm_eval.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>

#include "harness/report/json.h"
#include "harness/store/database.h"
#include "harness/store/statement.h"
#include "runner/base/error.h"
#include "runner/base/sha256.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

// What of an arm stands once in its results.
struct ArmFacts {
  int context_length = 0;
  double started_unix = 0;
  double seconds = 0;
  std::string git_sha;
};

ArmFacts facts_of(Store& store, const ArmRow& arm) {
  ArmFacts facts;
  Statement s(
      store.database(),
      "SELECT m.context_length,max(r.started_unix),max(r.git_sha),"
      "(SELECT coalesce(sum(duration_seconds),0) FROM sample_result x WHERE x.arm_id=a.arm_id) "
      "FROM arm a JOIN model m USING(model_id) JOIN run r ON r.sweep_uuid=a.sweep_uuid "
      "WHERE a.arm_id=?");
  s.bind(arm.arm_id);
  if (s.step() && !s.is_null(0)) facts = {s.integer(0), s.real(1), s.real(3), s.text(2)};
  return facts;
}

struct DatasetFacts {
  std::string name;
  std::string version;
  std::string task;
  int original = 0;
};

std::vector<DatasetFacts> datasets_of(Store& store, const ArmRow& arm) {
  Statement s(
      store.database(),
      "SELECT name,version,task,n_samples FROM sweep_dataset JOIN dataset USING(dataset_id) "
      "WHERE sweep_uuid=? ORDER BY dataset_id");
  s.bind(arm.sweep_uuid);
  std::vector<DatasetFacts> rows;
  while (s.step()) rows.push_back({s.text(0), s.text(1), s.text(2), s.integer(3)});
  return rows;
}

// Names of folders and files are made of letters, digits, "." and "-".
std::string sanitised(std::string text) {
  for (char& c : text) {
    const bool kept = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
                      c == '.' || c == '-' || c == '_';
    if (!kept) c = '_';
  }
  return text;
}

void write_file(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.flush();
  if (!out) throw IoError("cannot write " + file.string());
}

// {"input_sha256", "tags"} by sample key.
std::map<std::string, std::pair<std::string, std::string>> sample_facts(
    Store& store, const ArmRow& arm, const std::string& dataset) {
  Statement s(store.database(),
              "SELECT x.sample_key,x.input_sha256,x.tags FROM sample_result r JOIN sample x "
              "USING(sample_id) JOIN dataset d USING(dataset_id) WHERE r.arm_id=? AND d.name=?");
  s.bind(arm.arm_id, dataset);
  std::map<std::string, std::pair<std::string, std::string>> facts;
  while (s.step()) facts[s.text(0)] = {s.text(1), s.text(2)};
  return facts;
}

std::string samples_text(Store& store, const ArmRow& arm, const std::string& dataset,
                         const std::vector<ResultRow>& results, int& n_ok) {
  const auto facts = sample_facts(store, arm, dataset);
  std::string text;
  int doc_id = 0;
  for (const ResultRow& result : results) {
    if (result.dataset != dataset) continue;
    const int id = doc_id++;
    if (result.status != "ok") continue;
    ++n_ok;
    const auto found = facts.find(result.sample_key);
    const std::string prompt_hash = found == facts.end() ? "" : found->second.first;
    const Json tags =
        found == facts.end() ? Json::object() : Json::parse(found->second.second, nullptr, false);
    Json names = Json::array();
    Json row = {
        {"doc_id", id},
        {"doc",
         {{"sample_key", result.sample_key}, {"cluster", result.cluster_key}, {"tags", tags}}},
        {"target", result.gold_text},
        {"arguments",
         {{"gen_args_0",
           {{"arg_0", nullptr},
            {"arg_1", {{"do_sample", false}, {"temperature", 0.0}, {"until", Json::array()}}}}}}},
        {"resps", Json::array({Json::array({result.output_text})})},
        {"filtered_resps", Json::array({result.output_text})},
        {"filter", "none"},
        {"metrics", nullptr},
        {"doc_hash", sha256_hex(std::string_view(result.sample_key))},
        {"prompt_hash", prompt_hash},
        {"target_hash", sha256_hex(std::string_view(result.gold_text))}};
    for (const auto& [name, value] : result.metrics) {
      names.push_back(name);
      row[name] = json_number(value);
    }
    row["metrics"] = names;
    text += row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace

std::string lm_eval_time(double unix_seconds) {
  const auto whole = static_cast<std::time_t>(std::floor(unix_seconds));
  const auto micros = static_cast<int>((unix_seconds - std::floor(unix_seconds)) * 1e6);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[64];
  const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%dT%H-%M-%S", &parts);
  std::snprintf(text + length, sizeof text - length, ".%06d", micros);
  return text;
}

std::vector<fs::path> write_lm_eval(Store& store, const ArmRow& arm, const fs::path& folder) {
  const ArmFacts facts = facts_of(store, arm);
  const std::string name = arm.model + "__" + arm.label;
  const std::string time = lm_eval_time(facts.started_unix);
  const fs::path place = folder / sanitised(name);
  std::error_code error;
  fs::create_directories(place, error);
  if (error) throw IoError("cannot make " + place.string() + ": " + error.message());

  const auto metrics = arm_metrics(store, arm.arm_id);
  const auto results = arm_results(store, arm.arm_id);
  std::vector<fs::path> files = {place / ("results_" + time + ".json")};
  Json tasks = Json::object();
  Json versions = Json::object();
  Json shots = Json::object();
  Json better = Json::object();
  Json counts = Json::object();
  Json configs = Json::object();
  for (const DatasetFacts& dataset : datasets_of(store, arm)) {
    Json figures = {{"alias", dataset.name}};
    Json directions = Json::object();
    for (const ArmMetricRow& metric : metrics) {
      if (metric.dataset != dataset.name) continue;
      figures[metric.metric + ",none"] = json_number(metric.mean);
      figures[metric.metric + "_stderr,none"] =
          metric.stderr_mean ? json_number(*metric.stderr_mean) : Json("N/A");
      directions[metric.metric] = metric.better == "higher";
    }
    int n_ok = 0;
    const std::string samples = samples_text(store, arm, dataset.name, results, n_ok);
    files.push_back(place / ("samples_" + sanitised(dataset.name) + "_" + time + ".jsonl"));
    write_file(files.back(), samples);
    tasks[dataset.name] = figures;
    versions[dataset.name] = dataset.version;
    shots[dataset.name] = 0;
    better[dataset.name] = directions;
    counts[dataset.name] = {{"original", dataset.original}, {"effective", n_ok}};
    configs[dataset.name] = {{"task", dataset.task}};
  }
  const Json out = {{"results", tasks},
                    {"group_subtasks", Json::object()},
                    {"configs", configs},
                    {"versions", versions},
                    {"n-shot", shots},
                    {"higher_is_better", better},
                    {"n-samples", counts},
                    {"config",
                     {{"model", "kvscope"},
                      {"model_args", "pretrained=" + arm.model + ",policy=" + arm.policy +
                                         ",budget=" + arm.budget + ",prefill=" + arm.prefill_mode +
                                         ",positions=" + arm.position_mode + ",question=" +
                                         arm.question_visibility + ",dtype=" + arm.dtype},
                      {"batch_size", 1},
                      {"device", arm.backend},
                      {"limit", nullptr}}},
                    {"git_hash", facts.git_sha.empty() ? Json() : Json(facts.git_sha)},
                    {"date", json_number(facts.started_unix)},
                    {"max_length", facts.context_length},
                    {"model_source", "kvscope"},
                    {"model_name", name},
                    {"model_name_sanitized", sanitised(name)},
                    {"total_evaluation_time_seconds", std::to_string(facts.seconds)}};
  write_file(files.front(), out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return files;
}

}  // namespace kvscope
