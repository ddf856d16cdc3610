// --chat-template.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace kvscope {

void add_chat_option(CLI::App& command, std::string& chat_template);

// What chat_for() understands: a form's name, "none", or a file's Jinja text. Throws UsageError for
// what is neither a known name nor a file.
std::string chat_template_text(const std::string& option);

}  // namespace kvscope
