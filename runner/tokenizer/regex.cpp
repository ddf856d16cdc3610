#include "runner/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "runner/base/error.h"
#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

constexpr std::size_t kMaxPatternBytes = 16384;
constexpr std::uint32_t kMatchLimit = 20'000'000;  // steps of one search; PCRE2's own is 10 million

// The property White_Space; PCRE2's \s has U+180E as well.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Alphabetic, marks, decimal digits and connectors; PCRE2's \w has other numbers and no marks.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kKnownEscapes = "rntfvaesSwWdDpPxuAzZbB0123456789";

[[noreturn]] void refuse(std::string_view pattern, const std::string& why) {
  throw DataError("pattern '" + std::string(pattern.substr(0, 80)) + "' " + why);
}

// Rewrites a pattern of Oniguruma's for PCRE2.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    if (pattern_.starts_with("(*")) refuse(pattern_, "begins with '(*'");
    while (at_ < pattern_.size()) step();
    return std::move(out_);
  }

 private:
  char next(std::size_t ahead = 1) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void copy(std::size_t n) {
    out_ += pattern_.substr(at_, n);
    at_ += n;
  }

  void step() {
    const char c = pattern_[at_];
    if (c == '\\') return escape();
    if (in_class_) {
      if (c == '[' && next() != ':') refuse(pattern_, "has a class inside a class");
      if (c == '[') return copy(2);
      if (c == '&' && next() == '&') refuse(pattern_, "intersects classes");
      if (c == ']' && !class_is_empty_) in_class_ = false;
      class_is_empty_ = false;
      return copy(1);
    }
    if (c == '[') {
      in_class_ = class_is_empty_ = true;
      return copy(next() == '^' ? 2 : 1);
    }
    if (c == '}' && next() == '+') refuse(pattern_, "repeats a repetition with '}+'");
    if (c == '(' && next() == '?') check_group();
    copy(1);
  }

  void check_group() const {
    const std::string_view kind = pattern_.substr(at_ + 2);
    for (const std::string_view known : {":", "=", "!", ">", "<=", "<!", "i:", "i)", "-i:"}) {
      if (kind.starts_with(known)) return;
    }
    refuse(pattern_, "has a group '(?" + std::string(kind.substr(0, 3)) +
                         "' that is not supported; known are (?: (?= (?! (?> (?<= (?<! (?i:");
  }

  void escape() {
    class_is_empty_ = false;
    const char c = next();
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '\0') refuse(pattern_, "ends with a backslash");
    if (letter && kKnownEscapes.find(c) == std::string_view::npos) {
      refuse(pattern_, std::string("has \\") + c + ", which is not supported");
    }
    if (c == 's' || c == 'w' || c == 'S' || c == 'W') return shorthand(c);
    if (c == 'u') {
      out_ += "\\x{" + std::string(pattern_.substr(at_ + 2, 4)) + "}";
      at_ = std::min(at_ + 6, pattern_.size());
      return;
    }
    std::size_t length = 2;
    if ((c == 'p' || c == 'P' || c == 'x') && next(2) == '{') {
      length = std::min(pattern_.find('}', at_), pattern_.size() - 1) - at_ + 1;
    }
    copy(length);
  }

  void shorthand(char c) {
    const std::string inner(c == 's' || c == 'S' ? kWhiteSpace : kWord);
    const bool negated = c == 'S' || c == 'W';
    if (in_class_) {
      if (c == 'W') refuse(pattern_, "has \\W inside a class");
      out_ += negated ? std::string("\\S") : inner;
    } else {
      out_ += (negated ? "[^" : "[") + inner + "]";
    }
    at_ += 2;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
  bool in_class_ = false;
  bool class_is_empty_ = false;
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Regex::Compiled {
  std::string shown;  // for messages
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
};

Regex::Regex(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > kMaxPatternBytes || utf8_valid_prefix(pattern) != pattern.size()) {
    refuse(pattern, "is no UTF-8 text of at most " + std::to_string(kMaxPatternBytes) + " bytes");
  }
  const std::string translated = Translator(pattern).run();
  int error = 0;
  std::size_t where = 0;
  compiled_->shown = pattern.substr(0, 80);
  compiled_->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, nullptr));
  if (!compiled_->code) {
    std::array<PCRE2_UCHAR, 120> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    refuse(pattern, std::string("is not valid: ") + reinterpret_cast<const char*>(message.data()));
  }
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  if (!compiled_->context) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->context.get(), kMatchLimit);
  // Without a compiler for this processor the interpreter gives the same matches.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

void Regex::each_match(std::string_view text,
                       const std::function<void(std::size_t, std::size_t)>& match) const {
  const pcre2_code* code = compiled_->code.get();
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code, nullptr));
  if (!data) throw std::bad_alloc();
  const std::size_t* range = pcre2_get_ovector_pointer(data.get());
  const auto search = [&](std::size_t from, std::uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, data.get(), compiled_->context.get());
  };
  std::size_t last_end = std::string_view::npos;  // of the match before
  for (std::size_t from = 0; from <= text.size();) {
    int found = search(from, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(from, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0) {
      throw DataError("pattern '" + compiled_->shown +
                      "' takes too long to find its words in a text; use another tokenizer file");
    }
    const std::size_t begin = range[0];
    const std::size_t end = range[1];
    const bool empty = begin >= end;
    if (!empty || begin != last_end) {
      match(begin, empty ? begin : end);
      last_end = end;
    }
    from = end;
    if (empty) {
      if (begin >= text.size()) return;
      from = begin + utf8_character_bytes(text.substr(begin));
    }
  }
}

}  // namespace kvscope
