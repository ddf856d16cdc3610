#include "harness/commands/common.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "runner/base/error.h"
#include "runner/base/out_of_memory.h"

namespace kvscope {
namespace {

int fail(ExitCode code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cout.flush();
  std::fprintf(stderr, "kvscope: %s\n", message.c_str());
  return to_int(code);
}

// The write that failed may be long ago, so errno does not tell.
bool reader_is_gone() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

// A full disk or a closed pipe must not look like success. Whoever closed the pipe has seen enough:
// no message then.
int close_output(ExitCode code) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0) return to_int(code);
  if (reader_is_gone()) return to_int(ExitCode::kIo);
  return fail(ExitCode::kIo, "cannot write the output");
}

// The innermost subcommand that was named, for "see … --help".
std::string named_command(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app.get_name() : app.get_name() + " " + named.front()->get_name();
}

}  // namespace

int run_program(CLI::App& app, const CommandContext& context, int argc, const char* const* argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    app.exit(wanted);
    return close_output(ExitCode::kOk);
  } catch (const CLI::ParseError& error) {
    return fail(ExitCode::kUsage,
                std::string(error.what()) + " (see " + named_command(app) + " --help)");
  }
  if (!context.run) {
    return fail(ExitCode::kUsage,
                "no subcommand: say what to do, for example kvscope sweep (see kvscope --help)");
  }
  try {
    return close_output(context.run());
  } catch (const UsageError& error) {
    return fail(ExitCode::kUsage, error.what());
  } catch (const DataError& error) {
    return fail(ExitCode::kData, error.what());
  } catch (const IoError& error) {
    return fail(ExitCode::kIo, error.what());
  } catch (const std::bad_alloc& error) {
    return fail(ExitCode::kInternal,
                out_of_memory_text(error) + ": use a shorter text, fewer arms or --kv-dtype bf16");
  } catch (const std::exception& error) {
    return fail(ExitCode::kInternal, std::string("internal error: ") + error.what());
  }
}

void set_action(CLI::App& command, CommandContext& context, std::function<ExitCode()> run) {
  command.callback([&context, run = std::move(run)] { context.run = run; });
}

void add_arm_options(CLI::App& command, ArmOptions& options) {
  command.add_option("--policy", options.policy, "Policy, like h2o:norm=mean (see list policies)")
      ->required();
  add_plugin_option(command, options.plugins);
  auto* ratio =
      command.add_option("--budget", options.budget, "Resident tokens as a ratio, like 0.2");
  command
      .add_option("--budget-tokens", options.budget_tokens, "Resident tokens per layer and KV head")
      ->excludes(ratio);
}

void add_plugin_option(CLI::App& command, std::vector<std::string>& files) {
  command
      .add_option("--policy-plugin", files,
                  "A policy of your own as a shared object; may be given again (docs/plugins.md)")
      ->type_name("FILE.so")
      ->expected(1)
      ->take_all();
}

std::optional<Budget> budget_of(const ArmOptions& options, const PolicySpec& spec) {
  Budget budget;
  if (!options.budget.empty()) {
    budget = parse_budget_ratio(options.budget);
  } else if (options.budget_tokens) {
    if (*options.budget_tokens < 1) {
      throw UsageError("--budget-tokens " + std::to_string(*options.budget_tokens) +
                       ": at least 1 token must stay");
    }
    budget.tokens = options.budget_tokens;
  } else if (!spec.is_full()) {
    return std::nullopt;
  }
  if (spec.is_full()) {
    budget.tokens.reset();
    budget.permille = 1000;
  }
  return budget;
}

void add_ghost_options(CLI::App& command, std::string& ghosts, int& ghost_cap) {
  command
      .add_option(
          "--ghosts", ghosts,
          "How probes remember evicted tokens: f32 (as the cache has them; a prompt's share "
          "its pages) or int8 (copied, a byte an element)")
      ->capture_default_str();
  command
      .add_option(
          "--ghost-cap", ghost_cap,
          "Copied evicted tokens that probes remember of each layer and KV head; later ones "
          "are forgotten. 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30));
}

}  // namespace kvscope
