#include "datasets/questions/load_questions.h"

#include <algorithm>
#include <set>
#include <vector>

#include "datasets/base/token_range.h"
#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "datasets/json/json_file.h"
#include "datasets/questions/format.h"
#include "datasets/questions/prompt.h"
#include "datasets/text/text_file.h"
#include "runner/base/error.h"
#include "runner/base/sha256.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_impossible(const Question& question) {
  const auto tag = question.tags.find("impossible");
  return tag != question.tags.end() && tag->second == "true";
}

// The document, or the first one that is equal to it.
std::vector<std::string> document_clusters(const QuestionSet& set) {
  std::map<std::string, std::size_t> first;
  std::vector<std::string> clusters;
  for (std::size_t d = 0; d < set.documents.size(); ++d) {
    const auto entry = first.try_emplace(sha256_hex(std::string_view(set.documents[d])), d).first;
    clusters.push_back("document=" + std::to_string(entry->second));
  }
  return clusters;
}

std::vector<const Question*> choose(const std::vector<const Question*>& questions,
                                    std::size_t most) {
  std::map<std::string, std::vector<const Question*>> members;
  std::vector<const std::vector<const Question*>*> clusters;
  for (const Question* question : questions) {
    const auto [entry, is_new] = members.try_emplace(question->cluster);
    if (is_new) clusters.push_back(&entry->second);
    entry->second.push_back(question);
  }
  std::vector<const Question*> chosen;
  for (std::size_t round = 0; chosen.size() < questions.size(); ++round) {
    for (const auto* cluster : clusters) {
      if (most > 0 && chosen.size() == most) break;
      if (round < cluster->size()) chosen.push_back((*cluster)[round]);
    }
    if (most > 0 && chosen.size() == most) break;
  }
  std::ranges::stable_sort(chosen, {}, &Question::document);
  return chosen;
}

// What the user's files say of a task, or of all.
template <typename Value>
const Value* said(const std::map<std::string, Value>& by_task, const std::string& task) {
  auto found = by_task.find(task);
  if (found == by_task.end()) found = by_task.find("");
  return found == by_task.end() ? nullptr : &found->second;
}

class SampleMaker {
 public:
  SampleMaker(const QuestionSet& set, const QuestionOptions& options, const Tokenizer& tokenizer)
      : set_(set),
        options_(options),
        tokenizer_(tokenizer),
        chat_(chat_for(tokenizer)),
        plain_(plain_chat(tokenizer)) {}

  Sample make(const Question& question) {
    const PromptPolicy& policy = *question.policy;
    const std::string* own = said(options_.prompts.texts, question.task);
    Prompt prompt = compose_prompt(own != nullptr ? std::string_view(*own) : policy.text, question,
                                   set_.documents.at(question.document));
    truncate_prompt(prompt, std::size_t(options_.max_prompt_tokens),
                    options_.truncation.value_or(policy.truncation), question.truncation_mark,
                    tokenizer_);
    n_cut_ += prompt.cut;
    n_evidence_cut_ += prompt.evidence_cut;

    ChatQuestion asked;
    asked.text = std::move(prompt.text);
    asked.question_begin = prompt.question_begin;
    // A user's text says itself how the answer begins.
    if (own == nullptr) {
      asked.answer_prefix = question.answer_prefix.empty() ? std::string(policy.answer_prefix)
                                                           : question.answer_prefix;
    }
    asked.golds = question.golds;
    if (prompt.evidence.size() == 1) {
      asked.evidence_begin = prompt.evidence.front().begin;
      asked.evidence_end = prompt.evidence.front().end;
    }
    Sample sample = make_chat_sample(asked, policy.chat ? chat_ : plain_, tokenizer_);
    sample.cluster_key = question.cluster;
    sample.answer_cut = policy.cut;
    sample.max_new_tokens = policy.max_new_tokens;
    if (question.max_new_tokens > 0) sample.max_new_tokens = question.max_new_tokens;
    if (const int* tokens = said(options_.prompts.max_new_tokens, question.task)) {
      sample.max_new_tokens = *tokens;
    }
    sample.scorer = policy.scorer;
    sample.classes = question.classes;
    sample.question = question.input;
    sample.tags = question.tags;
    if (!question.task.empty()) sample.tags["task"] = question.task;
    if (prompt.cut) sample.tags["cut"] = prompt.evidence_cut ? "evidence" : "true";
    if (prompt.evidence.size() > 1) sample.tags["evidence"] = evidence_text(sample, asked, prompt);
    sample.key = unique_key(question);
    return sample;
  }

  std::vector<std::string> notes(std::size_t n_samples) const {
    std::vector<std::string> notes;
    if (!chat_.notice().empty()) notes.push_back(chat_.notice());
    if (n_cut_ > 0) {
      std::string text = std::to_string(n_cut_) + " of " + std::to_string(n_samples) +
                         " prompts were cut to " + std::to_string(options_.max_prompt_tokens) +
                         " tokens";
      if (n_evidence_cut_ > 0) {
        text += "; " + std::to_string(n_evidence_cut_) +
                " of them lost the passage that holds the answer";
      }
      notes.push_back(std::move(text));
    }
    return notes;
  }

  std::string_view template_name() const { return chat_.name(); }

