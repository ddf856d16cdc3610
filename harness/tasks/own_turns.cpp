// Turn k of an arm is its prompt's cache with everything that was said since fed token by token:
// the same numbers, bit for bit, as going on with the cache of turn k - 1, as no row depends on the
// rows beside it. The full cache that an arm is compared with has heard the arm's answers, not its
// own.
#include "harness/tasks/own_turns.h"

#include <algorithm>
#include <map>

#include "datasets/chat/chat_template.h"
#include "harness/tasks/answer_sample.h"

namespace kvscope {
namespace {

class OwnTurnsTask final : public Task {
 public:
  OwnTurnsTask(Dialogues dialogues, AnswerScorer scorer)
      : dialogues_(std::move(dialogues)), scorer_(scorer) {}

  const Dataset& dataset() const override { return dialogues_.data; }
  // One dialogue: later turns need the answers of earlier ones.
  std::size_t batch_size(std::size_t) const override { return dialogues_.turns; }

  std::optional<std::vector<std::vector<SampleOutcome>>> run(
      const TaskRun& run, std::span<const SampleWork> work) const override {
    std::vector<std::vector<SampleOutcome>> outcomes(work.size());
    std::map<std::pair<std::size_t, std::size_t>, Talk> talks;  // dialogue, arm
    for (std::size_t i = 0; i < work.size(); ++i) {
      outcomes[i].resize(work[i].arms.size());
      for (std::size_t j = 0; j < work[i].arms.size(); ++j) {
        Talk& talk = talks[{work[i].sample / dialogues_.turns, work[i].arms[j]}];
        talk.wanted[work[i].sample % dialogues_.turns] = &outcomes[i][j];
      }
    }
    for (std::size_t turn = 0; turn < dialogues_.turns; ++turn) {
      if (!run_turn(run, turn, talks)) return std::nullopt;
    }
    return outcomes;
  }

 private:
  // What one arm said in one dialogue.
  struct Talk {
    std::map<std::size_t, SampleOutcome*>
        wanted;                          // by turn; a resumed run may want later ones only
    std::vector<std::int32_t> history;   // fed since the prompt
    std::optional<SampleOutcome> ended;  // why there is no next turn
  };
  using Talks = std::map<std::pair<std::size_t, std::size_t>, Talk>;

  bool run_turn(const TaskRun& run, std::size_t turn, Talks& talks) const {
    Dataset now;
    std::vector<SampleWork> work;
    std::vector<Talk*> speaking;
    for (auto& [who, talk] : talks) {
      if (talk.wanted.empty() || talk.wanted.rbegin()->first < turn) continue;
      if (talk.ended) {
        if (const auto it = talk.wanted.find(turn); it != talk.wanted.end())
          *it->second = *talk.ended;
        continue;
      }
      const std::size_t index = who.first * dialogues_.turns + turn;
      const auto& feed = dialogues_.feeds.at(index);
      talk.history.insert(talk.history.end(), feed.begin(), feed.end());
      Sample sample = dialogues_.data.samples.at(index);
      sample.prefix_ids = talk.history;
      work.push_back({now.samples.size(), {who.second}});
      now.samples.push_back(std::move(sample));
      speaking.push_back(&talk);
    }
    if (work.empty()) return true;
    const auto task = make_answer_task(std::move(now), scorer_);
    const auto done = task->run(run, work);
    if (!done) return false;
    const auto turn_end = chat_for(run.tokenizer).turn_end();
    for (std::size_t i = 0; i < speaking.size(); ++i) {
      const SampleOutcome& outcome = (*done)[i].front();
      Talk& talk = *speaking[i];
      if (const auto it = talk.wanted.find(turn); it != talk.wanted.end()) *it->second = outcome;
      if (outcome.status != OutcomeStatus::kOk) talk.ended = outcome;
      // The next feed ends the turn.
      const auto said =
          without_stop(outcome.output_ids, turn_end, run.engine.model().config.stop_tokens);
      talk.history.insert(talk.history.end(), said.begin(), said.end());
    }
    return true;
  }

  Dialogues dialogues_;
  AnswerScorer scorer_;
};

}  // namespace

std::unique_ptr<Task> make_own_turns_task(Dialogues dialogues, AnswerScorer scorer) {
  return std::make_unique<OwnTurnsTask>(std::move(dialogues), scorer);
}

}  // namespace kvscope
