#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"

namespace kvscope {
namespace {

// As SmolLM2's file has it: a line feed inside the literal.
const char kSmolLm[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
    "'\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// As Qwen2.5's: Jinja escapes, and branches that put the user's own message in.
const char kQwen[] =
    "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- if messages[0]['role'] == 'system' %}"
    "{{- messages[0]['content'] }}{%- else %}{{- 'You are Qwen.' }}{%- endif %}{%- else %}"
    "{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
    "assistant.<|im_end|>\\n' }}";

TEST(ChatTemplate, reads_the_default_system_message_from_the_template) {
  EXPECT_EQ(default_system_message(kSmolLm),
            "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
  EXPECT_EQ(default_system_message(kQwen),
            "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  EXPECT_EQ(default_system_message("{{ '<|im_start|>system\\n' + m + '<|im_end|>' }}"), "");
  EXPECT_EQ(default_system_message(""), "");
}

TEST(ChatTemplate, splits_the_chat_behind_the_question) {
  const FakeTokenizer tokenizer(kSmolLm);
  const ChatTemplate chat = chat_for(tokenizer);
  EXPECT_EQ(chat.name(), "chatml");
  EXPECT_EQ(chat.notice(), "");
  EXPECT_EQ(chat.turn_end(), FakeTokenizer::kEnd);
  EXPECT_EQ(tokenizer.decode(chat.render_user("Why?")),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nWhy?");
  EXPECT_EQ(tokenizer.decode(chat.assistant_header("Because")),
            "<|im_end|>\n<|im_start|>assistant\nBecause");
  EXPECT_EQ(chat.assistant_header().front(), FakeTokenizer::kEnd);
}

TEST(ChatTemplate, never_parses_special_tokens_of_the_text) {
  const FakeTokenizer tokenizer;
  const ChatTemplate chat = chat_for(tokenizer);
  const auto ids = chat.render_user("a<|im_end|>b");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), FakeTokenizer::kEnd), 0);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), FakeTokenizer::kStart), 1);
  EXPECT_EQ(tokenizer.decode(ids), "<|im_start|>user\na<|im_end|>b");
}

TEST(ChatTemplate, puts_a_space_before_an_answer_that_continues_a_sentence) {
  const FakeTokenizer tokenizer;
  const ChatTemplate chat = chat_for(tokenizer);
  EXPECT_EQ(tokenizer.decode(chat.answer_ids("42", "It is")), " 42");
  EXPECT_EQ(tokenizer.decode(chat.answer_ids("42", "")), "42");
  EXPECT_EQ(tokenizer.decode(chat.answer_ids("", "It is")), "<|im_end|>");
}

TEST(ChatTemplate, refuses_what_it_does_not_recognise) {
  const FakeTokenizer unknown("[INST] {{ content }} [/INST]");
  try {
    chat_for(unknown);
    ADD_FAILURE() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("none that is known (chatml, llama-2,"),
              std::string::npos);
  }
  const FakeTokenizer lacks_its_tokens("llama-3");
  EXPECT_THROW(chat_for(lacks_its_tokens), DataError);
}

TEST(ChatTemplate, is_plain_text_where_asked_for_or_where_there_is_none) {
  const FakeTokenizer none("none");
  const ChatTemplate chat = chat_for(none);
  EXPECT_EQ(chat.name(), "plain");
  EXPECT_EQ(chat.notice(), "");
  EXPECT_EQ(none.decode(chat.render_user("Why?")), "Why?");
  EXPECT_EQ(none.decode(chat.assistant_header("Because")), " Because");
  EXPECT_TRUE(chat.assistant_header().empty());

  const FakeTokenizer bare("", false);
  EXPECT_NE(chat_for(bare).notice().find("no chat template"), std::string::npos);
  const FakeTokenizer only_tokens("", true);
  EXPECT_EQ(chat_for(only_tokens).name(), "chatml");
  const FakeTokenizer named("llama-2");
  EXPECT_EQ(named.decode(chat_for(named).render_user(" Why? ")), "[INST] Why?");
  EXPECT_EQ(named.decode(chat_for(named).assistant_header("Because")), " [/INST] Because");
  EXPECT_EQ(named.decode(chat_for(named).answer_ids("42", "")), " 42");
}

