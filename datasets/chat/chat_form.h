// How the families of instruction-tuned models write a chat.
#pragma once

#include <string>
#include <string_view>

namespace kvscope {

// Which white space at messages' ends a family leaves out: none; the user's; also the system
// message's; that of both put together, so that the user's text keeps its own start behind a system
// message.
enum class ChatTrim { kNone, kUser, kMessages, kJoined };

// A chat of user and assistant in turn, as the family's template renders it. Placeholders:
// "{system}" is the system message, "{bos}" and "{eos}" the model's begin and end tokens.
struct ChatForm {
  const char* name;
  const char* opening;              // before the first user's text, without a system message
  const char* opening_with_system;  // null: the family has no system messages
  const char* next_user;            // before a later user's text
  const char* user_tail;            // behind a user's text
  const char* assistant_head;       // before an answer
  const char* assistant_tail;       // behind an answer
  const char* turn_end;             // the token that ends the answer
  ChatTrim trim;
  bool spaced_answer;  // the answer begins with a space
  bool any_role;       // turns of any role in any order: "user" in next_user is the role's place
};

const ChatForm* find_chat_form(std::string_view name);  // null if unknown
std::string known_chat_forms();                         // "chatml, llama-2, …"

// The form that a Jinja template writes, seen by the marks of its turns; null if it is none that is
// known.
const ChatForm* recognise_chat(std::string_view jinja);

// `text` with its placeholders replaced.
std::string fill_chat(std::string_view text, std::string_view system, std::string_view bos,
                      std::string_view eos);

// The literal text between "<|im_start|>system\n" and "<|im_end|>" in a Jinja template: the system
// message of ChatML models when none is given. Empty if there is none. Both a line feed and Jinja's
// escape \n are understood.
std::string default_system_message(std::string_view jinja_template);

}  // namespace kvscope
