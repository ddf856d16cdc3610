#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "datasets/json/json_file.h"
#include "datasets/text/corpora.h"
#include "datasets/text/documents.h"
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
  const Dataset data = load_text_windows(folder.write("abc.txt", "abcdefghijk"),
                                         {.context = 4, .limit = 0}, tokenizer);
  EXPECT_EQ(data.name, "abc");
  EXPECT_EQ(data.version, "1 context=4");
  ASSERT_EQ(data.windows.size(), 2U);
  EXPECT_EQ(tokenizer.decode(data.windows[0].ids), "abcd");
  EXPECT_EQ(tokenizer.decode(data.windows[1].ids), "efgh");
  EXPECT_EQ(data.windows[1].key, "window=1");
  EXPECT_NE(data.windows[0].cluster_key, data.windows[1].cluster_key);
  EXPECT_EQ(load_text_windows(folder.path() / "abc.txt", {.context = 4, .limit = 1}, tokenizer)
                .windows.size(),
            1U);
}

TEST(TextWindows, start_with_bos_where_the_model_wants_one) {
  const TempFolder folder;
  const FakeTokenizer tokenizer("", false, true);
  const Dataset data =
      load_text_windows(folder.write("a.txt", "abcdefg"), {.context = 4, .limit = 0}, tokenizer);
  ASSERT_EQ(data.windows.size(), 2U);
  EXPECT_EQ(tokenizer.decode(data.windows[1].ids), "<s>def");
}

TEST(TextWindows, of_llama_perplexity_score_one_token_less_and_are_another_data_set) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write("abc.txt", "abcdefghijk");
  const Dataset ours = load_text_windows(file, {.context = 4, .limit = 0}, tokenizer);
  const Dataset theirs = load_text_windows(
      file, {.context = 4, .limit = 0, .convention = WindowConvention::kLlamaCpp}, tokenizer);
  ASSERT_EQ(theirs.windows.size(), 2U);
  EXPECT_EQ(tokenizer.decode(theirs.windows[1].ids), "efgh");
  EXPECT_EQ(ours.windows[0].first_scored, 2);
  EXPECT_EQ(theirs.windows[0].first_scored, 3);  // n/2 + 1: n - 1 - n/2 = 1 prediction
  EXPECT_EQ(theirs.version, "1 context=4 convention=llama.cpp");
  EXPECT_NE(theirs.key(), ours.key());
  const Dataset odd = load_text_windows(
      file, {.context = 5, .limit = 0, .convention = WindowConvention::kLlamaCpp}, tokenizer);
  EXPECT_EQ(odd.windows[0].first_scored, 3);  // 5 - 1 - 2 = 2 predictions
}

TEST(TextWindows, of_llama_perplexity_lose_their_first_token_to_bos) {
  const TempFolder folder;
  const FakeTokenizer tokenizer("", false, true);
  const auto file = folder.write("a.txt", "abcdefghijk");
  const Dataset data = load_text_windows(
      file, {.context = 4, .limit = 0, .convention = WindowConvention::kLlamaCpp}, tokenizer);
  ASSERT_EQ(data.windows.size(), 3U);  // <s> and eleven bytes
  EXPECT_EQ(tokenizer.decode(data.windows[0].ids), "<s>abc");
  EXPECT_EQ(tokenizer.decode(data.windows[1].ids), "<s>efg");  // without d
  EXPECT_EQ(tokenizer.decode(data.windows[2].ids), "<s>ijk");
  EXPECT_EQ(tokenizer.decode(llama_cpp_tokens("abcdefgh", 4, tokenizer)), "<s>abc<s>efg<s>");
}

TEST(TextWindows, are_clustered_in_at_most_32_blocks_of_neighbours) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const Dataset data = load_text_windows(folder.write("a.txt", std::string(400, 'x')),
                                         {.context = 4, .limit = 0}, tokenizer);
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
  const auto message = message_of<DataError>(
      [&] { load_text_windows(file, {.context = 8, .limit = 0}, tokenizer); });
  EXPECT_NE(message.find("a.txt has 7 tokens, less than one window of 8"), std::string::npos)
      << message;
  EXPECT_THROW(load_text_windows(file, {.context = 3, .limit = 0}, tokenizer), UsageError);
  EXPECT_THROW(load_text_windows(file, {.context = 4, .limit = -1}, tokenizer), UsageError);
}

std::vector<std::string> texts(const Tokenizer& tokenizer, const Dataset& data) {
  std::vector<std::string> all;
  for (const TextWindow& window : data.windows) all.push_back(tokenizer.decode(window.ids));
  return all;
}

