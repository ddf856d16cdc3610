#include "metrics/quality/chinese_text.h"

#include "metrics/quality/normalize.h"
#include "metrics/quality/unicode.h"

namespace kvscope {
namespace {

constexpr std::u32string_view kPunctuation =
    U"！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃》「」『』【】〔"
    U"〕"
    U"〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏";

}  // namespace

std::string normalize_chinese(std::string_view text) {
  const std::string small = lower(text);
  std::string result;
  for (std::size_t i = 0; i < small.size();) {
    const char32_t c = next_code_point(small, i);
    const bool ascii = c < 0x80 && is_ascii_punctuation(static_cast<char>(c));
    if (ascii || is_space(c) || kPunctuation.find(c) != std::u32string_view::npos) continue;
    append_code_point(result, c);
  }
  return result;
}

}  // namespace kvscope
