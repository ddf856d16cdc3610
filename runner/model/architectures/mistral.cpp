// Mistral (Jiang et al. 2023, arXiv:2310.06825): Llama whose layers attend to a sliding window.
// GGUF files of it say "llama".
#include "runner/model/architectures/all.h"
#include "runner/model/architectures/llama_names.h"
#include "runner/model/read_config.h"

namespace kvscope {
namespace {

constexpr std::string_view kTypes[] = {"mistral"};

void read_json(const JsonSettings& in, ModelConfig& c) {
  c.d_ff = in.positive("intermediate_size");
  c.rms_eps = float(in.positive_real("rms_norm_eps", 1e-6));
  require_json(in, "hidden_act", "silu");
  read_json_tied_head(in, false, c);
  read_json_rope(in, c.head_dim, c);
  read_json_windows(in, 0, c);
  if (!in.mentions("sliding_window") && c.context_length > 4096) c.window = 4096;  // the default
}

}  // namespace

const Architecture kMistral = {.name = "mistral",
                               .model_types = kTypes,
                               .in_gguf = false,
                               .read_json = read_json,
                               .read_gguf = nullptr,
                               .in_folder = kLlamaFolder,
                               .in_file = {},
                               .unused = kUnusedOfLlama};

}  // namespace kvscope
