#include "datasets/chat/chat_form.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvscope {
namespace {

constexpr std::array<ChatForm, 12> kForms = {{
    {.name = "chatml",
     .opening = "<|im_start|>user\n",
     .opening_with_system = "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n",
     .next_user = "<|im_start|>user\n",
     .user_tail = "<|im_end|>\n",
     .assistant_head = "<|im_start|>assistant\n",
     .assistant_tail = "<|im_end|>\n",
     .turn_end = "<|im_end|>",
     .trim = ChatTrim::kNone,
     .spaced_answer = false,
     .any_role = true},
    {.name = "llama-2",
     .opening = "[INST] ",
     .opening_with_system = "[INST] <<SYS>>\n{system}\n<</SYS>>\n\n",
     .next_user = "{bos}[INST] ",
     .user_tail = " [/INST]",
     .assistant_head = "",
     .assistant_tail = " {eos}",
     .turn_end = "{eos}",
     .trim = ChatTrim::kJoined,
     .spaced_answer = true,
     .any_role = false},
    {.name = "llama-3",
     .opening = "<|start_header_id|>user<|end_header_id|>\n\n",
     .opening_with_system = "<|start_header_id|>system<|end_header_id|>\n\n{system}<|eot_id|>"
                            "<|start_header_id|>user<|end_header_id|>\n\n",
     .next_user = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_tail = "<|eot_id|>",
     .assistant_head = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .assistant_tail = "<|eot_id|>",
     .turn_end = "<|eot_id|>",
     .trim = ChatTrim::kMessages,
     .spaced_answer = false,
     .any_role = false},
    // Also 3.2 and 3.3. A template that asks for today's date gets the one that it names for when
    // that is not known, so that prompts are the same every day.
    {.name = "llama-3.1",
     .opening = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December "
                "2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"
                "<|start_header_id|>user<|end_header_id|>\n\n",
     .opening_with_system =
         "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December "
         "2023\nToday Date: 26 Jul 2024\n\n{system}<|eot_id|>"
         "<|start_header_id|>user<|end_header_id|>\n\n",
     .next_user = "<|start_header_id|>user<|end_header_id|>\n\n",
     .user_tail = "<|eot_id|>",
     .assistant_head = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .assistant_tail = "<|eot_id|>",
     .turn_end = "<|eot_id|>",
     .trim = ChatTrim::kMessages,
     .spaced_answer = false,
     .any_role = false},
    // Mistral-7B-Instruct 0.1 and 0.2 as they were published; v1, v3 and v3-tekken are the forms
    // that later templates write.
    {.name = "mistral",
     .opening = "[INST] ",
     .opening_with_system = nullptr,
     .next_user = "[INST] ",
     .user_tail = " [/INST]",
     .assistant_head = "",
     .assistant_tail = "{eos}",
     .turn_end = "{eos}",
     .trim = ChatTrim::kNone,
     .spaced_answer = true,
     .any_role = false},
    {.name = "mistral-v1",
     .opening = " [INST] ",
     .opening_with_system = " [INST] {system}\n\n",
     .next_user = " [INST] ",
     .user_tail = " [/INST]",
     .assistant_head = "",
     .assistant_tail = "{eos}",
     .turn_end = "{eos}",
     .trim = ChatTrim::kNone,
     .spaced_answer = true,
     .any_role = false},
    {.name = "mistral-v3",
     .opening = "[INST] ",
     .opening_with_system = "[INST] {system}\n\n",
     .next_user = "[INST] ",
     .user_tail = "[/INST]",
     .assistant_head = "",
     .assistant_tail = "{eos}",
     .turn_end = "{eos}",
     .trim = ChatTrim::kNone,
     .spaced_answer = true,
     .any_role = false},
    {.name = "mistral-v3-tekken",
     .opening = "[INST]",
     .opening_with_system = "[INST]{system}\n\n",
     .next_user = "[INST]",
     .user_tail = "[/INST]",
     .assistant_head = "",
     .assistant_tail = "{eos}",
     .turn_end = "{eos}",
     .trim = ChatTrim::kNone,
     .spaced_answer = false,
     .any_role = false},
    {.name = "gemma",
     .opening = "<start_of_turn>user\n",
     .opening_with_system = nullptr,
     .next_user = "<start_of_turn>user\n",
     .user_tail = "<end_of_turn>\n",
     .assistant_head = "<start_of_turn>model\n",
     .assistant_tail = "<end_of_turn>\n",
     .turn_end = "<end_of_turn>",
     .trim = ChatTrim::kMessages,
     .spaced_answer = false,
     .any_role = false},
    {.name = "gemma-3",
     .opening = "<start_of_turn>user\n",
     .opening_with_system = "<start_of_turn>user\n{system}\n\n",
     .next_user = "<start_of_turn>user\n",
     .user_tail = "<end_of_turn>\n",
     .assistant_head = "<start_of_turn>model\n",
     .assistant_tail = "<end_of_turn>\n",
     .turn_end = "<end_of_turn>",
     .trim = ChatTrim::kUser,
     .spaced_answer = false,
     .any_role = false},
    {.name = "phi-3",
     .opening = "<|user|>\n",
     .opening_with_system = "<|system|>\n{system}<|end|>\n<|user|>\n",
     .next_user = "<|user|>\n",
     .user_tail = "<|end|>\n",
     .assistant_head = "<|assistant|>\n",
     .assistant_tail = "<|end|>\n",
     .turn_end = "<|end|>",
     .trim = ChatTrim::kNone,
     .spaced_answer = false,
     .any_role = false},
    {.name = "zephyr",
     .opening = "<|user|>\n",
     .opening_with_system = "<|system|>\n{system}{eos}\n<|user|>\n",
     .next_user = "<|user|>\n",
     .user_tail = "{eos}\n",
     .assistant_head = "<|assistant|>\n",
     .assistant_tail = "{eos}\n",
     .turn_end = "{eos}",
     .trim = ChatTrim::kNone,
     .spaced_answer = false,
     .any_role = false},
}};

// What a template of a form holds and does not hold once it is normalised (see below): enough to
// tell apart templates that would render otherwise. The first row that fits counts.
struct Marks {
  const char* form;
  std::array<std::string_view, 4> has;
  std::array<std::string_view, 4> lacks;
};
constexpr std::array<Marks, 12> kMarks = {{
    {"chatml",
     {"<|im_start|>", "<|im_end|>\n", "<|im_start|>assistant\n"},
     {"strftime_now", "<|im_sep|>", "<|im_start|>assistant\n<think>", "| trim"}},
    {"llama-3.1",
     {"<|start_header_id|>", "<|end_header_id|>\n\n", "Cutting Knowledge Date: December 2023\n",
      "'26 Jul 2024'"},
     {"thinking"}},
    {"llama-3",
     {"<|start_header_id|>", "<|end_header_id|>\n\n'", "| trim", "'<|eot_id|>'"},
     {"Date", "tools", "thinking"}},
    {"gemma", {"<start_of_turn>", "<end_of_turn>\n", "| trim", "'System role not supported'"}, {}},
    {"gemma-3", {"<start_of_turn>", "<end_of_turn>\n", "| trim", "first_user_prefix"}, {}},
    // A literal system message would be a default.
    {"llama-2",
     {"<<SYS>>\n", "\n<</SYS>>\n\n", "bos_token + '[INST] ' + content.strip() + ' [/INST]'"},
     {"system_message = '"}},
    {"mistral-v1",
     {"' [INST] ' + message['content'] + ' [/INST]'", "' [INST] ' + system_message + '\n\n'"},
     {"system_message = '"}},
    {"mistral",
     {"'[INST] ' + message['content'] + ' [/INST]'"},
     {"system_message", "<<SYS>>", "'system'"}},
    {"mistral-v3",
     {"'[INST] ' + message['content'] + '[/INST]'", "'[INST] ' + system_message + '\n\n'"},
     {"system_message = '"}},
    {"mistral-v3-tekken",
     {"'[INST]' + message['content'] + '[/INST]'", "'[INST]' + system_message + '\n\n'"},
     {"system_message = '", "[SYSTEM_PROMPT]"}},
    {"phi-3", {"'<|user|>\n' + message['content'] + '<|end|>\n", "<|assistant|>\n'"}, {"tools"}},
    {"zephyr", {"'<|user|>\n' + message['content'] + eos_token", "'<|assistant|>' }}\n"}, {}},
}};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    out.append(text, copied, at - copied).append(to);
    copied = at += from.size();
  }
  text = out.append(text, copied);
}

