#include "metrics/quality/chinese_words.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "metrics/quality/unicode.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDebianFolder = "/usr/lib/python3/dist-packages/jieba";
constexpr double kImpossible = -3.14e100;  // jieba's stand-in for log 0
enum State : std::size_t { kBegin, kEnd, kMiddle, kSingle };

// Logarithms of the model's start and transition probabilities, as published.
constexpr double kStart[] = {-0.26268660809250016, kImpossible, kImpossible, -1.4652633398537678};
// Which two states can come before a state, and the logarithm of that step. Ties go to the later
// name in the alphabet, B < E < M < S.
struct Step {
  State from;
  double log_probability;
};
constexpr Step kSteps[4][2] = {
    {{kEnd, -0.5897149736854513}, {kSingle, -0.7211965654669841}},    // to begin
    {{kBegin, -0.510825623765990}, {kMiddle, -0.33344856811948514}},  // to end
    {{kBegin, -0.916290731874155}, {kMiddle, -1.2603623820268226}},   // to middle
    {{kEnd, -0.8085250474669937}, {kSingle, -0.6658631448798212}},    // to single
};

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw IoError("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool is_han(const std::string& character) {
  std::size_t i = 0;
  const char32_t c = next_code_point(character, i);
  return 0x4e00 <= c && c <= 0x9fd5;
}

bool is_latin(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
}

// Han characters, letters, digits and + # & . _ % - make runs that words are looked for in.
bool in_run(const std::string& c) {
  if (c.size() > 1) return is_han(c);
  return is_latin(c[0]) || std::string_view("+#&._%-").find(c[0]) != std::string_view::npos;
}

std::string joined(const std::vector<std::string>& parts, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) text += parts[i];
  return text;
}

// "\u4e00" of a Python literal, or the character itself, up to the closing quote at `end`.
std::string unescaped(std::string_view literal) {
  if (!literal.starts_with("\\u") || literal.size() < 6) return std::string(literal);
  unsigned code = 0;
  std::from_chars(literal.data() + 2, literal.data() + 6, code, 16);
  std::string text;
  append_code_point(text, code);
  return text;
}

}  // namespace

std::optional<fs::path> ChineseWords::installed_folder() {
  const char* named = std::getenv("KVSCOPE_JIEBA");
  const fs::path folder = named != nullptr ? named : kDebianFolder;
  std::error_code error;
  if (!fs::is_regular_file(folder / "dict.txt", error)) return std::nullopt;
  return folder;
}

ChineseWords::ChineseWords(const fs::path& folder) {
  const fs::path file = folder / "dict.txt";
  const std::string text = read(file);
  double total = 0;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    // word, frequency and perhaps a part of speech
    const std::size_t space = line.find(' ');
    double frequency = 0;
    const std::string_view rest =
        space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    if (std::from_chars(rest.data(), rest.data() + rest.size(), frequency).ec != std::errc{}) {
      throw DataError(file.string() + ", line " + std::to_string(number) +
                      ": no word and frequency; jieba's dictionary is wanted");
    }
    const std::string word(line.substr(0, space));
    frequency_[word] = frequency;
    total += frequency;
    std::string start;
    for (const std::string& c : characters(word)) frequency_.try_emplace(start += c, 0);
  }
  if (!(total > 0)) throw DataError(file.string() + " holds no word");
  log_total_ = std::log(total);
  read_model(folder / "finalseg" / "prob_emit.py");
}

// A Python literal {'B': {'\u4e00': -3.65, …}, 'E': …}.
void ChineseWords::read_model(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  const std::string text = read(file);
  std::unordered_map<std::string, double>* state = nullptr;
  for (std::size_t quote = text.find('\'', text.find('{')); quote != std::string::npos;) {
    const std::size_t close = text.find('\'', quote + 1);
    if (close == std::string::npos) break;
    const std::string_view key = std::string_view(text).substr(quote + 1, close - quote - 1);
    const std::size_t value = text.find_first_not_of(": ", close + 1);
    if (value == std::string::npos) break;
    if (text[value] == '{') {
      const std::size_t index = std::string_view("BEMS").find(key);
      state = index == std::string_view::npos ? nullptr : &emission_[index];
    } else if (state != nullptr) {
      std::from_chars(text.data() + value, text.data() + text.size(), (*state)[unescaped(key)]);
    }
    quote = text.find('\'', value);
  }
  has_model_ = std::ranges::none_of(emission_, [](const auto& table) { return table.empty(); });
}

double ChineseWords::log_probability(const std::string& word) const {
  const auto found = frequency_.find(word);
  const bool known = found != frequency_.end() && found->second > 0;
  return std::log(known ? found->second : 1) - log_total_;
}