 private:
  // Token ranges of several passages: "12-20,45-60", the ends not included.
  std::string evidence_text(const Sample& sample, const ChatQuestion& asked,
                            const Prompt& prompt) const {
    std::string text;
    for (const TextSpan& span : prompt.evidence) {
      const auto [begin, end] =
          token_range(tokenizer_, sample.prompt_ids, asked.text, span.begin, span.end);
      if (begin < 0) continue;
      text += (text.empty() ? "" : ",") + std::to_string(begin) + "-" + std::to_string(end);
    }
    return text;
  }

  std::string unique_key(const Question& question) {
    const std::string key = question.id.empty()
                                ? "document=" + std::to_string(question.document) + ":" +
                                      std::to_string(in_document_[question.document]++)
                                : question.id;
    std::string unique = key;
    // Joined files repeat ids; a key must be one sample's alone.
    for (int copy = 2; !keys_.insert(unique).second; ++copy) {
      unique = key + "#" + std::to_string(copy);
    }
    return unique;
  }

  const QuestionSet& set_;
  const QuestionOptions& options_;
  const Tokenizer& tokenizer_;
  ChatTemplate chat_;
  ChatTemplate plain_;
  std::set<std::string> keys_;
  std::map<std::size_t, int> in_document_;
  int n_cut_ = 0;
  int n_evidence_cut_ = 0;
};

// A record that cannot be used ends the load, unless it was asked to go on without.
void note_skipped(const fs::path& path, const QuestionSet& set, bool skip, Dataset& data) {
  if (set.skipped.empty()) return;
  const SkippedRecord& first = set.skipped.front();
  const std::string where = (first.file.empty() ? path : path / first.file).string() + ", line " +
                            std::to_string(first.line) + ": " + first.reason;
  const std::size_t n = set.skipped.size();
  if (!skip) {
    throw DataError(where + (n > 1 ? "; " + std::to_string(n - 1) + " more" : "") +
                    " (--skip-bad-records goes on without)");
  }
  data.notes.push_back(std::to_string(n) + (n == 1 ? " record was" : " records were") +
                       " skipped, the first: " + where);
}

std::string dataset_name(const fs::path& path) {
  fs::path name = path.filename().empty() ? path.parent_path().filename() : path.filename();
  if (name.extension() == ".gz") name = name.stem();
  return name.stem().string();
}

}  // namespace

void UserPrompts::read_texts(const fs::path& file) {
  const std::string text = read_text_file(file);
  if (text.find_first_not_of(" \t\r\n") == text.find('{') && json::accept(text)) {
    const json by_task = parse_json(text, file.string());
    for (const auto& [task, value] : by_task.items()) {
      if (!value.is_string()) {
        throw DataError(file.string() + ": the prompt of \"" + task + "\" is no text");
      }
      check_template(value.get<std::string>(), file.string() + ", \"" + task + "\"");
      texts[task] = value.get<std::string>();
    }
    return;
  }
  check_template(text, file.string());
  texts[""] = text;
}

void UserPrompts::read_lengths(const fs::path& file) {
  const json by_task = read_json_file(file);
  if (!by_task.is_object()) {
    throw DataError(file.string() + ": an object of numbers by task is wanted");
  }
  for (const auto& [task, value] : by_task.items()) {
    if (!value.is_number_integer() || value.get<long>() < 1 || value.get<long>() > 100'000) {
      throw DataError(file.string() + ": \"" + task + "\" is no number of tokens");
    }
    max_new_tokens[task] = value.get<int>();
  }
}

Dataset load_questions(const fs::path& path, const QuestionOptions& options,
                       const Tokenizer& tokenizer) {
  if (options.samples < 0) throw UsageError("qa: the number of samples cannot be negative");
  QuestionSet set = read_questions(path);
  if (!set.no_questions.empty()) throw DataError(path.string() + ": " + set.no_questions);

  Dataset data;
  data.name = dataset_name(path);
  note_skipped(path, set, options.skip_bad_records, data);
  const std::vector<std::string> clusters = document_clusters(set);
  std::vector<const Question*> answerable;
  std::size_t impossible = 0;
  for (Question& question : set.questions) {
    if (question.cluster.empty()) question.cluster = clusters.at(question.document);
    if (is_impossible(question) && !options.keep_impossible) {
      ++impossible;
    } else {
      answerable.push_back(&question);
    }
  }
  if (answerable.empty()) throw DataError(path.string() + " holds no question with an answer");
  if (impossible > 0) {
    data.notes.push_back(std::to_string(impossible) +
                         " questions that the text does not answer are left out");
  }

  SampleMaker maker(set, options, tokenizer);
  for (const Question* question : choose(answerable, std::size_t(options.samples))) {
    data.samples.push_back(maker.make(*question));
  }
  // The main metric: the one of most samples.
  std::map<std::string, int> metrics;
  for (const Sample& sample : data.samples) ++metrics[sample.scorer];
  const auto main =
      std::ranges::max_element(metrics, {}, [](const auto& entry) { return entry.second; });
  data.version = "2 " + set.format +
                 " impossible=" + (options.keep_impossible ? "empty" : "skipped") +
                 " template=" + std::string(maker.template_name()) + " metric=" + main->first;
  for (std::string& note : maker.notes(data.samples.size())) data.notes.push_back(std::move(note));
  return data;
}

}  // namespace kvscope
