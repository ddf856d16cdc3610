// Chinese text into words, as jieba's accurate mode cuts it (github.com/fxsjy/jieba): the most
// probable path over the dictionary's words, and a hidden Markov model of begin, middle, end and
// single for runs of characters that are no words. The data are jieba's own and stay where its
// package put them.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvscope {

class ChineseWords {
 public:
  // Reads dict.txt and, where it is there, the model in finalseg/. Throws IoError where there is no
  // dict.txt, DataError where it is none.
  explicit ChineseWords(const std::filesystem::path& folder);

  // $KVSCOPE_JIEBA, or the folder of Debian's python3-jieba; nothing if neither has a dict.txt.
  static std::optional<std::filesystem::path> installed_folder();

  std::vector<std::string> cut(std::string_view text) const;

  // Without it unknown runs are cut into characters, which is not what jieba does by default.
  bool has_model() const { return has_model_; }

 private:
  static constexpr std::size_t kStates =
      4;  // begin, end, middle, single: in jieba's order of names

  using Characters = std::vector<std::string>;
  void cut_run(const Characters& run, std::vector<std::string>& words) const;
  void cut_unknown(const Characters& run, std::vector<std::string>& words) const;
  void cut_by_model(const Characters& run, std::vector<std::string>& words) const;
  double log_probability(const std::string& word) const;
  void read_model(const std::filesystem::path& folder);

  std::unordered_map<std::string, double> frequency_;  // of words; 0 for beginnings of words
  double log_total_ = 0;
  bool has_model_ = false;
  std::array<std::unordered_map<std::string, double>, kStates> emission_;  // log probabilities
};

}  // namespace kvscope