std::vector<int> firsts(const Dataset& data) {
  std::vector<int> all;
  for (const TextWindow& window : data.windows) all.push_back(window.first_scored);
  return all;
}

TEST(TextWindows, that_slide_score_each_token_once_with_the_longest_context) {
  const TempFolder folder;
  const auto file = folder.write("a.txt", "abcdefghijk");
  const WindowOptions options{.context = 5, .convention = WindowConvention::kSliding, .stride = 2};
  const FakeTokenizer tokenizer;
  const Dataset data = load_text_windows(file, options, tokenizer);
  EXPECT_EQ(texts(tokenizer, data), (std::vector<std::string>{"abcde", "cdefg", "efghi", "ghijk"}));
  EXPECT_EQ(firsts(data), (std::vector<int>{1, 3, 3, 3}));
  EXPECT_EQ(data.version, "1 context=5 convention=sliding stride=2");
  const FakeTokenizer bos("", false, true);
  const Dataset with_bos = load_text_windows(file, options, bos);
  EXPECT_EQ(texts(bos, with_bos),
            (std::vector<std::string>{"<s>abcd", "<s>cdef", "<s>efgh", "<s>ghij"}));
  EXPECT_EQ(firsts(with_bos), (std::vector<int>{1, 3, 3, 3}));
  for (const int stride : {0, 5}) {
    WindowOptions bad = options;
    bad.stride = stride;
    EXPECT_THROW(load_text_windows(file, bad, tokenizer), UsageError);
  }
}

TEST(TextWindows, of_lm_eval_score_every_token_of_a_document_after_a_start_token) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;  // has a BOS token, and no wish to see it
  const auto file = folder.write("a.txt", "abcdefgh");
  const Dataset data =
      load_text_windows(file, {.context = 4, .convention = WindowConvention::kLmEval}, tokenizer);
  EXPECT_EQ(texts(tokenizer, data), (std::vector<std::string>{"<s>abc", "cdef", "efgh"}));
  EXPECT_EQ(firsts(data), (std::vector<int>{1, 1, 2}));
  double scored = 0;
  for (const TextWindow& w : data.windows) {
    scored += static_cast<double>(w.ids.size()) - w.first_scored;
  }
  EXPECT_EQ(scored, 8);
  const Dataset whole =
      load_text_windows(file, {.context = 100, .convention = WindowConvention::kLmEval}, tokenizer);
  EXPECT_EQ(texts(tokenizer, whole), (std::vector<std::string>{"<s>abcdefgh"}));
}

TEST(TextWindows, of_a_stream_score_all_but_the_first) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const Dataset data =
      load_text_windows(folder.write("a.txt", "abcdefgh"),
                        {.context = 8, .convention = WindowConvention::kStream}, tokenizer);
  EXPECT_EQ(firsts(data), (std::vector<int>{1}));
}

TEST(TextWindows, know_the_words_and_bytes_behind_their_scored_tokens) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write("a.txt", "one two  three\nfour five");
  const Dataset half = load_text_windows(file, {.context = 8}, tokenizer);
  // "one two  three\n…": of "one two " the scored half is "two ", of " three\nf" it is "ee\nf".
  EXPECT_EQ(half.windows[0].scored_words, 1);
  EXPECT_EQ(half.windows[0].scored_bytes, 4);
  EXPECT_EQ(half.windows[1].scored_words, 1);
  double words = 0;
  double bytes = 0;
  for (const TextWindow& w :
       load_text_windows(file, {.context = 6, .convention = WindowConvention::kLmEval}, tokenizer)
           .windows) {
    words += w.scored_words;
    bytes += w.scored_bytes;
  }
  EXPECT_DOUBLE_EQ(words, 5);
  EXPECT_DOUBLE_EQ(bytes, 24);
}

TEST(Documents, of_a_folder_are_its_texts_and_each_is_a_cluster) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  folder.write("books/2.txt", "abcdefgh");
  folder.write("books/1.txt", "ABCDEFGHIJKL");
  folder.write("books/3.txt", "ab");
  folder.write("books/notes.csv", "1,2");
  const Dataset data = load_text_windows(folder.path() / "books", {.context = 4}, tokenizer);
  EXPECT_EQ(data.name, "books");
  // One of each book in turn.
  EXPECT_EQ(texts(tokenizer, data),
            (std::vector<std::string>{"ABCD", "abcd", "EFGH", "efgh", "IJKL"}));
  EXPECT_EQ(data.windows[1].key, "2:window=0");
  EXPECT_EQ(data.windows[1].cluster_key, "2");
  ASSERT_EQ(data.notes.size(), 1U);
  EXPECT_EQ(data.notes[0], "books: 1 of 3 documents are shorter than one window and left out");
  EXPECT_EQ(load_text_windows(folder.path() / "books/", {.context = 4}, tokenizer).name, "books");
  EXPECT_NE(message_of<DataError>([&] {
              load_text_windows(folder.path() / "books", {.context = 40}, tokenizer);
            }).find("less than one window of 40 in any document"),
            std::string::npos);
  EXPECT_THROW(load_documents(folder.path(), TextLayout::kPlain), DataError);
}