std::vector<std::string> ChineseWords::cut(std::string_view text) const {
  std::vector<std::string> words;
  Characters run;
  const auto flush = [&] {
    if (!run.empty()) cut_run(run, words);
    run.clear();
  };
  for (std::string& c : characters(text)) {
    if (in_run(c)) {
      run.push_back(std::move(c));
    } else {
      flush();
      const bool line_end = c == "\n" && !words.empty() && words.back() == "\r";
      if (line_end) {
        words.back() += c;
      } else {
        words.push_back(std::move(c));
      }
    }
  }
  flush();
  return words;
}

void ChineseWords::cut_run(const Characters& run, std::vector<std::string>& words) const {
  const std::size_t n = run.size();
  // From the end: the best log probability of the rest, and where its first word ends. Of equal
  // ones the longer word.
  std::vector<double> best(n + 1, 0);
  std::vector<std::size_t> end_of(n + 1, 0);
  for (std::size_t begin = n; begin-- > 0;) {
    std::string word;
    bool any = false;
    for (std::size_t end = begin + 1; end <= n; ++end) {
      word += run[end - 1];
      const auto found = frequency_.find(word);
      if (found == frequency_.end()) break;
      if (found->second == 0) continue;
      const double value = log_probability(word) + best[end];
      if (!any || value >= best[begin]) {
        best[begin] = value;
        end_of[begin] = end;
      }
      any = true;
    }
    if (!any) {
      best[begin] = log_probability(run[begin]) + best[begin + 1];
      end_of[begin] = begin + 1;
    }
  }
  Characters singles;
  const auto flush = [&] {
    if (!singles.empty()) cut_unknown(singles, words);
    singles.clear();
  };
  for (std::size_t begin = 0; begin < n; begin = end_of[begin]) {
    if (end_of[begin] == begin + 1) {
      singles.push_back(run[begin]);
    } else {
      flush();
      words.push_back(joined(run, begin, end_of[begin]));
    }
  }
  flush();
}

void ChineseWords::cut_unknown(const Characters& run, std::vector<std::string>& words) const {
  const auto known = frequency_.find(joined(run, 0, run.size()));
  const bool is_word = known != frequency_.end() && known->second > 0;
  if (run.size() == 1 || is_word || !has_model_) {
    words.insert(words.end(), run.begin(), run.end());
    return;
  }
  for (std::size_t begin = 0; begin < run.size();) {
    std::size_t end = begin;
    if (is_han(run[begin])) {
      while (end < run.size() && is_han(run[end])) ++end;
      cut_by_model({run.begin() + std::ptrdiff_t(begin), run.begin() + std::ptrdiff_t(end)}, words);
    } else if (is_latin(run[begin][0])) {
      // A word or number, with decimals and a percent sign.
      while (end < run.size() && is_latin(run[end][0])) ++end;
      const auto digit = [&](std::size_t i) {
        return i < run.size() && '0' <= run[i][0] && run[i][0] <= '9';
      };
      if (end < run.size() && run[end] == "." && digit(end + 1)) {
        ++end;
        while (digit(end)) ++end;
      }
      if (end < run.size() && run[end] == "%") ++end;
      words.push_back(joined(run, begin, end));
    } else {
      while (end < run.size() && !is_han(run[end]) && !is_latin(run[end][0])) ++end;
      words.push_back(joined(run, begin, end));
    }
    begin = end;
  }
}

// The most probable sequence of states (Viterbi).
void ChineseWords::cut_by_model(const Characters& run, std::vector<std::string>& words) const {
  const auto emission = [&](std::size_t state, const std::string& c) {
    const auto found = emission_[state].find(c);
    return found == emission_[state].end() ? kImpossible : found->second;
  };
  std::vector<std::array<double, kStates>> value(run.size());
  std::vector<std::array<std::size_t, kStates>> from(run.size());
  for (std::size_t s = 0; s < kStates; ++s) value[0][s] = kStart[s] + emission(s, run[0]);
  for (std::size_t t = 1; t < run.size(); ++t) {
    for (std::size_t s = 0; s < kStates; ++s) {
      const auto reached = [&](const Step& step) {
        return value[t - 1][step.from] + step.log_probability + emission(s, run[t]);
      };
      const Step& early = kSteps[s][0];
      const Step& late = kSteps[s][1];
      const Step& chosen = reached(late) >= reached(early) ? late : early;
      value[t][s] = reached(chosen);
      from[t][s] = chosen.from;
    }
  }
  std::vector<std::size_t> states(run.size());
  states.back() = value.back()[kSingle] >= value.back()[kEnd] ? kSingle : kEnd;
  for (std::size_t t = run.size() - 1; t > 0; --t) states[t - 1] = from[t][states[t]];
  std::size_t begin = 0;
  for (std::size_t t = 0; t < run.size(); ++t) {
    if (states[t] == kBegin) begin = t;
    if (states[t] == kSingle) begin = t;
    if (states[t] == kEnd || states[t] == kSingle) {
      words.push_back(joined(run, begin, t + 1));
      begin = t + 1;
    }
  }
  if (begin < run.size()) words.push_back(joined(run, begin, run.size()));
}

}  // namespace kvscope
