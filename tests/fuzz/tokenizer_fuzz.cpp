// A tokenizer.json, or the tokenizer of a GGUF file, and a text through it.
#include <span>
#include <string_view>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/load.h"
#include "runner/tokenizer/tokenizer_json.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvscope;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kText =
      "Hello  World's 12345 <s>\n\n\t naïve 中文 e\u0301 <|im_end|>▁x … 😀  <right>   <Left> [INST]";
  try {
    const auto tokenizer =
        bytes.starts_with("GGUF")
            ? load_tokenizer(GgufFile("fuzz", std::as_bytes(std::span(bytes)), nullptr))
            : parse_tokenizer_json(bytes, {});
    tokenizer->decode(tokenizer->encode(kText, SpecialTokens::kParse));
    tokenizer->encode(kText, SpecialTokens::kAsText);
  } catch (const DataError&) {  // refused: well
  }
  return 0;
}
