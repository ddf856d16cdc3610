#include "harness/commands/chat_option.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "datasets/chat/chat_form.h"
#include "harness/commands/input.h"
#include "runner/base/error.h"

namespace kvscope {

void add_chat_option(CLI::App& command, std::string& chat_template) {
  command.add_option("--chat-template", chat_template,
                     "none: plain text; a form by name (" + known_chat_forms() +
                         "); or a file with a Jinja template of one (default: the model's own)");
}

std::string chat_template_text(const std::string& option) {
  if (option == "none" || find_chat_form(option) != nullptr) return option;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(option, ignored)) {
    throw UsageError("--chat-template " + option + ": neither a file nor a form; known are none, " +
                     known_chat_forms());
  }
  return read_exact_text(option);
}

}  // namespace kvscope
