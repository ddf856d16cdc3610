#include "datasets/qasper/qasper.h"

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kPolicy = {
    .text =
        "Below is a scientific article. Answer the question about it as briefly as you can: with "
        "words of the article, with a short sentence, with yes or no, or with \"Unanswerable\" if "
        "the article does not say.\n\nArticle: {context}\n\nAnswer the question about the "
        "article above as briefly as you can; write \"Unanswerable\" if it does not say.\n\n"
        "Question: {input}",
    .answer_prefix = "Answer:",
    .scorer = "token_f1",
    .max_new_tokens = 128};

bool is_paper(const json& value) { return has(value, "full_text") && has(value, "qas"); }

bool matches(const RecordFile& file) {
  const json& root = file.records.front().value;
  return file.container == Container::kJsonObject && !root.empty() &&
         is_paper(root.begin().value());
}

std::string document_text(const json& paper) {
  std::string text = text_or(paper, "title", {}) + "\n\n" + text_or(paper, "abstract", {}) + "\n";
  for (const json& section : need_array(paper, "full_text")) {
    text += "\n" + text_or(section, "section_name", {}) + "\n";
    for (const json& paragraph : need_array(section, "paragraphs")) {
      text += scalar_text(paragraph, "paragraphs") + "\n";
    }
  }
  return text;
}

std::string reference(const json& answer) {
  const auto is_true = [&](const char* name) { return has(answer, name) && answer[name] == true; };
  if (is_true("unanswerable")) return "Unanswerable";
  if (has(answer, "extractive_spans") && !answer["extractive_spans"].empty()) {
    std::string joined;
    for (const std::string& span : texts(answer["extractive_spans"], "extractive_spans")) {
      joined += (joined.empty() ? "" : ", ") + span;
    }
    return joined;
  }
  if (const std::string text = text_or(answer, "free_form_answer", {}); !text.empty()) return text;
  if (!has(answer, "yes_no")) throw DataError("an answer says nothing");
  return is_true("yes_no") ? "Yes" : "No";
}

void read_paper(const std::string& id, const json& paper, QuestionSet& set) {
  const std::size_t document = set.add_document(document_text(paper));
  const std::string& text = set.documents[document];
  std::size_t number = 0;
  for (const json& qa : need_array(paper, "qas")) {
    Question question;
    question.policy = &kPolicy;
    question.document = document;
    question.cluster = "paper=" + id;
    question.id = text_or(qa, "question_id", id + ":" + std::to_string(number));
    question.input = need_text(qa, "question");
    ++number;
    for (const json& entry : need_array(qa, "answers")) {
      const json& answer = need(entry, "answer");
      question.golds.push_back(reference(answer));
      if (!question.evidence.empty() || !has(answer, "evidence")) continue;
      for (const std::string& evidence : texts(answer["evidence"], "evidence")) {
        const std::size_t at = text.find(evidence);
        if (!evidence.empty() && at != std::string::npos) {
          question.evidence.push_back({at, at + evidence.size()});
        }
      }
    }
    if (question.golds.empty()) throw DataError("question " + question.id + " has no answers");
    set.questions.push_back(std::move(question));
  }
}

void read(const RecordFile& file, QuestionSet& set) {
  for (const auto& [id, paper] : file.records.front().value.items()) {
    read_part(1, "paper " + id, set, [&] { read_paper(id, paper, set); });
  }
}

}  // namespace

const FormatInfo kQasperFormat = {"qasper", "Papers with questions and evidence.", "token_f1",
                                  matches, read};

}  // namespace kvscope