constexpr const char* kWikitext =
    " \n = Robert = \n \n Robert , a well @-@ known actor ( born 1980 ) , won 1 @,@ 000 prizes . \n"
    " \n = = Career = = \n \n He said \" yes \" . \n \n = Second = \n Text 's end . \n";

TEST(Wikitext, has_a_page_for_each_heading_of_level_one) {
  const auto pages = wikitext_pages(kWikitext);
  ASSERT_EQ(pages.size(), 2U);
  EXPECT_TRUE(pages[0].starts_with(" = Robert = \n"));
  EXPECT_NE(pages[0].find("= = Career = ="), std::string::npos);
  EXPECT_EQ(pages[1], " = Second = \n Text 's end . \n");
  EXPECT_EQ(wikitext_pages("no heading").size(), 0U);
  EXPECT_EQ(wikitext_pages("").size(), 0U);
}

TEST(Wikitext, is_detokenised_as_lm_eval_does) {
  EXPECT_EQ(wikitext_detokenised(wikitext_pages(kWikitext)[0]),
            " = Robert =\n\nRobert, a well-known actor (born 1980), won 1,000 prizes.\n\n"
            "== Career ==\n\nHe said \"yes\".\n\n");
  EXPECT_EQ(wikitext_detokenised("it 's 5 \u00b0 N of it : \' so \' \n"),
            "it's 5\u00b0N of it:\' so \'\n");
}

TEST(Wikitext, counts_the_words_of_the_original) {
  EXPECT_EQ(whitespace_words(""), 1U);
  EXPECT_EQ(whitespace_words(" a  b\n"), 4U);  // as re.split(r"\s+") has it: "", a, b, ""
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const Dataset data = load_text_windows(
      folder.write("w.txt", kWikitext),
      {.context = 1000, .convention = WindowConvention::kLmEval, .layout = TextLayout::kWikitext},
      tokenizer);
  ASSERT_EQ(data.windows.size(), 2U);
  EXPECT_DOUBLE_EQ(data.windows[1].scored_words,
                   static_cast<double>(whitespace_words(" = Second = \n Text 's end . \n")));
  EXPECT_DOUBLE_EQ(data.windows[1].scored_bytes, 29);
  EXPECT_EQ(data.windows[1].cluster_key, "w:page=1");
  EXPECT_THROW(load_text_windows(folder.write("p.txt", "plain text"),
                                 {.context = 4, .layout = TextLayout::kWikitext}, tokenizer),
               DataError);
}

TEST(Corpora, are_cleaned_up_and_say_which_package_is_missing) {
  const TempFolder folder;
  EXPECT_NE(message_of<IoError>([&] {
              load_corpus("policy", folder.path());
            }).find("apt-get install debian-policy"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] {
              load_corpus("bible", folder.path());
            }).find("sherlock, opticks, policy"),
            std::string::npos);
  folder.write(
      "usr/share/gocode/src/github.com/pierrec/lz4/testdata/pg1661.txt",
      "\xef\xbb\xbfheader\r\n*** START OF THIS PROJECT GUTENBERG EBOOK X ***\r\n\r\n"
      "Produced by an anonymous Project Gutenberg volunteer and others\r\n\r\n"
      "One  line\r\n and   more.\r\n\r\n\r\nTwo.\r\nEnd of the Project Gutenberg EBook of X\r\n");
  EXPECT_EQ(load_corpus("sherlock", folder.path()).text, "One line and more.\n\nTwo.\n");
  folder.write("usr/share/doc/debian-policy/policy.txt.gz", "Not compressed is read too.");
  EXPECT_EQ(load_corpus("policy", folder.path()).text, "Not compressed is read too.\n");
  folder.write("usr/share/doc/debian-policy/policy.txt.gz",
               std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03 cut", 14));
  EXPECT_THROW(load_corpus("policy", folder.path()), DataError);
  folder.write("usr/share/gocode/src/github.com/pierrec/lz4/testdata/pg1661.txt", "other text");
  EXPECT_THROW(load_corpus("sherlock", folder.path()), DataError);
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
