#include "datasets/qa/squad.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "datasets/json/json_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr int kNewTokens = 32;  // LongBench gives short extractive answers as many
constexpr std::string_view kInstruction = "Answer the question with a short phrase from the text.";
constexpr std::string_view kAnswerPrefix = "Answer:";

struct Question {
  std::string id;
  std::string article;
  const std::string* context = nullptr;  // inside the parsed file
  std::string text;
  std::vector<std::string> golds;
  long answer_start = -1;  // of the first gold, in Unicode characters
  bool impossible = false;
};

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw DataError(where + ": " + what +
                  " (SQuAD format is data[].paragraphs[].{context, qas[].{question, answers}})");
}

const json& member(const json& object, const char* name, json::value_t type,
                   const std::string& where) {
  if (!object.is_object() || !object.contains(name))
    fail(where, std::string("no \"") + name + "\"");
  const json& value = object[name];
  if (value.type() != type) fail(where, std::string("\"") + name + "\" has the wrong type");
  return value;
}

std::string scalar_text(const json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  fail(where, "an answer or id is neither text nor a number");
}

void read_answers(const json& answers, const std::string& where, Question& question) {
  const json list = answers.is_array() ? answers : json::array({answers});
  for (const json& answer : list) {
    const bool object = answer.is_object();
    if (object && !answer.contains("text")) fail(where, "an answer has no \"text\"");
    const std::string gold = scalar_text(object ? answer["text"] : answer, where);
    if (question.golds.empty() && object && answer.contains("answer_start") &&
        answer["answer_start"].is_number_integer()) {
      question.answer_start = answer["answer_start"].get<long>();
    }
    if (std::find(question.golds.begin(), question.golds.end(), gold) == question.golds.end()) {
      question.golds.push_back(gold);
    }
  }
}

Question read_question(const json& qa, const std::string& where) {
  Question question;
  question.text = member(qa, "question", json::value_t::string, where).get<std::string>();
  if (qa.contains("id")) question.id = scalar_text(qa["id"], where);
  question.impossible = qa.contains("is_impossible") && qa["is_impossible"].is_boolean() &&
                        qa["is_impossible"].get<bool>();
  if (!question.impossible) {
    if (!qa.contains("answers")) fail(where, "no \"answers\"");
    read_answers(qa["answers"], where, question);
    // v2 files also mark a question without answer by an empty list alone.
    question.impossible = question.golds.empty();
  }
  if (question.impossible) question.golds = {""};
  return question;
}

// Questions of each article.
std::vector<std::vector<Question>> read_articles(const json& root, const std::string& file,
                                                 const QaFileOptions& options) {
  std::vector<std::vector<Question>> articles;
  for (const json& article : member(root, "data", json::value_t::array, file)) {
    const std::string number = std::to_string(articles.size());
    const std::string where = file + ", article " + number;
    std::vector<Question> questions;
    std::size_t paragraph_number = 0;
    for (const json& paragraph : member(article, "paragraphs", json::value_t::array, where)) {
      const std::string there = where + ", paragraph " + std::to_string(paragraph_number++);
      const json& context = member(paragraph, "context", json::value_t::string, there);
      for (const json& qa : member(paragraph, "qas", json::value_t::array, there)) {
        Question question = read_question(qa, there);
        if (question.impossible && !options.keep_impossible) continue;
        question.article = "article=" + number;
        question.context = context.get_ptr<const std::string*>();
        if (question.id.empty())
          question.id = question.article + ":" + std::to_string(questions.size());
        questions.push_back(std::move(question));
      }
    }
    articles.push_back(std::move(questions));
  }
  return articles;
}

std::vector<Question> one_of_each_in_turn(std::vector<std::vector<Question>> articles,
                                          std::size_t most) {
  std::vector<Question> chosen;
  bool more = true;
  for (std::size_t round = 0; more; ++round) {
    more = false;
    for (auto& article : articles) {
      if (round >= article.size()) continue;
      if (most > 0 && chosen.size() == most) return chosen;
      chosen.push_back(std::move(article[round]));
      more = true;
    }
  }
  return chosen;
}

// Byte offset of the n-th Unicode character; npos behind the end.
std::size_t byte_of_character(std::string_view text, long n) {
  long seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (starts && seen++ == n) return i;
  }
  return std::string_view::npos;
}

ChatQuestion compose(const Question& question) {
  ChatQuestion q;
  q.text = *question.context + "\n\n";
  // The instruction says what kind of answer is wanted: whoever knows it knows half the question.
  q.question_begin = q.text.size();
  q.text += std::string(kInstruction) + "\n" + question.text;
  q.answer_prefix = kAnswerPrefix;
  q.golds = question.golds;
  if (question.answer_start >= 0) {
    const std::string& gold = question.golds.front();
    const std::size_t at = byte_of_character(*question.context, question.answer_start);
    if (at != std::string_view::npos && question.context->compare(at, gold.size(), gold) == 0) {
      q.evidence_begin = at;
      q.evidence_end = at + gold.size();
    }
  }
  return q;
}

}  // namespace

Dataset load_squad(const std::filesystem::path& file, const QaFileOptions& options,
                   const Tokenizer& tokenizer) {
  if (options.samples < 0) throw UsageError("qa: the number of samples cannot be negative");
  const json root = read_json_file(file);
  auto questions = one_of_each_in_turn(read_articles(root, file.string(), options),
                                       static_cast<std::size_t>(options.samples));
  if (questions.empty()) throw DataError(file.string() + " holds no question with an answer");

  const ChatTemplate chat = chat_for(tokenizer);
  Dataset data;
  data.name = file.stem().string();
  data.version = std::string("1 squad impossible=") +
                 (options.keep_impossible ? "empty" : "skipped") +
                 " template=" + std::string(chat.name());
  if (!chat.notice().empty()) data.notes.push_back(chat.notice());
  std::set<std::string> keys;
  for (const Question& question : questions) {
    Sample sample = make_chat_sample(compose(question), chat, tokenizer);
    // Joined files repeat ids; a key must be one sample's alone.
    sample.key = question.id;
    for (int copy = 2; !keys.insert(sample.key).second; ++copy) {
      sample.key = question.id + "#" + std::to_string(copy);
    }
    sample.cluster_key = question.article;
    sample.max_new_tokens = kNewTokens;
    sample.answer_cut = AnswerCut::kFirstLine;
    sample.tags = {{"impossible", question.impossible ? "true" : "false"}};
    data.samples.push_back(std::move(sample));
  }
  return data;
}

}  // namespace kvscope
