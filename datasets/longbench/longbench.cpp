// The order of instruction, context and question is LongBench's, as are answer lengths, scores and
// which tasks go without the chat template; the words are ours. Its own words can be given as a
// user's file (dataset2prompt.json).
#include "datasets/longbench/longbench.h"

#include "datasets/questions/language.h"
#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::string_view kQaText =
    "Read the text and answer the question that follows it with a short phrase.\n\nText: "
    "{context}\n\n"
    "Answer the question about the text above with a short phrase and nothing else.\n\nQuestion: "
    "{input}";
constexpr std::string_view kQaTextZh =
    "阅读下文，用一个短语回答其后的问题。\n\n{context}\n\n请根据上文用一个短语回答下面的问题，不要"
    "写别的内容。\n\n问题：{input}";
constexpr std::string_view kExamplesText =
    "Continue in the manner of the examples.\n\n{context}\n{input}";

constexpr PromptPolicy qa(int tokens) {
  return {.text = kQaText,
          .answer_prefix = "Answer:",
          .scorer = "token_f1_longbench",
          .max_new_tokens = tokens};
}
constexpr PromptPolicy qa_zh(int tokens, std::string_view scorer) {
  return {.text = kQaTextZh, .answer_prefix = "回答：", .scorer = scorer, .max_new_tokens = tokens};
}
constexpr PromptPolicy summary(std::string_view text, int tokens) {
  return {.text = text,
          .answer_prefix = "Summary:",
          .scorer = "rouge_l_longbench",
          .max_new_tokens = tokens};
}
// Few-shot tasks and code: the instruction only in front, plain text, the first line counts.
constexpr PromptPolicy examples(std::string_view text, std::string_view scorer, int tokens,
                                AnswerCut cut) {
  return {.text = text, .scorer = scorer, .max_new_tokens = tokens, .cut = cut, .chat = false};
}

struct Task {
  std::string_view name;
  PromptPolicy policy;
};

constexpr Task kTasks[] = {
    {"qasper", qa(128)},
    {"narrativeqa", qa(128)},
    {"multifieldqa_en", qa(64)},
    {"hotpotqa", qa(32)},
    {"2wikimqa", qa(32)},
    {"musique", qa(32)},
    {"multifieldqa_zh", qa_zh(64, "jieba_f1")},
    {"dureader", qa_zh(128, "rouge_l_longbench_jieba")},
    {"gov_report",
     summary("Summarise the report below on one page.\n\nReport:\n{context}\n\nNow write "
             "a summary of the report on one page.",
             512)},
    {"multi_news", summary("Summarise the news items below on one page.\n\nNews:\n{context}\n\nNow "
                           "write a summary of all the news on one page.",
                           512)},
    {"qmsum",
     summary("Below are the minutes of a meeting and a request about them. Answer in a few "
             "sentences.\n\nMinutes:\n{context}\n\nNow answer the request about the meeting "
             "above in a few sentences.\n\nRequest: {input}",
             512)},
    {"vcsum",
     {.text = "下面是一次会议的记录，请写出总结。\n\n{context}\n\n请总结上面的会议。",
      .answer_prefix = "会议总结：",
      .scorer = "rouge_l_longbench_jieba",
      .max_new_tokens = 512}},
    {"trec", examples(kExamplesText, "classification", 64, AnswerCut::kFirstLine)},
    {"triviaqa", examples(kExamplesText, "token_f1_longbench", 32, AnswerCut::kFirstLine)},
    {"samsum", examples(kExamplesText, "rouge_l_longbench", 128, AnswerCut::kFirstLine)},
    {"lsht", examples("请仿照例子判断新闻的类别。\n\n{context}\n{input}", "classification", 64,
                      AnswerCut::kFirstLine)},
    {"passage_count",
     {.text =
          "Some of the paragraphs below occur several times. Say how many different ones there "
          "are.\n\n{context}\n\nHow many different paragraphs are there above? Write the number "
          "and nothing else.",
      .answer_prefix = "Number:",
      .scorer = "count_share",
      .max_new_tokens = 32}},
    {"passage_retrieval_en",
     {.text = "Below are numbered paragraphs and a summary of one of them. Say which one it is.\n\n"
              "{context}\n\nSummary: {input}\n\nWhich paragraph is summarised? Write it as "
              "\"Paragraph 1\".",
      .answer_prefix = "Answer:",
      .scorer = "retrieval_share",
      .max_new_tokens = 32}},
    {"passage_retrieval_zh",
     {.text = "下面有若干段落和其中一段的摘要，请指出摘要属于哪一段。\n\n{context}\n\n摘要：{input}"
              "\n\n摘要属于哪一段？请写成“段落1”的形式。",
      .answer_prefix = "答案：",
      .scorer = "retrieval_share_zh",
      .max_new_tokens = 32}},
    {"lcc", examples("Write the next line of the code.\n{context}Next line:\n", "edit_similarity",
                     64, AnswerCut::kNone)},
    {"repobench-p", examples("Write the next line of the code.\n{context}{input}Next line:\n",
                             "edit_similarity", 64, AnswerCut::kNone)},
};
// Tasks that LongBench does not have, in its format.
constexpr PromptPolicy kOther = qa(64);
constexpr PromptPolicy kOtherZh = qa_zh(64, "jieba_f1");

std::string task_of(const json& record, const RecordFile& file) {
  std::string task = text_or(record, "dataset", file.path.stem().string());
  if (task.ends_with("_e")) task.resize(task.size() - 2);
  return task;
}

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "input") && has(first, "context") && has(first, "answers");
}

// Where LongBench-E parts its figures.
const char* length_bin(double length) {
  return length < 4000 ? "0-4k" : length < 8000 ? "4-8k" : "8k+";
}

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  Question question;
  question.task = task_of(record, file);
  question.input = need_text(record, "input");
  question.document = set.shared_document(need_text(record, "context"));
  question.golds = need_texts(record, "answers");
  question.id = text_or(record, "_id", {});
  if (has(record, "all_classes")) question.classes = need_texts(record, "all_classes");
  if (has(record, "length") && record["length"].is_number()) {
    question.tags["length_bin"] = length_bin(record["length"].get<double>());
  }
  if (has(record, "language")) question.tags["language"] = need_text(record, "language");
  question.policy = &longbench_policy(question.task, set.documents[question.document]);
  set.questions.push_back(std::move(question));
}

}  // namespace

const PromptPolicy& longbench_policy(std::string_view task, std::string_view document) {
  for (const Task& known : kTasks) {
    if (known.name == task) return known.policy;
  }
  return is_chinese(document) ? kOtherZh : kOther;
}

const FormatInfo kLongBenchFormat = {
    "longbench", "Tasks of LongBench v1 and LongBench-E, and whatever is written like them.",
    "token_f1_longbench", matches, [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
