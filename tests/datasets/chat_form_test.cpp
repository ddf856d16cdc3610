// What transformers' apply_chat_template makes of templates of each family, exact. Written by
// tests/reference/make_chat_reference.py.
#include "datasets/chat/chat_form.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "datasets/chat/chat_template.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;

const Json& vectors() {
  static const Json all = [] {
    std::ifstream in(std::filesystem::path(KVSCOPE_SOURCE_DIR) /
                     "tests/datasets/fixtures/chat_vectors.json");
    return Json::parse(in);
  }();
  return all;
}

// Has every family's tokens; a text ends with "</s>".
class TemplateTokenizer : public FakeTokenizer {
 public:
  static constexpr std::int32_t kEos = 259;
  using FakeTokenizer::FakeTokenizer;
  std::optional<std::int32_t> eos() const override { return kEos; }
  std::optional<std::int32_t> id_of_special(std::string_view text) const override {
    const auto known = FakeTokenizer::id_of_special(text);
    return known ? known : kEos;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      text += id == kEos ? "</s>" : FakeTokenizer::decode(std::span(&id, 1));
    }
    return text;
  }
};

TEST(ChatForm, RecognisesTheFamilies) {
  EXPECT_EQ(vectors()["vectors"].size(), 109U);
  for (const Json& row : vectors()["vectors"]) {
    const ChatForm* form = recognise_chat(row["template"].get<std::string>());
    ASSERT_NE(form, nullptr) << row;
    EXPECT_EQ(form->name, row["form"].get<std::string>());
  }
}

TEST(ChatForm, RendersWhatTheTemplateRenders) {
  for (const Json& row : vectors()["vectors"]) {
    const auto jinja = row["template"].get<std::string>();
    const TemplateTokenizer tokenizer(jinja);
    const std::string system =
        row["system"].is_null() ? default_system_message(jinja) : row["system"].get<std::string>();
    const auto render = [&] {
      const ChatTemplate chat(tokenizer, recognise_chat(jinja), system,
                              jinja.find("bos_token") != std::string::npos);
      std::vector<ChatMessage> messages;
      for (const Json& turn : row.value("before", Json::array())) {
        messages.push_back({turn["role"].get<std::string>(), turn["content"].get<std::string>()});
      }
      messages.push_back({"user", row["user"].get<std::string>()});
      return tokenizer.decode(chat.render_messages(messages)) +
             tokenizer.decode(chat.assistant_header());
    };
    if (row["text"].is_null()) {
      EXPECT_THROW(render(), DataError) << row;
    } else {
      EXPECT_EQ(render(), row["text"].get<std::string>()) << row;
    }
    if (row["system"].is_null()) {
      EXPECT_EQ(chat_for(tokenizer).name(), row["form"].get<std::string>());
    }
  }
}

TEST(ChatForm, RefusesWhatRendersOtherwise) {
  for (const Json& jinja : vectors()["refused"]) {
    EXPECT_EQ(recognise_chat(jinja.get<std::string>()), nullptr) << jinja;
  }
}

TEST(ChatForm, IsFoundByItsName) {
  EXPECT_STREQ(find_chat_form("phi-3")->name, "phi-3");
  EXPECT_EQ(find_chat_form("phi"), nullptr);
  EXPECT_TRUE(known_chat_forms().starts_with("chatml, llama-2, llama-3, "));
  EXPECT_EQ(fill_chat("{bos}a{system}b{eos}{x}", "{eos}", "<s>", "</s>"), "<s>a{eos}b</s>{x}");
}

}  // namespace
}  // namespace kvscope
