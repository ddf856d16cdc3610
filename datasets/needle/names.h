// Seeded keys and values that are hidden and asked for.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

#include "datasets/base/random.h"

namespace kvscope {

// Eighty lower-case English adjectives.
std::span<const std::string_view> needle_adjectives();

std::string draw_digits(std::size_t n, Random& random);  // the first one is not 0
std::string draw_uuid(Random& random);                   // version 4, lower case
std::string draw_word_key(Random& random);               // "amber-falcon": 8,000 and more of them
std::string draw_letters(std::size_t n, char first, Random& random);  // n of the 26 from `first` on

// Draws again until the value is new. `draw` must have more values than are asked for.
template <typename Draw>
std::string draw_new(std::set<std::string>& taken, const Draw& draw) {
  while (true) {
    std::string value = draw();
    if (taken.insert(value).second) return value;
  }
}

}  // namespace kvscope
