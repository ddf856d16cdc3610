#include "runner/tokenizer/open_tokenizer.h"

#include "runner/model/gguf_file.h"
#include "runner/tokenizer/load.h"

namespace kvscope {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path) {
  return load_tokenizer(*GgufFile::open(path));
}

}  // namespace kvscope
