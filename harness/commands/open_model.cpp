#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "harness/commands/chat_option.h"
#include "harness/commands/common.h"
#include "runner/base/error.h"
#include "runner/model/folder_model.h"
#include "runner/tokenizer/open_tokenizer.h"
#include "runner/tokenizer/with_chat_template.h"

namespace kvscope {
namespace {

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw UsageError("unknown element type '" + name + "': write f32, bf16 or f16");
}

// Seconds since it was made or last asked.
class Lap {
 public:
  double seconds() {
    const Clock::time_point start = std::exchange(start_, Clock::now());
    return std::chrono::duration<double>(start_ - start).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

void add_model_file_option(CLI::App& command, std::string& file) {
  command.add_option(
      "--model", file,
      "GGUF file, or folder with config.json and safetensors (default: the fetched model)");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  add_model_file_option(command, options.file);
  add_chat_option(command, options.chat_template);
  command.add_option("--dtype", options.dtype, "Weights are held as f32 (default), bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command
      .add_option("--kv-dtype", options.kv_dtype,
                  "Keys and values are held as f32, bf16 or f16 (default: as --dtype)")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command
      .add_option("--backend", options.backend.backend,
                  "Compute on cpu, cuda, or auto: cuda where a device can be used. Results of the "
                  "two are never mixed")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  command
      .add_option("--device", options.backend.device,
                  "CUDA device by number (default: the first that can be used; see doctor)")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--threads", options.threads,
                  "Computing threads of the CPU (default: all processors)")
      ->check(CLI::Range(0, 1024));
  command.add_flag("--beyond-context", options.beyond_context,
                   "Allow absolute positions beyond the model's trained context");
}

std::filesystem::path default_model_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder;
  if (cache != nullptr && *cache != '\0') {
    folder = cache;
  } else {
    folder = std::filesystem::path(home != nullptr ? home : "/") / ".cache";
  }
  return folder / "kvscope" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

std::filesystem::path model_file_or_default(const std::string& file) {
  const std::filesystem::path path =
      file.empty() ? default_model_file() : std::filesystem::path(file);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw IoError(
        path.string() + ": no such model file: " +
        (file.empty() ? "run scripts/fetch-model, or name one with --model" : "check --model"));
  }
  return path;
}

std::unique_ptr<Tokenizer> open_model_tokenizer(const std::string& file,
                                                const std::string& chat_template) {
  const std::string chat = chat_template.empty() ? "" : chat_template_text(chat_template);
  auto tokenizer = open_tokenizer(model_file_or_default(file));
  return chat.empty() ? std::move(tokenizer) : with_chat_template(std::move(tokenizer), chat);
}

OpenedModel open_model(const ModelOptions& options, const CudaSupport& cuda) {
  const std::string chat =
      options.chat_template.empty() ? "" : chat_template_text(options.chat_template);
  OpenedModel opened;
  opened.file = model_file_or_default(options.file);
  Lap lap;
  const auto source = open_model_source(opened.file);
  opened.load_seconds.file = lap.seconds();
  opened.tokenizer = open_tokenizer(opened.file);
  opened.load_seconds.tokenizer = lap.seconds();
  const DType dtype = dtype_of(options.dtype);
  const DType kv_dtype = options.kv_dtype.empty() ? dtype : dtype_of(options.kv_dtype);
  // Before anything long: what is not there shows at once.
  const BackendChoice choice = choose_backend(
      options.backend, cuda, {source->config(), dtype, kv_dtype, options.kv_dtype.empty()});
  if (!choice.note.empty()) std::fprintf(stderr, "note: %s\n", choice.note.c_str());
  source->sha256();
  opened.load_seconds.sha256 = lap.seconds();
  opened.device = choice.device;
  opened.backend = make_backend(choice, cuda, options.threads);
  opened.model = std::make_unique<Model>(load_model(*source, *opened.backend, dtype, kv_dtype));
  opened.load_seconds.weights = lap.seconds();
  opened.engine = std::make_unique<Engine>(*opened.model, *opened.backend);
  opened.engine->allow_beyond_context(options.beyond_context);
  if (!chat.empty()) {
    opened.tokenizer = with_chat_template(std::move(opened.tokenizer), chat);
  }
  return opened;
}

}  // namespace kvscope
