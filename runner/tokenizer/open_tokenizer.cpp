#include "runner/tokenizer/open_tokenizer.h"

#include <fstream>
#include <string>

#include "runner/base/error.h"
#include "runner/model/gguf_file.h"
#include "runner/tokenizer/load.h"
#include "runner/tokenizer/sentencepiece_tokenizer.h"
#include "runner/tokenizer/tokenizer_json.h"
#include "runner/tokenizer/tokenizer_settings.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

fs::path file_in(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::exists(path / name, ignored)) return path / name;
  }
  throw IoError(path.string() +
                ": has neither tokenizer.json nor tokenizer.model; name a folder with one");
}

// Its first bytes, at most four.
std::string beginning(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes(4, '\0');
  in.read(bytes.data(), 4);
  if (in.gcount() == 0) throw IoError(path.string() + ": cannot be read, or is empty");
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  return bytes;
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
  const fs::path file = file_in(path);
  const std::string first = beginning(file);
  if (first == "GGUF") return load_tokenizer(*GgufFile::open(file));
  const TokenizerSettings settings = read_settings(file.parent_path());
  try {
    const std::size_t text = first.find_first_not_of(" \t\r\n");
    if (text == std::string::npos || first[text] == '{') {
      return parse_tokenizer_json(read_file(file), settings);
    }
    return read_sentencepiece(read_file(file), settings);
  } catch (const DataError& error) {
    throw DataError(file.string() + ": " + error.what());
  }
}

}  // namespace kvscope