// Templates say the same in several ways: quotes are made single, escaped line feeds are made line
// feeds, literals that are joined are put together, trim is written one way.
std::string normalised(std::string_view jinja) {
  std::string text(jinja);
  replace_all(text, "\"", "'");
  replace_all(text, "\\n", "\n");
  replace_all(text, "' + '", "");
  replace_all(text, "|trim", "| trim");
  return text;
}

bool fits(std::string_view jinja, const Marks& marks) {
  const auto holds = [&](std::string_view mark) { return jinja.find(mark) != jinja.npos; };
  return std::all_of(marks.has.begin(), marks.has.end(), holds) &&
         std::none_of(marks.lacks.begin(), marks.lacks.end(),
                      [&](std::string_view mark) { return !mark.empty() && holds(mark); });
}

// Jinja's escapes that occur in system messages.
std::string unescape(std::string_view literal) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] == '\\' && i + 1 < literal.size()) {
      const char c = literal[++i];
      text.push_back(c == 'n' ? '\n' : c == 't' ? '\t' : c);
    } else {
      text.push_back(literal[i]);
    }
  }
  return text;
}

// True if a string literal of the template ends inside `text`: then its rest comes from a variable.
bool leaves_literal(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '\'' || text.substr(i, 3) == "\" +" || text.substr(i, 2) == "{{" ||
               text.substr(i, 2) == "{%") {
      return true;
    }
  }
  return false;
}

}  // namespace

