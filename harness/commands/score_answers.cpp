#include "harness/commands/score_answers.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>

#include "datasets/records/fields.h"
#include "datasets/records/record_file.h"
#include "harness/report/json.h"
#include "harness/report/table.h"
#include "metrics/quality/chinese_words.h"
#include "metrics/quality/scorers.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

struct ScoreAnswersOptions {
  std::string file;
  std::string metric;
  std::string jieba;
  bool json = false;
};

// What the benchmarks' programs call an answer and what is right, the likelier name first.
constexpr const char* kAnswerNames[] = {
    "pred", "response", "prediction", "predicted_answer", "model_response", "filtered_resps"};
constexpr const char* kGoldNames[] = {"ref",          "refs",   "answers", "outputs", "answer",
                                      "ground_truth", "target", "gold",    "needle"};

struct Row {
  int line = 0;
  std::string metric;
  std::optional<double> score;
  std::string reason;  // if there is no score
};

template <std::size_t N>
const nlohmann::json& first_of(const nlohmann::json& record, const char* const (&names)[N],
                               const char* what) {
  for (const char* name : names) {
    if (has(record, name)) return record[name];
  }
  throw DataError(std::string("no ") + what + " (\"" + names[0] + "\")");
}

class Scorer {
 public:
  explicit Scorer(const ScoreAnswersOptions& options) : options_(options) {}

  Row score(const Record& record) {
    Row row{record.line, options_.metric, {}, {}};
    if (row.metric.empty() && has(record.value, "metric")) {
      row.metric = need_text(record.value, "metric");
    }
    if (row.metric.empty()) {
      throw UsageError(options_.file + ", line " + std::to_string(record.line) +
                       ": the row names no \"metric\": give one with --metric");
    }
    const ScorerInfo& info = scorer_named(row.metric);
    if (info.needs_words && words() == nullptr) {
      row.reason = "needs jieba's dictionary: install python3-jieba or name its folder by --jieba";
      return row;
    }
    try {
      row.score = value(info, record.value, row.metric);
    } catch (const DataError& error) {
      row.reason = error.what();
    }
    return row;
  }

 private:
  double value(const ScorerInfo& info, const nlohmann::json& record, std::string_view name) {
    const nlohmann::json& written = first_of(record, kAnswerNames, "answer");
    const bool is_list = written.is_array() && !written.empty();  // lm-eval's, one a filter
    const std::string answer = scalar_text(is_list ? written.front() : written, "pred");
    const auto golds = answers_of(first_of(record, kGoldNames, "right answer"), "ref");
    std::vector<std::string> classes;
    if (has(record, "all_classes")) classes = need_texts(record, "all_classes");
    const std::string question = text_or(record, "question", {});
    const double score = info.score({answer, golds, classes, question, words_.get()});
    // Under a benchmark's name as the benchmark prints it.
    return name == info.name ? score : upstream_value(info, score);
  }

  const ChineseWords* words() {
    if (!looked_) {
      looked_ = true;
      const auto folder = options_.jieba.empty()
                              ? ChineseWords::installed_folder()
                              : std::optional<std::filesystem::path>(options_.jieba);
      if (folder) words_ = std::make_unique<ChineseWords>(*folder);
    }
    return words_.get();
  }

  const ScoreAnswersOptions& options_;
  std::unique_ptr<ChineseWords> words_;
  bool looked_ = false;
};

struct Mean {
  std::size_t n = 0;
  std::size_t without = 0;
  double sum = 0;
  double mean() const { return sum / static_cast<double>(n); }  // NaN for none
};

ExitCode run_score_answers(const ScoreAnswersOptions& options) {
  if (!options.metric.empty()) scorer_named(options.metric);
  const RecordFile file = read_record_file(options.file);
  Scorer scorer(options);
  std::vector<Row> rows;
  for (const SkippedRecord& bad : file.bad) rows.push_back({bad.line, {}, {}, bad.reason});
  for (const Record& record : file.records) rows.push_back(scorer.score(record));
  std::ranges::stable_sort(rows, {}, &Row::line);

  std::map<std::string, Mean> means;
  Json json_rows = Json::array();
  Table skipped({"line", "metric", "not scored"});
  skipped.align(0, Table::Align::kRight)
      .align(1, Table::Align::kLeft)
      .align(2, Table::Align::kLeft);
  for (const Row& row : rows) {
    Mean& mean = means[row.metric];
    if (row.score) {
      ++mean.n;
      mean.sum += *row.score;
    } else {
      ++mean.without;
      skipped.add_row({std::to_string(row.line), row.metric, row.reason});
    }
    json_rows.push_back({{"line", row.line},
                         {"metric", row.metric},
                         {"score", row.score ? json_number(*row.score) : Json()}});
    if (!row.score) json_rows.back()["reason"] = row.reason;
  }
  Json json_means = Json::array();
  Table table({"metric", "n", "mean", "not scored"});
  for (const auto& [metric, mean] : means) {
    json_means.push_back({{"metric", metric},
                          {"n", mean.n},
                          {"mean", json_number(mean.mean())},
                          {"not_scored", mean.without}});
    table.add_row({metric.empty() ? "-" : metric, std::to_string(mean.n),
                   format_fixed(mean.mean(), 4), std::to_string(mean.without)});
  }
  if (options.json) {
    print_json_line(std::cout, {{"metrics", json_means}, {"rows", json_rows}});
  } else {
    std::cout << table.text();
    if (!skipped.empty()) std::cout << '\n' << skipped.text();
  }
  return ExitCode::kOk;
}

}  // namespace

void add_score_answers_command(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ScoreAnswersOptions>();
  CLI::App* command = app.add_subcommand(
      "score-answers", "Scores answers of any program by the scorers of published benchmarks");
  command
      ->add_option(
          "FILE", options->file,
          "Rows {\"pred\": …, \"ref\": … or a list, \"metric\"?, \"all_classes\"?, "
          "\"question\"?}, or the files that LongBench, RULER, InfiniteBench and kvpress write")
      ->required();
  command->add_option(
      "--metric", options->metric,
      "Scorer of all rows, by a name that `kvscope list scorers` prints; default: what "
      "each row says");
  command->add_option("--jieba", options->jieba,
                      "Folder of jieba's dict.txt, for scores over Chinese words (default: "
                      "$KVSCOPE_JIEBA, then python3-jieba's)");
  command->add_flag("--json", options->json, "One JSON object: means, and the score of every row");
  command->footer(
      "Examples:\n"
      "  kvscope score-answers pred/model/qasper.jsonl --metric longbench.qa_f1\n"
      "  kvscope score-answers answers.jsonl --json");
  set_action(*command, context, [options] { return run_score_answers(*options); });
}

}  // namespace kvscope
