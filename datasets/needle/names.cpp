#include "datasets/needle/names.h"

#include <array>

#include "datasets/needle/words.h"

namespace kvscope {
namespace {

constexpr auto kAdjectives = std::to_array<std::string_view>({
    "amber",  "ample",  "ancient", "autumn", "bitter", "blue",   "bold",   "brave",   "brief",
    "bright", "broad",  "bronze",  "calm",   "clean",  "clear",  "clever", "cold",    "coral",
    "cosy",   "crisp",  "curious", "dark",   "deep",   "dry",    "dusty",  "eager",   "early",
    "easy",   "empty",  "faint",   "fancy",  "fast",   "fierce", "fine",   "firm",    "flat",
    "fresh",  "gentle", "giant",   "golden", "grand",  "gray",   "great",  "green",   "happy",
    "hasty",  "heavy",  "honest",  "humble", "icy",    "jolly",  "keen",   "kind",    "large",
    "late",   "lazy",   "light",   "little", "lively", "lonely", "loud",   "lucky",   "mellow",
    "mild",   "modern", "narrow",  "neat",   "noble",  "odd",    "pale",   "patient", "plain",
    "proud",  "quick",  "quiet",   "rapid",  "rare",   "rough",  "royal",  "rusty",
});

}  // namespace

std::span<const std::string_view> needle_adjectives() { return kAdjectives; }

std::string draw_digits(std::size_t n, Random& random) {
  std::string digits;
  for (std::size_t i = 0; i < n; ++i) {
    digits += static_cast<char>(i == 0 ? '1' + random.below(9) : '0' + random.below(10));
  }
  return digits;
}

std::string draw_uuid(Random& random) {
  static constexpr std::string_view kPattern = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string uuid(kPattern);
  for (char& c : uuid) {
    if (c == 'x') c = kHex[random.below(16)];
    if (c == 'y') c = kHex[8 + random.below(4)];
  }
  return uuid;
}

std::string draw_word_key(Random& random) {
  const auto adjectives = needle_adjectives();
  const auto nouns = needle_words();
  std::string key(adjectives[random.below(adjectives.size())]);
  return key.append("-").append(nouns[random.below(nouns.size())]);
}

std::string draw_letters(std::size_t n, char first, Random& random) {
  std::string letters;
  for (std::size_t i = 0; i < n; ++i) letters += static_cast<char>(first + random.below(26));
  return letters;
}

}  // namespace kvscope
