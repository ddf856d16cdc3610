// The formats that data sets come in. One file each, datasets/<format>/; a new one is a line in
// formats.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "datasets/questions/question_set.h"
#include "datasets/records/record_file.h"

namespace kvscope {

struct FormatInfo {
  std::string_view name;
  std::string_view summary;  // one sentence
  std::string_view metric;   // main one, of files whose tasks do not say otherwise
  // By what is in the first record. Formats are asked in order of the table, the more particular
  // ones first.
  bool (*matches)(const RecordFile& file);
  void (*read)(const RecordFile& file, QuestionSet& set);
};

// Formats that are a folder.
struct FolderFormatInfo {
  std::string_view name;
  std::string_view summary;
  std::string_view metric;
  bool (*matches)(const std::filesystem::path& folder);
  void (*read)(const std::filesystem::path& folder, QuestionSet& set);
};

std::span<const FormatInfo> format_infos();
std::span<const FolderFormatInfo> folder_format_infos();

// Finds out the format and reads everything. Records that cannot be used are in `skipped`, in order
// of line. Throws IoError when the path cannot be read; DataError when no format fits (names what
// the first record has and which formats there are) or nothing in it could be used.
QuestionSet read_questions(const std::filesystem::path& path);

}  // namespace kvscope