const ChatForm* find_chat_form(std::string_view name) {
  for (const ChatForm& form : kForms) {
    if (name == form.name) return &form;
  }
  return nullptr;
}

std::string known_chat_forms() {
  std::string names;
  for (const ChatForm& form : kForms) names += (names.empty() ? "" : ", ") + std::string(form.name);
  return names;
}

const ChatForm* recognise_chat(std::string_view jinja) {
  const std::string text = normalised(jinja);
  for (const Marks& marks : kMarks) {
    if (fits(text, marks)) return find_chat_form(marks.form);
  }
  return nullptr;
}

std::string fill_chat(std::string_view text, std::string_view system, std::string_view bos,
                      std::string_view eos) {
  const std::array<std::pair<std::string_view, std::string_view>, 3> values = {
      {{"{system}", system}, {"{bos}", bos}, {"{eos}", eos}}};
  std::string out;
  while (!text.empty()) {
    const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) {
      return text.starts_with(value.first);
    });
    if (found == values.end()) {
      out += text[0];
      text.remove_prefix(1);
    } else {
      out += found->second;
      text.remove_prefix(found->first.size());
    }
  }
  return out;
}

std::string default_system_message(std::string_view jinja_template) {
  constexpr std::string_view kOpening = "<|im_start|>system";
  for (std::size_t at = jinja_template.find(kOpening); at != std::string_view::npos;
       at = jinja_template.find(kOpening, at + 1)) {
    std::string_view rest = jinja_template.substr(at + kOpening.size());
    if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    const std::size_t end = rest.find("<|im_end|>");
    if (end == std::string_view::npos) continue;
    const std::string_view literal = rest.substr(0, end);
    if (!literal.empty() && !leaves_literal(literal)) return unescape(literal);
  }
  return {};
}

}  // namespace kvscope
