#include <gtest/gtest.h>

#include <set>
#include <string>

#include "datasets/json/json_file.h"
#include "datasets/text/text_file.h"
#include "datasets/text/text_windows.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

TEST(TextFile, drops_the_byte_order_mark_and_carriage_returns) {
  const TempFolder folder;
  EXPECT_EQ(read_text_file(folder.write("a.txt", "\xef\xbb\xbfone\r\ntwo\rthree\r\n")),
            "one\ntwo\rthree\n");
}

TEST(TextFile, refuses_what_is_not_utf8_and_names_the_line) {
  const TempFolder folder;
  const auto message =
      message_of<DataError>([&] { read_text_file(folder.write("a.txt", "one\ntwo \xe9t\xe9\n")); });
  EXPECT_NE(message.find("a.txt is not UTF-8 text (line 2, byte 8)"), std::string::npos) << message;
}

TEST(TextFile, knows_every_kind_of_broken_utf8) {
  EXPECT_EQ(first_invalid_utf8("a\u00e9\u20ac\U0001f600"), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("a\xc3"), 1U);             // cut off
  EXPECT_EQ(first_invalid_utf8("\x80"), 0U);              // continuation alone
  EXPECT_EQ(first_invalid_utf8("\xc0\xaf"), 0U);          // overlong
  EXPECT_EQ(first_invalid_utf8("\xe0\x80\xaf"), 0U);      // overlong
  EXPECT_EQ(first_invalid_utf8("\xed\xa0\x80"), 0U);      // surrogate
  EXPECT_EQ(first_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(first_invalid_utf8("\xff"), 0U);
}

TEST(TextFile, refuses_missing_empty_and_blank_files_and_folders) {
  const TempFolder folder;
  const auto missing = message_of<IoError>([&] { read_text_file(folder.path() / "none.txt"); });
  EXPECT_NE(missing.find("No such file or directory"), std::string::npos) << missing;
  EXPECT_NE(message_of<IoError>([&] { read_text_file(folder.path()); }).find("is a folder"),
            std::string::npos);
  EXPECT_NE(message_of<DataError>([&] {
              read_text_file(folder.write("e.txt", ""));
            }).find("holds no text"),
            std::string::npos);
  EXPECT_THROW(read_text_file(folder.write("b.txt", " \r\n\t\n")), DataError);
}

TEST(TextWindows, cut_the_text_without_overlap_and_drop_the_rest) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const Dataset data = load_text_windows(folder.write("abc.txt", "abcdefghijk"), 4, 0, tokenizer);
  EXPECT_EQ(data.name, "abc");
  EXPECT_EQ(data.version, "1 context=4");
  ASSERT_EQ(data.windows.size(), 2U);
  EXPECT_EQ(tokenizer.decode(data.windows[0].ids), "abcd");
  EXPECT_EQ(tokenizer.decode(data.windows[1].ids), "efgh");
  EXPECT_EQ(data.windows[1].key, "window=1");
  EXPECT_NE(data.windows[0].cluster_key, data.windows[1].cluster_key);
  EXPECT_EQ(load_text_windows(folder.path() / "abc.txt", 4, 1, tokenizer).windows.size(), 1U);
}

TEST(TextWindows, start_with_bos_where_the_model_wants_one) {
  const TempFolder folder;
  const FakeTokenizer tokenizer("", false, true);
  const Dataset data = load_text_windows(folder.write("a.txt", "abcdefg"), 4, 0, tokenizer);
  ASSERT_EQ(data.windows.size(), 2U);
  EXPECT_EQ(tokenizer.decode(data.windows[1].ids), "<s>def");
}

