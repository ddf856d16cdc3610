// Regular expressions as tokenizer files write them, by PCRE2.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace kvscope {

// The files' patterns are Oniguruma's. What PCRE2 takes differently is rewritten (\s and \w are
// Unicode's properties, ^ and $ match at each line) or refused (\h, && and [ in a class, {n}+).
// Characters newer than Unicode 14 belong to no class.
class Regex {
 public:
  // Throws DataError: not valid, or with something that is refused.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Calls `match` with the bytes [begin, end) of each match from left to right. A match that is
  // empty counts unless it stands at the end of the one before. `text` is valid UTF-8. Throws
  // DataError where the search takes too long. May be called by several threads at once.
  void each_match(std::string_view text,
                  const std::function<void(std::size_t begin, std::size_t end)>& match) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace kvscope
