#include "runner/model/gguf_model.h"

#include <cstdint>
#include <string>

#include "runner/model/architecture.h"
#include "runner/model/checkpoint.h"
#include "runner/model/gguf_store.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr int kLargest = 1 << 30;

const Architecture& architecture_of(const GgufFile& file) {
  const auto name = file.string("general.architecture");
  if (!name) file.fail("key 'general.architecture' is missing; is this a model?");
  const Architecture* known = architecture_of_gguf(*name);
  if (known == nullptr) {
    file.fail("architecture " + kvscope::quoted(*name) + " is not supported; use a model of " +
              known_gguf_architectures());
  }
  return *known;
}

int count_vocabulary(const GgufFile& file) {
  const GgufTensor* embedding = file.tensor("token_embd.weight");
  if (embedding == nullptr) file.fail("tensor 'token_embd.weight' is missing; is this a model?");
  const std::uint64_t rows = embedding->dims[1];
  if (rows > static_cast<std::uint64_t>(kLargest)) file.fail("its vocabulary is impossibly big");
  const auto tokens = file.metadata().find("tokenizer.ggml.tokens");
  if (tokens != file.metadata().end() && tokens->second.count != rows) {
    file.fail("lists " + std::to_string(tokens->second.count) + " tokens for " +
              std::to_string(rows) + " embedding rows; convert the model again");
  }
  return static_cast<int>(rows);
}

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file) {
  const Architecture& architecture = architecture_of(file);
  if (file.integer("split.count").value_or(1) > 1)
    file.fail("is one part of a split model; merge the parts into one file first");
  ModelConfig c;
  c.architecture = architecture.name;
  c.name = file.string("general.name").value_or("");
  if (c.name.empty()) c.name = std::filesystem::path(file.name()).stem().string();
  architecture.read_gguf(GgufKeys(file, architecture.name), c);
  c.n_vocab = count_vocabulary(file);
  check_sizes(c, [&](const std::string& what) { file.fail(what); });
  drop_idle_window(c);
  return c;
}

std::unique_ptr<WeightSource> open_gguf_model(const std::filesystem::path& path) {
  return open_gguf_model(GgufFile::open(path));
}

std::unique_ptr<WeightSource> open_gguf_model(std::shared_ptr<const GgufFile> file) {
  const Architecture& architecture = architecture_of(*file);
  ModelConfig config = read_gguf_config(*file);
  std::vector<std::string_view> unused(architecture.unused.begin(), architecture.unused.end());
  unused.emplace_back("rope_freqs.weight");  // read with the keys
  return std::make_unique<Checkpoint>(std::move(config), std::make_unique<GgufStore>(file),
                                      architecture.in_file, unused);
}

}  // namespace kvscope