TEST(TextWindows, of_llama_perplexity_score_one_token_less_and_are_another_data_set) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write("abc.txt", "abcdefghijk");
  const Dataset ours = load_text_windows(file, 4, 0, tokenizer);
  const Dataset theirs = load_text_windows(file, 4, 0, tokenizer, WindowConvention::kLlamaCpp);
  ASSERT_EQ(theirs.windows.size(), 2U);
  EXPECT_EQ(tokenizer.decode(theirs.windows[1].ids), "efgh");
  EXPECT_EQ(ours.windows[0].first_scored, 2);
  EXPECT_EQ(theirs.windows[0].first_scored, 3);  // n/2 + 1: n - 1 - n/2 = 1 prediction
  EXPECT_EQ(theirs.version, "1 context=4 convention=llama.cpp");
  EXPECT_NE(theirs.key(), ours.key());
  const Dataset odd = load_text_windows(file, 5, 0, tokenizer, WindowConvention::kLlamaCpp);
  EXPECT_EQ(odd.windows[0].first_scored, 3);  // 5 - 1 - 2 = 2 predictions
}

TEST(TextWindows, of_llama_perplexity_lose_their_first_token_to_bos) {
  const TempFolder folder;
  const FakeTokenizer tokenizer("", false, true);
  const auto file = folder.write("a.txt", "abcdefghijk");
  const Dataset data = load_text_windows(file, 4, 0, tokenizer, WindowConvention::kLlamaCpp);
  ASSERT_EQ(data.windows.size(), 3U);  // <s> and eleven bytes
  EXPECT_EQ(tokenizer.decode(data.windows[0].ids), "<s>abc");
  EXPECT_EQ(tokenizer.decode(data.windows[1].ids), "<s>efg");  // without d
  EXPECT_EQ(tokenizer.decode(data.windows[2].ids), "<s>ijk");
  EXPECT_EQ(tokenizer.decode(llama_cpp_tokens("abcdefgh", 4, tokenizer)), "<s>abc<s>efg<s>");
}

TEST(TextWindows, are_clustered_in_at_most_32_blocks_of_neighbours) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const Dataset data =
      load_text_windows(folder.write("a.txt", std::string(400, 'x')), 4, 0, tokenizer);
  ASSERT_EQ(data.windows.size(), 100U);
  std::set<std::string> clusters;
  for (std::size_t i = 0; i < 100; ++i) {
    clusters.insert(data.windows[i].cluster_key);
    EXPECT_EQ(data.windows[i].cluster_key, "a:block=" + std::to_string(i / 4));
  }
  EXPECT_EQ(clusters.size(), 25U);
}

TEST(TextWindows, refuse_a_text_shorter_than_one_window) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write("a.txt", "abc def");
  const auto message = message_of<DataError>([&] { load_text_windows(file, 8, 0, tokenizer); });
  EXPECT_NE(message.find("a.txt has 7 tokens, less than one window of 8"), std::string::npos)
      << message;
  EXPECT_THROW(load_text_windows(file, 3, 0, tokenizer), UsageError);
  EXPECT_THROW(load_text_windows(file, 4, -1, tokenizer), UsageError);
}

TEST(JsonFile, tolerates_raw_control_characters_carriage_returns_and_a_byte_order_mark) {
  const auto json =
      parse_json("\xef\xbb\xbf{\"a\": \"x\ty\nz\",\r\n \"b\\\"\": \"\\t\\\\\"}\r\n", "f");
  EXPECT_EQ(json["a"], "x\ty\nz");
  EXPECT_EQ(json["b\""], "\t\\");
  EXPECT_EQ(parse_json("[\"a\u2028b\"]", "f")[0], "a\u2028b");
}

TEST(JsonFile, names_file_and_line_of_an_error) {
  EXPECT_EQ(
      message_of<DataError>([] { parse_json("{\"a\": 1,\n \"b\": \"x\ny\",\n oops}", "f.json"); }),
      "f.json, line 4: not valid JSON");
  EXPECT_EQ(message_of<DataError>([] { parse_json("", "f.json"); }),
            "f.json, line 1: not valid JSON");
  EXPECT_EQ(message_of<DataError>([] { parse_json("[\n\"\xff\"]", "f.json"); }),
            "f.json, line 2: not valid JSON");
}

}  // namespace
}  // namespace kvscope
