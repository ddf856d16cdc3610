#include "runner/tokenizer/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <stdexcept>

#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

// Stands for "<s>" inside a character class of a pattern: the property White_Space. PCRE2's \s is
// not used because it also takes U+180E, which has not had that property since Unicode 6.3.
constexpr std::string_view kWhiteSpaceMark = "<s>";
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^<s>\p{L}\p{N}]+|[<s>]+(?![^<s>])|[<s>]+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^<s>\p{L}\p{N}]+[\r\n]*)"
    R"(|[<s>]*[\r\n]+|[<s>]+(?![^<s>])|[<s>]+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^<s>\p{L}\p{N}]+[\r\n]*)"
    R"(|[<s>]*[\r\n]+|[<s>]+(?![^<s>])|[<s>]+)";
// Digits (any numeric character) are cut out one by one first and the pattern of gpt-2 is applied
// to what lies between. In one pass: a digit takes no space with it, and white space before a digit
// stands at a text's end.
constexpr const char* kSmollm =
    R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^<s>\p{L}\p{N}]+|[<s>]+(?![^<s>\p{N}])|[<s>]+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^<s>\p{L}\p{N}]+[\r\n/]*|[<s>]*[\r\n]+|[<s>]+(?![^<s>])|[<s>]+)";

constexpr std::array<PretokenizerRule, 13> kRules = {{
    {.name = "default",
     .patterns = {R"([\p{P}$+<=>^~|]+|[^\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+|\P{N}+)",
                  R"([0-9]{3}|(?:(?![0-9]{3})(?s:.))+)"}},
    {.name = "gpt-2", .patterns = {kGpt2}},
    {.name = "llama-bpe", .patterns = {kLlama3}, .whole_words = true, .adds_bos = true},
    {.name = "llama3", .patterns = {kLlama3}, .whole_words = true, .adds_bos = true},
    {.name = "llama-v3", .patterns = {kLlama3}, .whole_words = true, .adds_bos = true},
    {.name = "qwen2", .patterns = {kQwen2}, .nfc = true},
    {.name = "deepseek-r1-qwen", .patterns = {kQwen2}, .nfc = true},
    {.name = "stablelm2", .patterns = {kQwen2}},
    {.name = "smollm", .patterns = {kSmollm}},
    {.name = "starcoder", .patterns = {kSmollm}},
    {.name = "mpt", .patterns = {kGpt2}, .nfc = true},
    {.name = "olmo", .patterns = {kGpt2}, .nfc = true},
    {.name = "tekken", .patterns = {kTekken}, .whole_words = true, .adds_bos = true},
}};

std::string expand_white_space(std::string pattern) {
  for (std::size_t at = 0; (at = pattern.find(kWhiteSpaceMark, at)) != std::string::npos;) {
    pattern.replace(at, kWhiteSpaceMark.size(), kWhiteSpace);
    at += kWhiteSpace.size();
  }
  return pattern;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

struct Pretokenizer::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
};

const PretokenizerRule* find_pretokenizer_rule(std::string_view name) {
  for (const PretokenizerRule& rule : kRules) {
    if (name == rule.name) return &rule;
  }
  return nullptr;
}

std::string known_pretokenizers() {
  std::string names;
  for (const PretokenizerRule& rule : kRules) {
    names += (names.empty() ? "" : ", ") + std::string(rule.name);
  }
  return names;
}

Pretokenizer::Pretokenizer(const PretokenizerRule& rule) {
  for (const char* text : rule.patterns) {
    if (text == nullptr) break;
    const std::string pattern = expand_white_space(text);
    int error = 0;
    std::size_t where = 0;
    Compiled stage;
    stage.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &where,
                                   nullptr));
    if (!stage.code) {
      throw std::logic_error("pattern of " + std::string(rule.name) + ": error " +
                             std::to_string(error) + " at " + std::to_string(where));
    }
    // Without a compiler for this processor the interpreter gives the same matches.
    pcre2_jit_compile(stage.code.get(), PCRE2_JIT_COMPLETE);
    stages_.push_back(std::move(stage));
  }
}

Pretokenizer::~Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;

void Pretokenizer::split_valid(std::string_view text, std::size_t stage,
                               const std::function<void(std::string_view)>& word) const {
  if (stage == stages_.size()) return word(text);
  const pcre2_code* code = stages_[stage].code.get();
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code, nullptr));
  if (!match) throw std::bad_alloc();
  const std::size_t* ends = pcre2_get_ovector_pointer(match.get());
  for (std::size_t at = 0; at < text.size(); at = ends[1]) {
    const auto search = [&](std::uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                         options | PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    };
    int found = search(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(PCRE2_NO_JIT);
    if (found < 1 || ends[1] <= at) {  // the patterns match any character
      throw std::runtime_error("cutting a text into words failed: PCRE2 gave " +
                               std::to_string(found));
    }
    split_valid(text.substr(at, ends[1] - at), stage + 1, word);
  }
}

void Pretokenizer::split(std::string_view text,
                         const std::function<void(std::string_view)>& word) const {
  while (!text.empty()) {
    const std::size_t valid = utf8_valid_prefix(text);
    if (valid > 0) split_valid(text.substr(0, valid), 0, word);
    text.remove_prefix(valid);
    if (!text.empty()) {
      word(text.substr(0, 1));
      text.remove_prefix(1);
    }
  }
}

}  // namespace kvscope
