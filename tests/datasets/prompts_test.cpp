#include "datasets/prompts/prompts.h"

#include <gtest/gtest.h>

#include <string>

#include "datasets/chat/no_context.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

class Prompts : public ::testing::Test {
 protected:
  Dataset load(std::string_view lines, const PromptOptions& options = {}) const {
    return load_prompts(folder_.write("mine.jsonl", lines), options, tokenizer_);
  }
  std::string error(std::string_view lines) const {
    return message_of<DataError>([&] { load(lines); });
  }
  std::string text(const std::vector<std::int32_t>& ids) const { return tokenizer_.decode(ids); }

  const TempFolder folder_;
  const FakeTokenizer tokenizer_;
};

TEST_F(Prompts, are_texts_or_chats) {
  const Dataset data = load(
      "\xef\xbb\xbf{\"prompt\": \"Hello\tyou\", \"model\": \"x\"}\r\n"
      "\n"
      "{\"id\": \"b\", \"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"},"
      "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"One?\"}]},"
      "{\"role\": \"assistant\", \"content\": \"Two.\"},"
      "{\"role\": \"user\", \"content\": \"Three?\"}]}");
  EXPECT_EQ(data.name, "mine");
  ASSERT_EQ(data.samples.size(), 2U);
  const Sample& one = data.samples[0];
  EXPECT_EQ(one.key, "line=1");
  EXPECT_EQ(text(one.prompt_ids), "<|im_start|>user\nHello\tyou");
  EXPECT_EQ(text(one.prefix_ids), "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(one.question_begin, -1);
  EXPECT_EQ(one.max_new_tokens, 64);
  EXPECT_TRUE(one.gold_ids.empty());
  const Sample& two = data.samples[1];
  EXPECT_EQ(two.key, "b");
  EXPECT_EQ(text(two.prompt_ids),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n"
            "<|im_start|>assistant\nTwo.<|im_end|>\n<|im_start|>user\nThree?");
  EXPECT_EQ(text({two.prompt_ids.begin() + two.question_begin, two.prompt_ids.end()}),
            "<|im_start|>user\nThree?");
}

TEST_F(Prompts, may_begin_the_answer) {
  const Dataset data = load(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"One?\"},"
      "{\"role\": \"assistant\", \"content\": \"It is\"}]}");
  EXPECT_EQ(text(data.samples[0].prompt_ids), "<|im_start|>user\nOne?");
  EXPECT_EQ(text(data.samples[0].prefix_ids), "<|im_end|>\n<|im_start|>assistant\nIt is");
}

TEST_F(Prompts, are_limited) {
  EXPECT_EQ(load("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n", {.limit = 1}).samples.size(), 1U);
}

TEST_F(Prompts, that_cannot_be_read_are_named_by_line) {
  EXPECT_NE(error("{\"prompt\":\"a\"}\n{\"prompt\":").find("mine.jsonl, line 2: not valid JSON"),
            std::string::npos);
  EXPECT_NE(error("{\"text\":\"a\"}").find("one of \"prompt\" and \"messages\""),
            std::string::npos);
  EXPECT_NE(error("[1]").find("not an object"), std::string::npos);
  EXPECT_NE(error("{\"messages\":[]}").find("no list with an element"), std::string::npos);
  EXPECT_NE(error("{\"messages\":[{\"role\":\"user\"}]}").find("no \"content\""),
            std::string::npos);
  EXPECT_NE(error("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}")
                .find("images"),
            std::string::npos);
  EXPECT_NE(error("{\"messages\":[{\"role\":\"<|x|>\",\"content\":\"a\"}]}").find("lower-case"),
            std::string::npos);
  EXPECT_NE(
      error("{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}]}").find("nobody asks"),
      std::string::npos);
  EXPECT_NE(error("{\"id\":\"a\",\"prompt\":\"a\"}\n{\"id\":\"a\",\"prompt\":\"b\"}").find("twice"),
            std::string::npos);
  EXPECT_NE(error("\n \n").find("holds no prompt"), std::string::npos);
  EXPECT_THROW(load_prompts(folder_.path() / "none", {}, tokenizer_), IoError);
}

TEST_F(Prompts, in_plain_form_have_no_turns) {
  const FakeTokenizer plain("", false);
  const Dataset data =
      load_prompts(folder_.write("p.jsonl",
                                 "{\"messages\": [{\"role\": \"system\", \"content\": \"A.\"},"
                                 "{\"role\": \"user\", \"content\": \"B?\"}]}"),
                   {}, plain);
  EXPECT_EQ(text(data.samples[0].prompt_ids), "A.\n\nB?");
  EXPECT_TRUE(data.samples[0].prefix_ids.empty());
  EXPECT_EQ(data.samples[0].question_begin, 4);
  ASSERT_EQ(data.notes.size(), 1U);
}

TEST_F(Prompts, have_turns_as_the_template_does) {
  const FakeTokenizer llama("llama-2", true, true);
  const auto read = [&](std::string_view line) {
    return load_prompts(folder_.write("l.jsonl", line), {}, llama).samples.at(0);
  };
  const Sample chat = read(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"One?\"},"
      "{\"role\": \"assistant\", \"content\": \"Two.\"},"
      "{\"role\": \"user\", \"content\": \"Three?\"}]}");
  EXPECT_EQ(text({chat.prompt_ids.begin() + chat.question_begin, chat.prompt_ids.end()}),
            "<s>[INST] Three?");
  // The system message stands inside the question's turn.
  const Sample one = read(
      "{\"messages\": [{\"role\": \"system\", \"content\": \"A.\"},"
      "{\"role\": \"user\", \"content\": \"B?\"}]}");
  EXPECT_EQ(text(one.prompt_ids), "<s>[INST] <<SYS>>\nA.\n<</SYS>>\n\nB?");
  EXPECT_EQ(one.question_begin, -1);
  const std::string refused = message_of<DataError>(
      [&] { read("{\"messages\": [{\"role\": \"tool\", \"content\": \"A\"}]}"); });
  EXPECT_NE(refused.find("l.jsonl, line 1: chat template 'llama-2' has turns of"),
            std::string::npos)
      << refused;
}

TEST_F(Prompts, without_their_context_are_the_question_in_its_turn) {
  Dataset data;
  data.name = "qa";
  const ChatTemplate chat = chat_for(tokenizer_);
  Sample sample;
  sample.key = "a";
  sample.prompt_ids = chat.render_user("A long text.\nWhat?");
  sample.question_begin = static_cast<int>(sample.prompt_ids.size()) - 5;
  sample.golds = {"text"};
  data.samples = {sample, sample};
  data.samples[1].question_begin = -1;
  const Dataset questions = without_context(data, chat);
  ASSERT_EQ(questions.samples.size(), 1U);
  EXPECT_EQ(text(questions.samples[0].prompt_ids), "<|im_start|>user\nWhat?");
  EXPECT_EQ(questions.samples[0].question_begin, 6);  // a token a byte, one for the mark
  EXPECT_EQ(questions.samples[0].key, "a");
  EXPECT_EQ(questions.name, "qa_no_context");
  EXPECT_EQ(questions.version, "no_context of " + data.key());
}

}  // namespace
}  // namespace kvscope
