#include "metrics/quality/babilong.h"

#include <set>
#include <vector>

#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

const std::vector<std::string>& rooms() {
  static const std::vector<std::string> kRooms = {"bathroom", "bedroom", "garden",
                                                  "hallway",  "kitchen", "office"};
  return kRooms;
}

}  // namespace

double babilong(std::string_view answer, std::span<const std::string> golds,
                std::string_view question, std::span<const std::string> labels) {
  std::string sentence = lower(answer);
  for (const std::string_view end : {".", "<context>", "<example>"}) {
    sentence.resize(std::min(sentence.find(end), sentence.size()));
  }
  const std::string asked = lower(question);
  std::set<std::string> named;
  for (const std::string& label : labels.empty() ? std::span<const std::string>(rooms()) : labels) {
    const std::string small = lower(label);
    if (sentence.find(small) != std::string::npos && asked.find(small) == std::string::npos) {
      named.insert(small);
    }
  }
  for (const std::string& gold : golds) {
    if (named.size() == 1 && named.contains(lower(gold))) return 1;
  }
  return 0;
}

}  // namespace kvscope
