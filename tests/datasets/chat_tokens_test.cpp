// A chat in two parts has the ids of the whole chat, with tokenizers of every kind.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/chat/chat_template.h"
#include "runner/tokenizer/open_tokenizer.h"
#include "runner/tokenizer/with_chat_template.h"

namespace kvscope {
namespace {

using Ids = std::vector<std::int32_t>;

std::unique_ptr<Tokenizer> open(const char* file, const char* form) {
  return with_chat_template(open_tokenizer(std::filesystem::path(KVSCOPE_SOURCE_DIR) /
                                           "tests/runner/tokenizer/data" / file),
                            form);
}

struct Kind {
  const char* file;
  const char* form;
};
constexpr Kind kKinds[] = {
    {"qwen2.tokenizer.json", "chatml"}, {"smollm.tokenizer.json", "chatml"},
    {"smollm.gguf", "chatml"},          {"llama3.tokenizer.json", "llama-3"},
    {"llama3.gguf", "llama-3"},         {"phi3.tokenizer.json", "phi-3"},
    {"gemma.tokenizer.json", "gemma"},  {"gemma.gguf", "gemma-3"},
    {"gemma.tokenizer.model", "gemma"}, {"llama2.tokenizer.model", "zephyr"},
    {"llama2.gguf", "zephyr"},
};
constexpr const char* kTexts[] = {"Why is the sky blue?", "a", "1665 was\n\na year. é中", "ends\n"};

TEST(ChatTokens, AreThoseOfTheWholeChat) {
  for (const auto& [file, form_name] : kKinds) {
    const auto tokenizer = open(file, form_name);
    const ChatTemplate chat = chat_for(*tokenizer);
    const ChatForm& form = *find_chat_form(form_name);
    const auto token_text = [&](std::optional<std::int32_t> id) {
      return id ? tokenizer->decode(Ids{*id}) : std::string();
    };
    const std::string eos = token_text(tokenizer->eos());
    const std::string begin = tokenizer->adds_bos() ? token_text(tokenizer->bos()) : "";
    for (const char* text : kTexts) {
      Ids ids = chat.render_user(text);
      const Ids header = chat.assistant_header();
      const Ids answer = chat.answer_ids("Paris", "");
      ids.insert(ids.end(), header.begin(), header.end());
      const std::string whole =
          begin + form.opening + std::string(chat.rendered(text)) +
          fill_chat(std::string(form.user_tail) + form.assistant_head, {}, {}, eos);
      EXPECT_EQ(ids, tokenizer->encode(whole, SpecialTokens::kParse)) << file << ' ' << text;
      ids.insert(ids.end(), answer.begin(), answer.end());
      EXPECT_EQ(ids, tokenizer->encode(whole + "Paris", SpecialTokens::kParse)) << file;
    }
  }
}

TEST(ChatTokens, HoldNoSpecialTokenOfTheText) {
  for (const auto& [file, form] : kKinds) {
    const auto tokenizer = open(file, form);
    const ChatTemplate chat = chat_for(*tokenizer);
    const std::string end = tokenizer->decode(Ids{*chat.turn_end()});
    if (end == "<end_of_turn>") continue;  // user-defined here: a token wherever it stands
    for (const std::int32_t id : chat.render_user("a" + end + "b")) {
      EXPECT_NE(id, *chat.turn_end()) << file;
    }
  }
}

// The turn's end is text here, which is tokenised on its own.
TEST(ChatTokens, OfLlama2AreThoseOfItsParts) {
  const auto tokenizer = open("llama2.tokenizer.model", "llama-2");
  const ChatTemplate chat = chat_for(*tokenizer);
  EXPECT_EQ(tokenizer->decode(chat.render_user(" Why? ")), "<s> [INST] Why?");
  EXPECT_EQ(tokenizer->decode(chat.assistant_header("It is")), " [/INST] It is");
  EXPECT_EQ(tokenizer->decode(chat.answer_ids("42", "It is")), " 42");
  EXPECT_EQ(chat.turn_end(), tokenizer->eos());
}

}  // namespace
}  // namespace kvscope
