#include "datasets/records/record_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "datasets/questions/load_questions.h"
#include "datasets/records/csv.h"
#include "datasets/records/gzip.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

const std::string kEdge = KVSCOPE_SOURCE_DIR "/tests/datasets/fixtures/edge/";

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  std::string bytes(deflateBound(&stream, uLong(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = uInt(bytes.size());
  deflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

TEST(RecordFile, reads_what_other_programs_write) {
  EXPECT_EQ(read_record_file(kEdge + "bom_crlf_no_final_newline.jsonl").records.size(), 2U);
  const RecordFile tab = read_record_file(kEdge + "raw_tab_in_string.jsonl");
  EXPECT_EQ(tab.records.at(0).value["context"], "a\tb");
  // U+2028 is a character of the string, not the end of a line.
  const RecordFile separator = read_record_file(kEdge + "u2028_in_string.jsonl");
  EXPECT_EQ(separator.records.at(0).value["context"], "a\u2028b\u0085c");
  EXPECT_TRUE(separator.bad.empty());
}

TEST(RecordFile, names_the_line_of_a_bad_record_and_goes_on) {
  const TempFolder folder;
  const RecordFile file = read_record_file(
      folder.write("a.jsonl", "{\"a\":1}\n\n{\"a\":\n[2]\r\n{\"a\":3}\n\"text\"\n{\"a\":4}"));
  EXPECT_EQ(file.container, Container::kJsonLines);
  ASSERT_EQ(file.records.size(), 3U);
  EXPECT_EQ(file.records[1].line, 5);
  ASSERT_EQ(file.bad.size(), 3U);
  EXPECT_EQ(file.bad[0].line, 3);
  EXPECT_EQ(file.bad[0].reason, "not valid JSON");
  EXPECT_EQ(file.bad[1].line, 4);
  EXPECT_EQ(file.bad[1].reason, "no JSON object");
}

TEST(RecordFile, splits_an_array_and_knows_the_lines_of_its_elements) {
  const TempFolder folder;
  const RecordFile file = read_record_file(folder.write(
      "a.json", "\n[\n {\"a\": [1, {\"b\": \"],[\"}]},\n {\"a\": oops},\n\n {\"a\": 3}\n]\n"));
  EXPECT_EQ(file.container, Container::kJsonArray);
  ASSERT_EQ(file.records.size(), 2U);
  EXPECT_EQ(file.records[0].line, 3);
  EXPECT_EQ(file.records[1].line, 6);
  ASSERT_EQ(file.bad.size(), 1U);
  EXPECT_EQ(file.bad[0].line, 4);
  const RecordFile open = read_record_file(folder.write("b.json", "[{\"a\":1},{\"a\":2}"));
  EXPECT_EQ(open.records.size(), 1U);
  EXPECT_EQ(open.bad.at(0).reason, "the array is never closed");
}

TEST(RecordFile, refuses_what_is_no_data) {
  const TempFolder folder;
  const auto error = [&](const std::string& name, const std::string& bytes) {
    return message_of<DataError>([&] { read_record_file(folder.write(name, bytes)); });
  };
  EXPECT_NE(error("a.jsonl", "").find("is empty"), std::string::npos);
  EXPECT_NE(error("a.jsonl", " \n\r\n").find("is empty"), std::string::npos);
  EXPECT_NE(error("a.jsonl", "\n\nhello").find("line 3: neither JSON"), std::string::npos);
  EXPECT_NE(error("a.json", "[]").find("holds no record"), std::string::npos);
  EXPECT_NE(error("a.jsonl", "{\"a\":\"\xff\"}").find("not valid JSON"), std::string::npos);
  EXPECT_THROW(read_record_file(folder.path()), IoError);
}

// A parser that recurses, or a tree that is torn down by recursion, would overflow the stack.
TEST(RecordFile, refuses_records_nested_without_end) {
  const TempFolder folder;
  const std::string deep = "{\"a\":" + std::string(1'000'000, '[');
  const RecordFile file = read_record_file(folder.write("a.jsonl", "{\"a\":1}\n" + deep + "\n"));
  EXPECT_EQ(file.records.size(), 1U);
  EXPECT_EQ(file.bad.at(0).reason, "nested deeper than 64");
}

TEST(Gzip, inflates_joined_streams_and_refuses_bombs_and_cut_files) {
  const TempFolder folder;
  const std::string two = gzip("{\"a\":1}\n") + gzip("{\"a\":2}\n");
  EXPECT_EQ(read_record_file(folder.write("a.jsonl.gz", two)).records.size(), 2U);
  EXPECT_EQ(gunzip(two, "x"), "{\"a\":1}\n{\"a\":2}\n");
  const std::string bomb = gzip(std::string(4'000'000, ' '));
  EXPECT_NE(message_of<DataError>([&] { gunzip(bomb, "x", 1 << 20); }).find("more than 1 MiB"),
            std::string::npos);
  EXPECT_NE(message_of<DataError>([&] { gunzip(two.substr(0, two.size() - 9), "x"); }).find("cut"),
            std::string::npos);
  std::string damaged = two;
  damaged[12] = static_cast<char>(damaged[12] ^ 0x55);
  EXPECT_THROW(gunzip(damaged, "x"), DataError);
}

TEST(Csv, reads_quoted_fields_with_commas_quotes_and_line_feeds) {
  const auto rows = parse_csv(
      "\xef\xbb\xbf"
      "a,b\r\n\"x, \"\"y\"\"\",\"1\n2\"\r\n\r\nz,\"\"",
      "f.csv");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].fields, (std::vector<std::string>{"x, \"y\"", "1\n2"}));
  EXPECT_EQ(rows[2].fields, (std::vector<std::string>{"z", ""}));
  EXPECT_EQ(rows[1].line, 2);
  EXPECT_EQ(rows[2].line, 5);
  EXPECT_NE(message_of<DataError>([] { parse_csv("a\n\"b", "f.csv"); }).find("f.csv, line 2"),
            std::string::npos);
}

// ---- the same, seen by who loads questions ----

TEST(BadRecords, end_the_load_unless_they_are_skipped_by_count) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write("a.jsonl",
                                 "{\"input\":\"q\",\"context\":\"c\",\"answers\":[\"c\"]}\n"
                                 "{\"input\":\"q\",\"context\":\n"
                                 "{\"input\":\"q\",\"answers\":[\"c\"]}\n");
  const std::string error = message_of<DataError>([&] { load_questions(file, {}, tokenizer); });
  EXPECT_NE(error.find("a.jsonl, line 2: not valid JSON; 1 more (--skip-bad-records"),
            std::string::npos)
      << error;
  const Dataset data = load_questions(file, {.skip_bad_records = true}, tokenizer);
  EXPECT_EQ(data.samples.size(), 1U);
  ASSERT_EQ(data.notes.size(), 1U);
  EXPECT_NE(data.notes[0].find("2 records were skipped, the first: "), std::string::npos);
}

TEST(BadRecords, are_none_where_answers_are_a_bare_text_or_a_number) {
  const FakeTokenizer tokenizer;
  const Dataset data = load_questions(kEdge + "answers_scalar_and_int.jsonl", {}, tokenizer);
  ASSERT_EQ(data.samples.size(), 2U);
  EXPECT_EQ(data.samples[0].golds, std::vector<std::string>{"c"});
  EXPECT_EQ(data.samples[1].golds, std::vector<std::string>{"7"});
}

}  // namespace
}  // namespace kvscope