TEST(ChatTemplate, starts_with_bos_where_the_model_wants_one) {
  const FakeTokenizer tokenizer("", false, true);
  EXPECT_EQ(tokenizer.decode(chat_for(tokenizer).render_user("Why?")), "<s>Why?");
}

TEST(ChatSample, finds_the_tokens_of_the_evidence) {
  const FakeTokenizer tokenizer;
  const ChatTemplate chat = chat_for(tokenizer);
  ChatQuestion question;
  question.text = "abcFACTdef";
  question.golds = {"x"};
  question.evidence_begin = 3;
  question.evidence_end = 7;
  const Sample sample = make_chat_sample(question, chat, tokenizer);
  // <|im_start|> and "user\n" stand before the text: 6 ids.
  EXPECT_EQ(sample.evidence_begin, 9);
  EXPECT_EQ(sample.evidence_end, 13);

  question.evidence_end = question.evidence_begin;
  EXPECT_EQ(make_chat_sample(question, chat, tokenizer).evidence_begin, -1);
}

TEST(ChatSample, finds_tokens_where_white_space_is_left_out) {
  const FakeTokenizer tokenizer("llama-2");
  ChatQuestion question;
  question.text = "  abcFACT Q?\n";
  question.golds = {"x"};
  question.evidence_begin = 5;
  question.evidence_end = 9;
  question.question_begin = 10;
  const Sample sample = make_chat_sample(question, chat_for(tokenizer), tokenizer);
  EXPECT_EQ(sample.evidence_begin, 10);  // behind "[INST] abc"
  EXPECT_EQ(sample.evidence_end, 14);
  EXPECT_EQ(sample.question_begin, 15);
  EXPECT_EQ(sample.prompt_ids.size(), 17U);
}

// Has a token for "\nQ", as a vocabulary may.
class MergingTokenizer : public FakeTokenizer {
 public:
  static constexpr std::int32_t kMerged = 300;
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special) const override {
    std::vector<std::int32_t> ids;
    for (const std::int32_t id : FakeTokenizer::encode(text, special)) {
      if (id == 'Q' && !ids.empty() && ids.back() == '\n') {
        ids.back() = kMerged;
      } else {
        ids.push_back(id);
      }
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      text += id == kMerged ? "\nQ" : FakeTokenizer::decode(std::span(&id, 1));
    }
    return text;
  }
};

TEST(ChatSample, finds_the_first_token_of_the_question) {
  const FakeTokenizer tokenizer;
  ChatQuestion question;
  question.text = "abc\n\nQ?";
  question.golds = {"x"};
  question.question_begin = 5;
  // <|im_start|> and "user\n" stand before the text: 6 ids.
  EXPECT_EQ(make_chat_sample(question, chat_for(tokenizer), tokenizer).question_begin, 11);

  // The boundary lies inside a token: the whole token is hidden with the question.
  const MergingTokenizer merging;
  const Sample sample = make_chat_sample(question, chat_for(merging), merging);
  EXPECT_EQ(sample.question_begin, 10);
  EXPECT_EQ(sample.prompt_ids.at(10), MergingTokenizer::kMerged);

  question.question_begin = std::string::npos;
  EXPECT_EQ(make_chat_sample(question, chat_for(tokenizer), tokenizer).question_begin, -1);
  const Sample unchanged = make_chat_sample(question, chat_for(merging), merging);
  EXPECT_EQ(unchanged.input_sha256, sample.input_sha256);  // the same tokens in both visibilities
}

}  // namespace
}  // namespace kvscope
