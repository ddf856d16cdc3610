// What the subcommands share: how one is registered, the options that describe a model and an arm,
// opening a model.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/commands/choose_backend.h"
#include "harness/exit_code.h"
#include "runner/engine/engine.h"
#include "runner/policies/spec.h"
#include "runner/tokenizer/tokenizer.h"

namespace CLI {
class App;
}

namespace kvscope {

// Parsing only chooses what to run, so that errors of the command line and of the work stay apart.
struct CommandContext {
  CudaSupport cuda;                    // what main() was built with; {}: without CUDA
  std::function<ExitCode()> run = {};  // set by the subcommand that was named
};

// Parses, runs and turns every error into one line on stderr and an exit status.
int run_program(CLI::App& app, const CommandContext& context, int argc, const char* const* argv);

// Makes `command` what runs if it was named. Its options live in the closure.
void set_action(CLI::App& command, CommandContext& context, std::function<ExitCode()> run);

// ---- model ----

struct ModelOptions {
  std::string file;           // empty: default_model_file()
  std::string chat_template;  // as --chat-template says it; empty: the model's own
  std::string dtype = "f32";
  std::string kv_dtype;  // empty: as dtype
  BackendOptions backend;
  int threads = 0;  // 0: all processors
  bool beyond_context = false;
};

// --model, --dtype, --kv-dtype, --backend, --device, --threads, --beyond-context.
void add_model_options(CLI::App& command, ModelOptions& options);
// --ghosts and --ghost-cap, of commands with --probe.
void add_ghost_options(CLI::App& command, std::string& ghosts, int& ghost_cap);
void add_model_file_option(CLI::App& command, std::string& file);  // --model alone

// Where scripts/fetch-model puts the default model: ${XDG_CACHE_HOME:-~/.cache}/kvscope.
std::filesystem::path default_model_file();

// `file`, or the default model. Throws IoError if it is not there (names scripts/fetch-model for
// the default one).
std::filesystem::path model_file_or_default(const std::string& file);

// The tokenizer alone of `file` or the default model, with the chat template that --chat-template
// names. Throws as model_file_or_default, open_tokenizer and chat_template_text do.
std::unique_ptr<Tokenizer> open_model_tokenizer(const std::string& file,
                                                const std::string& chat_template);

// Wall time of the parts of open_model.
struct LoadSeconds {
  double file = 0.0;  // mapped and its header parsed
  double tokenizer = 0.0;
  double sha256 = 0.0;   // of the file
  double weights = 0.0;  // read, dequantised, packed
};

// Everything a command needs to compute. Members are declared in order of dependence.
struct OpenedModel {
  std::filesystem::path file;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<CudaDevice> device;  // as it was before the weights came; nothing: the CPU
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  LoadSeconds load_seconds;
};
// cuda: what the program was built with. Says on stderr what `--backend auto` chose.
OpenedModel open_model(const ModelOptions& options, const CudaSupport& cuda);

// ---- one arm ----

struct ArmOptions {
  std::string policy;
  std::string budget;  // ratio as written
  std::optional<int> budget_tokens;
  std::vector<std::string> plugins;  // files
};
// --policy, --policy-plugin, --budget, --budget-tokens
void add_arm_options(CLI::App& command, ArmOptions& options);
// --policy-plugin FILE.so, any number of times.
void add_plugin_option(CLI::App& command, std::vector<std::string>& files);

// Database of sweeps where --db is not given.
inline constexpr const char* kDefaultDatabase = "kvscope.db";

// Budget of the options; nullopt if none is given. `full` accepts and ignores one: always 1000
// permille.
std::optional<Budget> budget_of(const ArmOptions& options, const PolicySpec& spec);

}  // namespace kvscope
