#include "harness/plan/lint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "datasets/chat/chat_template.h"
#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {
namespace {

std::string of(std::size_t n, std::size_t all) {
  return std::to_string(n) + " of " + std::to_string(all);
}

// Everything that a table may be grouped by.
std::string cell_of(const Sample& sample) {
  std::string cell;
  for (const char* tag : {"length", "turn", "depth_percent"}) {
    const auto it = sample.tags.find(tag);
    if (it != sample.tags.end()) cell += std::string(tag) + "=" + it->second + " ";
  }
  return cell;
}

std::size_t cells_with_one_sample(const Dataset& dataset, std::size_t& n_cells) {
  std::map<std::string, int> cells;
  for (const Sample& sample : dataset.samples) ++cells[cell_of(sample)];
  n_cells = cells.size();
  return static_cast<std::size_t>(
      std::ranges::count_if(cells, [](const auto& cell) { return cell.second == 1; }));
}

// Samples whose prompt holds none of their golds.
std::size_t without_answer(const Dataset& dataset, const Tokenizer& tokenizer) {
  std::size_t n = 0;
  for (const Sample& sample : dataset.samples) {
    const std::string prompt = tokenizer.decode(sample.prompt_ids);
    n += std::ranges::none_of(sample.golds, [&](const std::string& gold) {
      return prompt.find(gold) != std::string::npos;
    });
  }
  return n;
}

bool first_gold_token_is_free(const Dataset& dataset) {
  std::set<std::int32_t> firsts;
  for (const Sample& sample : dataset.samples) {
    if (sample.gold_ids.empty()) return false;
    firsts.insert(sample.gold_ids.front());
  }
  return dataset.samples.size() > 1 && firsts.size() == 1;
}

}  // namespace

std::vector<std::string> lint_dataset(const Dataset& dataset, const Tokenizer& tokenizer,
                                      int context_length) {
  std::vector<std::string> found;
  const auto warn = [&](std::string text) { found.push_back(dataset.name + ": " + text); };
  const std::size_t n = dataset.samples.size();
  const std::string notice = chat_for(tokenizer).notice();
  if (n > 0 && !notice.empty()) warn(notice);
  std::size_t n_cells = 0;
  if (const std::size_t alone = cells_with_one_sample(dataset, n_cells); alone > 0) {
    warn(of(alone, n_cells) + " cells have one sample: no error is known there");
  }
  if (const std::size_t missing = without_answer(dataset, tokenizer); missing > 0 && missing < n) {
    warn(
        of(missing, n) +
        " prompts hold none of their answers: were they cut off, or is the answer in other words?");
  }
  if (first_gold_token_is_free(dataset)) {
    warn(
        "the answers' first token is the same in every sample: it is free, and gold_nll_nats "
        "counts it");
  }
  const auto count = [&](const auto& is) {
    return static_cast<std::size_t>(std::ranges::count_if(dataset.samples, is));
  };
  if (const std::size_t cut =
          count([](const Sample& s) { return std::cmp_less(s.max_new_tokens, s.gold_ids.size()); });
      cut > 0) {
    warn(of(cut, n) + " answers are longer than max_new_tokens");
  }
  if (const std::size_t beyond = count([&](const Sample& s) {
        return context_length > 0 &&
               std::cmp_greater(s.prompt_ids.size() + s.prefix_ids.size() +
                                    static_cast<std::size_t>(s.max_new_tokens),
                                context_length);
      });
      beyond > 0) {
    warn(of(beyond, n) + " prompts with their answers exceed the model's context of " +
         std::to_string(context_length) + " tokens");
  }
  std::set<std::string> inputs;
  for (const Sample& sample : dataset.samples) inputs.insert(sample.input_sha256);
  if (inputs.size() < n) warn(of(n - inputs.size(), n) + " samples repeat another one's input");
  return found;
}

std::vector<std::string> lint_database(Store& store, const Tokenizer& tokenizer) {
  std::vector<std::string> found;
  Statement names(store.database(),
                  "SELECT task,name,count(*),group_concat(version,' | ') FROM dataset "
                  "GROUP BY task,name HAVING count(*)>1 ORDER BY task,name");
  while (names.step()) {
    found.push_back(names.text(1) + ": " + names.text(2) +
                    " different data sets have this name, and arms are only paired within one: " +
                    names.text(3));
  }
  const auto stop = chat_for(tokenizer).turn_end();
  if (!stop) return found;
  struct Ends {
    std::size_t cut_off = 0;
    std::size_t n = 0;
    double share() const { return n == 0 ? 0.0 : static_cast<double>(cut_off) / double(n); }
  };
  std::map<std::pair<std::string, std::string>, std::map<std::string, Ends>> by_set;  // arm → ends
  Statement answers(store.database(),
                    "SELECT a.sweep_uuid,d.name,v.label,o.token_ids FROM "
                    "sample_output o JOIN arm a USING(arm_id) JOIN v_arm v USING(arm_id) JOIN "
                    "sample x USING(sample_id) JOIN dataset d USING(dataset_id)");
  while (answers.step()) {
    Ends& ends = by_set[{answers.text(0), answers.text(1)}][answers.text(2)];
    const auto bytes = answers.blob(3);
    std::int32_t last = -1;
    if (bytes.size() >= sizeof last) {
      std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
    }
    ++ends.n;
    ends.cut_off += last != *stop;
  }
  constexpr double kMuch = 0.5;
  for (const auto& [set, arms] : by_set) {
    const auto full =
        std::ranges::find_if(arms, [](const auto& arm) { return arm.first.starts_with("full@"); });
    if (full == arms.end()) continue;
    for (const auto& [arm, ends] : arms) {
      if (std::abs(ends.share() - full->second.share()) < kMuch) continue;
      found.push_back(set.second + ": " + of(ends.cut_off, ends.n) + " answers of " + arm +
                      " reached max_new_tokens, " + of(full->second.cut_off, full->second.n) +
                      " of the full cache's: they were not stopped alike");
    }
  }
  return found;
}

std::vector<std::string> lint_identity(const TaskRun& run, const Task& task) {
  std::vector<SampleWork> work;
  std::vector<std::size_t> all(run.arms.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t s = 0; s < task.dataset().samples.size(); ++s) work.push_back({s, all});
  std::vector<std::string> found;
  const auto outcomes = task.run(run, work);
  if (!outcomes) return found;
  for (std::size_t a = 0; a < run.arms.size(); ++a) {
    const ArmPlan& arm = run.arms[a];
    if (arm.policy.is_full()) continue;  // itself, or another storage
    std::size_t differ = 0;
    std::string reason;
    for (const auto& row : *outcomes) {
      const SampleOutcome& outcome = row[a];
      if (outcome.status != OutcomeStatus::kOk) {
        reason = outcome.error;
        continue;
      }
      const bool same = outcome.output_ids == row.front().output_ids &&
                        outcome.metric("kl_full_nats").value_or(0.0) == 0.0;
      differ += !same;
    }
    if (!reason.empty()) found.push_back(arm.label() + ": not checked: " + reason);
    if (differ > 0) {
      found.push_back(arm.label() + ": differs from the full cache on " +
                      of(differ, outcomes->size()) + " prompts that its budget holds whole");
    }
  }
  return found;
}

}  // namespace kvscope
