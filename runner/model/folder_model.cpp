#include "runner/model/folder_model.h"

#include <string>

#include "runner/base/error.h"
#include "runner/model/architecture.h"
#include "runner/model/checkpoint.h"
#include "runner/model/gguf_model.h"
#include "runner/model/read_config.h"
#include "runner/model/safetensors_store.h"

namespace kvscope {
namespace {

JsonSettings open_config(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / "config.json"))
    throw DataError(folder.string() + ": has no config.json; is this a model's folder?");
  return JsonSettings::open(folder / "config.json");
}

const Architecture& architecture_of(const JsonSettings& config) {
  const std::string type = config.string("model_type").value_or("");
  if (type.empty()) config.fail("key 'model_type' is missing; is this a model?");
  const Architecture* known = architecture_of_folder(type);
  if (known == nullptr) {
    config.fail("models of type " + kvscope::quoted(type) + " are not supported; use one of " +
                known_model_types());
  }
  return *known;
}

std::string name_of(const std::filesystem::path& folder) {
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

ModelConfig read_config(const JsonSettings& all, const std::string& name) {
  const Architecture& architecture = architecture_of(all);
  if (all.has("quantization_config"))
    all.fail("quantised checkpoints are not read; use one of F32, F16 or BF16, or GGUF");
  // Models that also see keep the text model's settings apart.
  const JsonSettings settings = all.object("text_config").value_or(all);
  ModelConfig c;
  c.architecture = architecture.name;
  c.name = name;
  if (architecture.set_defaults != nullptr) architecture.set_defaults(c);
  read_json_sizes(settings, c);
  architecture.read_json(settings, c);
  check_sizes(c, [&](const std::string& what) { settings.fail(what); });
  drop_idle_window(c);
  c.stop_tokens = settings.integers("eos_token_id");
  return c;
}

ModelConfig read_folder_config(const std::filesystem::path& folder) {
  ModelConfig c = read_config(open_config(folder), name_of(folder));
  const auto generation = folder / "generation_config.json";
  if (!std::filesystem::exists(generation)) return c;
  std::vector<std::int32_t> ends = JsonSettings::open(generation).integers("eos_token_id");
  if (!ends.empty()) c.stop_tokens = std::move(ends);
  return c;
}

std::unique_ptr<WeightSource> open_folder_model(const std::filesystem::path& folder) {
  const Architecture& architecture = architecture_of(open_config(folder));
  ModelConfig config = read_folder_config(folder);
  std::vector<std::string_view> unused(architecture.unused.begin(), architecture.unused.end());
  if (config.tied_head) unused.emplace_back("lm_head.weight");  // a copy of the embedding
  return std::make_unique<Checkpoint>(std::move(config), std::make_unique<SafetensorsStore>(folder),
                                      architecture.in_folder, unused);
}

std::unique_ptr<WeightSource> open_model_source(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? open_folder_model(path) : open_gguf_model(path);
}

}  // namespace kvscope
