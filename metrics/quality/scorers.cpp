#include "metrics/quality/scorers.h"

#include <cmath>
#include <vector>

#include "metrics/quality/babilong.h"
#include "metrics/quality/chinese_f1.h"
#include "metrics/quality/classification.h"
#include "metrics/quality/cmrc.h"
#include "metrics/quality/contains.h"
#include "metrics/quality/digit_share.h"
#include "metrics/quality/edit_similarity.h"
#include "metrics/quality/exact_match.h"
#include "metrics/quality/infinitebench.h"
#include "metrics/quality/multiple_choice.h"
#include "metrics/quality/needle_recall.h"
#include "metrics/quality/rouge.h"
#include "metrics/quality/rouge_longbench.h"
#include "metrics/quality/token_f1.h"
#include "runner/base/error.h"
#include "runner/policies/nearest.h"

namespace kvscope {
namespace {

// A score that looks at the golds only.
template <double (*kScore)(std::string_view, std::span<const std::string>)>
double plain(const ScoredAnswer& a) {
  return kScore(a.answer, a.golds);
}

template <F1Rule kRule>
double f1(const ScoredAnswer& a) {
  return token_f1(a.answer, a.golds, kRule);
}

constexpr ScorerInfo kScorers[] = {
    {"exact_match", "squad.em", "binary", plain<exact_match>, false, false,
     "1 if the normalised answer equals one of the gold answers, else 0."},
    {"token_f1", "squad.f1", "continuous", f1<F1Rule::kSquad>, false, false,
     "Harmonic mean of precision and recall of the answer's words, best gold answer."},
    {"exact_match_hotpotqa", "hotpot.em", "binary", plain<exact_match>, false, false,
     "HotpotQA's exact match, which is SQuAD's."},
    {"token_f1_hotpotqa", "hotpot.f1", "continuous", f1<F1Rule::kHotpotQa>, false, false,
     "Word F1 that is 0 where exactly one side is yes, no or noanswer."},
    {"token_f1_longbench", "longbench.qa_f1", "continuous", f1<F1Rule::kLongBench>, false, false,
     "Word F1 that is 0 for two empty texts (also InfiniteBench and L-Eval)."},
    {"best_subspan_em", "litm.best_subspan_em", "binary", plain<contains_normalized>, false, false,
     "1 if a normalised gold answer is part of the normalised answer."},
    {"character_f1", "infinitebench.qa_f1_zh", "continuous", plain<character_f1>, false, false,
     "F1 of the characters of Chinese answers."},
    {"jieba_f1", "longbench.qa_f1_zh", "continuous",
     [](const ScoredAnswer& a) { return jieba_f1(a.answer, a.golds, *a.words); }, true, false,
     "F1 of the words that jieba cuts Chinese answers into."},
    {"cmrc_f1", "cmrc.f1", "continuous", plain<cmrc_f1>, false, false,
     "F1 of the longest run of Chinese characters and words that answer and gold share."},
    {"cmrc_exact_match", "cmrc.em", "binary", plain<cmrc_exact_match>, false, false,
     "1 if answer and gold are equal without CMRC's list of punctuation."},
    {"rouge_l_longbench", "longbench.rouge", "continuous", plain<rouge_l_longbench>, false, false,
     "ROUGE-L over sets of words, case kept, as the package rouge computes it."},
    {"rouge_l_longbench_jieba", "longbench.rouge_zh", "continuous",
     [](const ScoredAnswer& a) { return rouge_l_longbench_jieba(a.answer, a.golds, *a.words); },
     true, false, "The same over jieba's words."},
    {"rouge_1", "", "continuous", plain<rouge_1>, false, false,
     "F measure of words, as the package rouge_score computes it."},
    {"rouge_2", "", "continuous", plain<rouge_2>, false, false, "F measure of pairs of words."},
    {"rouge_l", "", "continuous", plain<rouge_l>, false, false,
     "F measure of the longest common subsequence of words (rouge_score)."},
    {"rouge_l_sum", "infinitebench.longbook_sum", "continuous", plain<rouge_l_sum>, false, false,
     "ROUGE-L line by line (rouge_score's rougeLsum)."},
    {"rouge_geometric_mean", "leval.rouge", "continuous", plain<rouge_geometric_mean>, false, false,
     "Cube root of ROUGE-1, ROUGE-2 and ROUGE-L multiplied, of each answer."},
    {"rouge_geometric_mean_sum", "", "continuous", plain<rouge_geometric_mean_sum>, false, false,
     "The same with ROUGE-Lsum."},
    {"edit_similarity", "longbench.code_sim", "continuous", plain<edit_similarity>, false, false,
     "Similarity of the answer's first line of code by insertions and deletions."},
    {"classification", "longbench.classification", "continuous",
     [](const ScoredAnswer& a) { return classification(a.answer, a.golds, a.classes); }, false,
     false, "One over the number of classes named, if the gold class is among them."},
    {"retrieval_share", "longbench.retrieval", "continuous", plain<retrieval_share>, false, false,
     "Share of the answer's numbers that are the gold paragraph's."},
    {"retrieval_share_zh", "longbench.retrieval_zh", "continuous", plain<retrieval_share_zh>, false,
     false, "The same for paragraphs marked in Chinese."},
    {"count_share", "longbench.count", "continuous", plain<count_share>, false, false,
     "Share of the answer's numbers that are the gold number."},
    {"string_match_all", "ruler.string_match_all", "continuous", plain<share_contained>, false,
     true, "Share of the gold texts that occur in the answer, whatever their case."},
    {"string_match_part", "ruler.string_match_part", "binary", plain<any_contained>, false, true,
     "1 if any gold text occurs in the answer, whatever its case."},
    {"first_number", "infinitebench.passkey", "binary", plain<first_number>, false, false,
     "1 if the answer's first run of digits is the gold number."},
    {"whole_word", "infinitebench.kv_retrieval", "binary", plain<whole_word>, false, false,
     "1 if the gold text is a whole word of the answer."},
    {"whole_capital_word", "infinitebench.longdialogue_qa", "binary", plain<whole_capital_word>,
     false, false, "1 if the gold text is a whole word of the answer in capitals."},
    {"choice_letter_or_text", "infinitebench.longbook_choice", "binary",
     plain<choice_letter_or_text>, false, false,
     "1 if the answer begins with the gold letter, or states it or its text after a known phrase."},
    {"code_debug", "infinitebench.code_debug", "binary", plain<code_debug>, false, false,
     "1 if the answer names the faulty function or its letter."},
    {"last_integer", "infinitebench.code_run", "binary", plain<last_integer>, false, false,
     "1 if the answer's last word is the gold whole number."},
    {"first_value", "infinitebench.math_find", "binary", plain<first_value>, false, false,
     "1 if the answer's first number is the gold number."},
    {"leading_values", "infinitebench.math_calc", "continuous", plain<leading_values>, false, false,
     "Share of the gold numbers that the answer's numbers equal, up to the first that does not."},
    {"babilong", "babilong.qa1", "binary",
     [](const ScoredAnswer& a) { return babilong(a.answer, a.golds, a.question, a.classes); },
     false, false,
     "1 if the gold is the only label in the answer's first sentence that was not in the "
     "question."},
    {"exam", "leval.exam_em", "continuous", plain<exam>, false, false,
     "1 for the same letters or number or a contained answer, 0.25 for some of the letters."},
    {"exam_choice", "leval.exam_choice", "binary", plain<exam_choice>, false, false,
     "1 if the answer's first letter of A to D is the gold's (L-Eval, sets with options)."},
    {"stated_choice", "longbench_v2.judge", "binary", plain<stated_choice>, false, false,
     "1 if \"The correct answer is (X)\" states the gold letter."},
    {"first_choice", "", "binary", plain<first_choice>, false, false,
     "1 if the answer's first whole word of A to D is the gold letter."},
    {"recall", "", "binary", plain<needle_recall>, false, false,
     "1 if the gold number is a whole run of digits in the answer."},
};

}  // namespace

std::span<const ScorerInfo> scorer_infos() { return kScorers; }

const ScorerInfo* find_scorer(std::string_view name) {
  if (name.ends_with(')')) name = name.substr(0, name.rfind('('));
  if (name.empty()) return nullptr;
  for (const ScorerInfo& info : kScorers) {
    if (info.name == name || info.upstream == name) return &info;
  }
  return nullptr;
}

const ScorerInfo& scorer_named(std::string_view name) {
  if (const ScorerInfo* info = find_scorer(name)) return *info;
  std::vector<std::string_view> names;
  for (const ScorerInfo& info : kScorers) names.push_back(info.name);
  throw UsageError("unknown metric '" + std::string(name) + "'" + suggestion(name, names) +
                   " (`kvscope list scorers` names all)");
}

double upstream_value(const ScorerInfo& info, double score) {
  return info.percent ? std::nearbyint(score * 100 * 100) / 100 : score;
}

}  // namespace kvscope
