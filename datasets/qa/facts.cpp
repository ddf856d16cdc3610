#include "datasets/qa/facts.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/base/random.h"
#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "datasets/qa/fact_words.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens =
    8;  // the longest answer has four tokens; the rest shows whether the sentence ends there
// The same sentences after every fact. Full cache, seed 7: 10 of 20 answers exact with 4 people and
// 15 sentences; 5 of 20 with 12 people and 5 sentences. Where the full cache fails eviction cannot
// be judged.
constexpr std::size_t kFillerSentences = 15;

// "Anna lives in the city of" + "Oslo" + "."
struct Fact {
  std::string_view kind;
  std::string start;
  std::string answer;
  std::string question;
};

struct Document {
  std::string text;
  std::vector<Fact> facts;
  std::vector<std::size_t> offsets;  // of each fact's sentence in `text`, bytes
};

std::vector<std::string_view> shuffled(std::span<const std::string_view> words, Random& random) {
  std::vector<std::string_view> copy(words.begin(), words.end());
  random.shuffle(copy);
  return copy;
}

std::vector<Fact> draw_facts(std::size_t people, Random& random) {
  const auto names = shuffled(person_names(), random);
  const auto cities = shuffled(city_names(), random);
  const auto jobs = shuffled(job_names(), random);
  const auto pets = shuffled(pet_names(), random);
  std::vector<Fact> facts;
  for (std::size_t i = 0; i < people; ++i) {
    const std::string name(names[i]);
    facts.push_back({"city", name + " lives in the city of", std::string(cities[i]),
                     "In which city does " + name + " live?"});
    facts.push_back(
        {"job", name + " works as a", std::string(jobs[i]), "What does " + name + " work as?"});
    facts.push_back(
        {"pet", name + " owns a", std::string(pets[i]), "Which animal does " + name + " own?"});
  }
  random.shuffle(facts);
  return facts;
}

Document draw_document(const QaOptions& options, Random& random) {
  Document document;
  document.facts = draw_facts(static_cast<std::size_t>(options.people), random);
  const auto filler = shuffled(filler_sentences(), random);
  for (const Fact& fact : document.facts) {
    if (!document.text.empty()) document.text += options.filler ? "\n" : " ";
    document.offsets.push_back(document.text.size());
    document.text += fact.start + " " + fact.answer + ".";
    for (std::size_t i = 0; options.filler && i < kFillerSentences; ++i) {
      document.text += i == 0 ? "\n" : " ";
      document.text += filler[i];
    }
  }
  return document;
}

void check(const QaOptions& options) {
  const auto most_people = static_cast<int>(std::min(
      {person_names().size(), city_names().size(), job_names().size(), pet_names().size()}));
  if (options.samples < 1) throw UsageError("qa needs at least 1 sample");
  if (options.people < 1 || options.people > most_people) {
    throw UsageError("qa: people must be 1 to " + std::to_string(most_people) + ", not " +
                     std::to_string(options.people));
  }
  if (options.questions_per_document < 1 || options.questions_per_document > 3 * options.people) {
    throw UsageError("qa: a document of " + std::to_string(options.people) + " people has 1 to " +
                     std::to_string(3 * options.people) + " questions, not " +
                     std::to_string(options.questions_per_document));
  }
}

}  // namespace

Dataset make_qa(const QaOptions& options, const Tokenizer& tokenizer) {
  check(options);
  const ChatTemplate chat = chat_for(tokenizer);
  Dataset data;
  data.name = "qa";
  data.version = "1 generated people=" + std::to_string(options.people) +
                 " filler=" + (options.filler ? "true" : "false") +
                 " questions=" + std::to_string(options.questions_per_document) +
                 " template=" + std::string(chat.name()) + " seed=" + std::to_string(options.seed);
  if (!chat.notice().empty()) data.notes.push_back(chat.notice());

  for (int i = 0; i < options.samples; ++i) {
    const int number = i / options.questions_per_document;
    const std::size_t asked = static_cast<std::size_t>(i % options.questions_per_document);
    const std::string cluster = "document=" + std::to_string(number);
    // One stream per document: its questions are drawn without replacement.
    Random random(options.seed, "qa " + cluster);
    const Document document = draw_document(options, random);
    std::vector<std::size_t> order(document.facts.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    random.shuffle(order);
    const std::size_t which = order[asked];
    const Fact& fact = document.facts[which];

    ChatQuestion question;
    question.text = document.text + "\n\n";
    question.question_begin = question.text.size();
    question.text += fact.question;
    question.answer_prefix = fact.start;
    question.golds = {fact.answer};
    question.evidence_begin = document.offsets[which];
    question.evidence_end =
        question.evidence_begin + fact.start.size() + 1 + fact.answer.size() + 1;
    Sample sample = make_chat_sample(question, chat, tokenizer);
    sample.key = cluster + ":question=" + std::to_string(asked);
    sample.cluster_key = cluster;
    sample.max_new_tokens = kNewTokens;
    sample.answer_cut = AnswerCut::kSentenceRest;
    sample.tags = {{"fact", std::string(fact.kind)},
                   {"people", std::to_string(options.people)},
                   {"fact_position", std::to_string(which)}};
    data.samples.push_back(std::move(sample));
  }
  return data;
}

}  // namespace kvscope
