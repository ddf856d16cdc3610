#include "harness/commands/inspect.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <map>

#include "harness/report/json.h"
#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/cache/page_pool.h"
#include "runner/model/folder_model.h"
#include "runner/model/gguf_model.h"
#include "runner/model/model_bytes.h"
#include "runner/model/safetensors_store.h"
#include "runner/tokenizer/open_tokenizer.h"

namespace kvscope {
namespace {

struct TypeCount {
  int tensors = 0;
  std::int64_t bytes = 0;
};

struct Inspection {
  std::filesystem::path path;
  std::string format;
  std::optional<ModelConfig> config;  // none where its settings are refused
  std::map<std::string, TypeCount> types;
  std::int64_t file_bytes = 0;
  std::string tokenizer;  // "49,152 tokens", or nothing
  bool has_chat_template = false;
  std::vector<std::string> refused;  // one line each: what of it this program will not take
};

void count(Inspection& found, TensorType type, std::size_t bytes) {
  TypeCount& counted = found.types[block_format(std::uint32_t(type))->name];
  ++counted.tensors;
  counted.bytes += std::int64_t(bytes);
}

// Runs a step of opening the model; what it throws is a reason to refuse it.
void attempt(Inspection& found, const std::function<void()>& step) {
  try {
    step();
  } catch (const DataError& error) {
    found.refused.emplace_back(error.what());
  } catch (const IoError& error) {
    found.refused.emplace_back(error.what());
  }
}

Inspection inspect(const std::filesystem::path& path) {
  Inspection found;
  found.path = path;
  if (std::filesystem::is_directory(path)) {
    found.format = "safetensors";
    const SafetensorsStore store(path);
    for (const auto& file : store.files()) {
      found.file_bytes += std::int64_t(file->bytes().size());
      for (const auto& [name, tensor] : file->tensors())
        count(found, tensor.type, tensor.data.size());
    }
    attempt(found, [&] { found.config = read_folder_config(path); });
  } else {
    const std::shared_ptr<const GgufFile> file = GgufFile::open(path);
    found.format = "GGUF";
    found.file_bytes = std::int64_t(file->bytes().size());
    for (const auto& [name, tensor] : file->tensors())
      count(found, tensor.type, tensor.data.size());
    attempt(found, [&] { found.config = read_gguf_config(*file); });
  }
  if (found.config) attempt(found, [&] { open_model_source(path); });
  attempt(found, [&] {
    const auto tokenizer = open_tokenizer(path);
    found.tokenizer = std::to_string(tokenizer->n_vocab()) + " tokens";
    found.has_chat_template = !tokenizer->chat_template().empty();
  });
  return found;
}

std::int64_t kv_bytes_per_token(const ModelConfig& c, DType dtype) {
  return std::int64_t(c.n_layers) * c.n_kv_heads *
         std::int64_t(PageShape{c.head_dim, dtype, true}.token_bytes());
}

// What is not Llama's in it, in words.
std::vector<std::string> peculiarities(const ModelConfig& c) {
  const BlockForm& form = c.form;
  std::vector<std::string> words;
  const auto add_if = [&](bool is_so, const std::string& what) {
    if (is_so) words.push_back(what);
  };
  add_if(form.norm == Norm::kLayer, "LayerNorm");
  add_if(form.qkv_bias, "QKV biases");
  add_if(form.mlp_bias, "MLP biases");
  add_if(form.qk_norm, "query and key norms");
  add_if(form.post_norms, "norms after sub-layers");
  add_if(form.parallel_mlp, "parallel MLP");
  add_if(form.activation == Activation::kGeGluTanh, "GeGLU");
  add_if(form.activation == Activation::kRelu, "ReLU");
  add_if(form.activation == Activation::kGelu || form.activation == Activation::kGeluTanh, "GELU");
  add_if(form.learned_positions, "learned positions");
  add_if(c.rotary_dim > 0, "RoPE on " + std::to_string(c.rotary_dim) + " dimensions");
  add_if(c.rotary_dim == 0 && !c.rope_frequency.empty() && !form.learned_positions &&
             c.windowed_rope_frequency.empty(),
         "scaled RoPE");
  add_if(!c.windowed_rope_frequency.empty(), "two RoPE bases");
  if (c.window > 0) {
    int n = 0;
    for (int layer = 0; layer < c.n_layers; ++layer) n += c.window_of(layer) > 0 ? 1 : 0;
    words.push_back("window of " + std::to_string(c.window) + " in " + std::to_string(n) +
                    " layers");
  }
  return words;
}

// The CPU computes every architecture the same way: one forward pass, kernels by element type.
std::string cuda_note(const ModelConfig& c) {
  return c.is_plain() ? "cpu and cuda" : "cpu only (cuda computes Llama's kind of block)";
}

void print_json(const Inspection& found) {
  Json types = Json::object();
  for (const auto& [name, counted] : found.types)
    types[name] = {{"tensors", counted.tensors}, {"bytes", counted.bytes}};
  Json out = {{"path", found.path.string()},
              {"format", found.format},
              {"file_bytes", found.file_bytes},
              {"types", types}};
  if (found.config) {
    const ModelConfig& c = *found.config;
    out.update({{"architecture", c.architecture},
                {"name", c.name},
                {"layers", c.n_layers},
                {"query_heads", c.n_heads},
                {"kv_heads", c.n_kv_heads},
                {"head_dim", c.head_dim},
                {"d_model", c.d_model},
                {"d_ff", c.d_ff},
                {"vocabulary", c.n_vocab},
                {"context", c.context_length},
                {"window", c.window},
                {"tied_head", c.tied_head},
                {"differs", peculiarities(c)},
                {"kv_bytes_per_token",
                 {{"f32", kv_bytes_per_token(c, DType::kF32)},
                  {"bf16", kv_bytes_per_token(c, DType::kBF16)}}},
                {"weight_bytes",
                 {{"f32", weight_bytes(c, DType::kF32)}, {"bf16", weight_bytes(c, DType::kBF16)}}},
                {"computed_on", cuda_note(c)}});
  }
  out["tokenizer"] = found.tokenizer.empty() ? Json(nullptr) : Json(found.tokenizer);
  out["chat_template"] = found.has_chat_template;
  out["refused"] = found.refused;
  print_json_line(std::cout, out);
}

void print_text(const Inspection& found) {
  const auto line = [](const std::string& label, const std::string& value) {
    std::cout << label << std::string(label.size() < 16 ? 16 - label.size() : 1, ' ') << value
              << '\n';
  };
  line("file",
       found.path.string() + " (" + found.format + ", " + format_bytes(found.file_bytes) + ")");
  if (found.config) {
    const ModelConfig& c = *found.config;
    const auto n = [](int value) { return std::to_string(value); };
    line("architecture", c.architecture + " (" + c.name + ")");
    line("layers", n(c.n_layers) + ", width " + n(c.d_model) + ", MLP " + n(c.d_ff));
    line("heads", n(c.n_heads) + " query, " + n(c.n_kv_heads) + " KV, of " + n(c.head_dim));
    line("vocabulary", n(c.n_vocab) + (c.tied_head ? ", head tied to the embedding" : ""));
    line("context", n(c.context_length) + " tokens");
    std::string differs;
    for (const std::string& word : peculiarities(c))
      differs += (differs.empty() ? "" : ", ") + word;
    if (!differs.empty()) line("unlike Llama", differs);
    line("weights", format_bytes(weight_bytes(c, DType::kF32)) + " in f32, " +
                        format_bytes(weight_bytes(c, DType::kBF16)) + " in bf16");
    line("KV per token", format_bytes(kv_bytes_per_token(c, DType::kF32)) + " in f32, " +
                             format_bytes(kv_bytes_per_token(c, DType::kBF16)) + " in bf16");
    line("computed on", cuda_note(c));
  }
  std::string types;
  for (const auto& [name, counted] : found.types) {
    types += (types.empty() ? "" : ", ") + std::to_string(counted.tensors) + " " + name + " (" +
             format_bytes(counted.bytes) + ")";
  }
  line("tensors", types);
  if (!found.tokenizer.empty()) {
    line("tokenizer",
         found.tokenizer + (found.has_chat_template ? ", chat template" : ", no chat template"));
  }
  for (const std::string& why : found.refused) line("refused", why);
}

}  // namespace

void add_inspect_command(CLI::App& app, CommandContext& context) {
  struct Options {
    std::string model;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "inspect", "What a model's files say: shapes, types, tokenizer, and what would be refused");
  command->add_option("model", options->model,
                      "GGUF file, or folder with config.json and safetensors (default: the fetched "
                      "model)");
  command->add_flag("--json", options->json, "One JSON object");
  command->footer("Examples:\n  kvscope inspect\n  kvscope inspect models/Qwen2.5-0.5B --json");
  set_action(*command, context, [options] {
    const Inspection found = inspect(model_file_or_default(options->model));
    if (options->json) {
      print_json(found);
    } else {
      print_text(found);
    }
    return found.refused.empty() ? ExitCode::kOk : ExitCode::kData;
  });
}

}  // namespace kvscope
