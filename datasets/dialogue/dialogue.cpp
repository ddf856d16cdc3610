#include "datasets/dialogue/dialogue.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "datasets/chat/chat_template.h"
#include "datasets/needle/names.h"
#include "datasets/needle/pieces.h"
#include "datasets/needle/words.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 12;  // five digits, the space before them, and the sentence's end
constexpr double kEarlyDepth = 0.08;

struct Fact {
  std::string word;
  std::string number;

  std::string sentence() const {
    return "One of the special magic numbers for " + word + " is: " + number + ".";
  }
  std::string question() const {
    return "What is the special magic number for " + word + " mentioned in the provided text?";
  }
  std::string answer_prefix() const {
    return "The special magic number for " + word + " mentioned in the provided text is";
  }
};

std::string name_of(DialogueKind kind) {
  switch (kind) {
    case DialogueKind::kRandom:
      return "random";
    case DialogueKind::kTopicSwitch:
      return "topic_switch";
    case DialogueKind::kEarlyFirst:
      return "early_first";
  }
  return {};
}

// One dialogue: facts in the order of their places, and in which order they are asked for.
struct Plan {
  std::vector<Fact> facts;
  std::vector<std::size_t> asked;  // indices of facts, by turn
};

Plan draw_plan(const DialogueOptions& options, Random& random) {
  std::vector<std::string_view> words(needle_words().begin(), needle_words().end());
  random.shuffle(words);
  std::set<std::string> numbers;
  Plan plan;
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.turns); ++i) {
    plan.facts.push_back(
        {std::string(words[i]), draw_new(numbers, [&] { return draw_digits(5, random); })});
    plan.asked.push_back(i);
  }
  if (options.kind == DialogueKind::kRandom) {
    random.shuffle(plan.asked);
    return plan;
  }
  // The same order of the others in both kinds, so that they differ in the early fact's turn alone.
  std::vector<std::size_t> recent(plan.asked.begin() + 1, plan.asked.end());
  random.shuffle(recent);
  plan.asked = recent;
  plan.asked.insert(
      options.kind == DialogueKind::kTopicSwitch ? plan.asked.end() : plan.asked.begin(), 0);
  return plan;
}

// Share of the text before fact i of n.
double depth_of(const DialogueOptions& options, std::size_t i) {
  const auto n = static_cast<double>(options.turns);
  const auto at = static_cast<double>(i);
  if (options.kind == DialogueKind::kRandom) return (at + 0.5) / n;
  return i == 0 ? kEarlyDepth : 0.5 + 0.45 * (at - 0.5) / (n - 1);
}

void append(std::vector<std::int32_t>& to, const std::vector<std::int32_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The samples of later turns follow from the first one's.
void add_turns(const Plan& plan, Sample first, const ChatTemplate& chat, Dialogues& dialogues) {
  // Places ascend in the order of the facts.
  const std::vector<std::pair<int, int>> places = first.evidence_spans;
  std::vector<std::int32_t> history;
  const std::string key = first.key;
  for (std::size_t turn = 0; turn < plan.asked.size(); ++turn) {
    const std::size_t asked = plan.asked[turn];
    const Fact& fact = plan.facts[asked];
    std::vector<std::int32_t> feed;
    if (turn > 0) feed = chat.next_user_turn(fact.question());
    append(feed, chat.assistant_header(fact.answer_prefix()));
    append(history, feed);
    Sample sample = first;
    sample.key = key + ":turn=" + std::to_string(turn);
    sample.cluster_key = first.cluster_key;
    sample.prefix_ids = history;
    sample.gold_ids = chat.answer_ids(fact.number, fact.answer_prefix());
    sample.golds = {fact.number};
    sample.evidence_spans = {places.at(asked)};
    std::tie(sample.evidence_begin, sample.evidence_end) = places.at(asked);
    sample.tags["turn"] = std::to_string(turn);
    sample.tags["asks"] =
        places.at(asked).first * 2 < int(first.prompt_ids.size()) ? "early" : "recent";
    sample.input_sha256 = input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids);
    append(history, sample.gold_ids);
    dialogues.data.samples.push_back(std::move(sample));
    dialogues.feeds.push_back(std::move(feed));
  }
}

}  // namespace

Dialogues make_dialogues(const DialogueOptions& options, const Tokenizer& tokenizer) {
  const int most = static_cast<int>(needle_words().size());
  if (options.turns < 2 || options.turns > most) {
    throw UsageError("a dialogue has 2 to " + std::to_string(most) + " turns, not " +
                     std::to_string(options.turns));
  }
  const HaystackSections sections(options.text.haystack.empty()
                                      ? Haystack::noise(tokenizer)
                                      : Haystack::from_path(options.text.haystack, tokenizer),
                                  options.text);
  const Haystack& haystack = sections.haystack;
  std::vector<Plan> plans;
  const auto draw = [&](const DrawContext& context) {
    // Texts are the same in every kind that places facts alike.
    Random random(options.text.seed, "dialogue " + std::to_string(context.length) + " " +
                                         std::to_string(context.number));
    Plan plan = draw_plan(options, random);
    PiecesText text;
    text.opening =
        "Some special magic numbers are hidden within the following text. Make sure to memorize "
        "them.\n";
    for (std::size_t i = 0; i < plan.facts.size(); ++i) {
      text.inserts.push_back({depth_of(options, i), plan.facts[i].sentence(), true});
    }
    const Fact& first = plan.facts[plan.asked.front()];
    text.closing = first.question();
    text.answer_prefix = first.answer_prefix();
    text.golds = {first.number};
    plans.push_back(std::move(plan));
    const std::size_t sentence = sections.first_sentence(context.number);
    return GeneratedPrompt{growing(std::move(text), sentences_from(haystack, sentence),
                                   [&haystack, sentence](std::size_t pieces) {
                                     return haystack_words(haystack, sentence + pieces);
                                   }),
                           {},
                           {{"dialogue", name_of(options.kind)}}};
  };
  const bool own = options.feed == DialogueFeed::kOwn;
  Dialogues dialogues;
  Dataset firsts =
      generate({"dialogue",
                "1 dialogue=" + name_of(options.kind) + " turns=" + std::to_string(options.turns) +
                    " feed=" + (own ? "own" : "gold") +
                    " haystack=" + (haystack.is_noise() ? "noise" : "text"),
                kNewTokens},
               options.text, tokenizer, draw);
  const ChatTemplate chat =
      options.text.plain_template ? plain_chat(tokenizer) : chat_for(tokenizer);
  dialogues.turns = static_cast<std::size_t>(options.turns);
  for (std::size_t i = 0; i < firsts.samples.size(); ++i) {
    add_turns(plans[i], std::move(firsts.samples[i]), chat, dialogues);
  }
  firsts.samples = std::move(dialogues.data.samples);
  dialogues.data = std::move(firsts);
  return dialogues;
}

}  // namespace kvscope
