// One table of all formats; adding one touches its file and one line here.
#include <algorithm>
#include <system_error>

#include "datasets/babilong/babilong.h"
#include "datasets/bamboo/bamboo.h"
#include "datasets/hotpotqa/hotpotqa.h"
#include "datasets/infinitebench/infinitebench.h"
#include "datasets/kvpress/kvpress.h"
#include "datasets/leval/leval.h"
#include "datasets/longbench/longbench.h"
#include "datasets/longbench_v2/longbench_v2.h"
#include "datasets/lost_in_the_middle/lost_in_the_middle.h"
#include "datasets/lveval/lveval.h"
#include "datasets/narrativeqa/narrativeqa.h"
#include "datasets/niah/niah.h"
#include "datasets/pg19/pg19.h"
#include "datasets/qasper/qasper.h"
#include "datasets/quality/quality.h"
#include "datasets/questions/format.h"
#include "datasets/ruler/ruler.h"
#include "datasets/scbench/scbench.h"
#include "datasets/squad/squad.h"
#include "datasets/text/text_file.h"
#include "datasets/zeroscrolls/zeroscrolls.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

std::string keys_of(const RecordFile& file) {
  std::string keys;
  const auto& first = file.records.front().value;
  int shown = 0;
  for (const auto& [key, value] : first.items()) {
    if (++shown > 8) return keys + ", …";
    keys += (keys.empty() ? "" : ", ") + key;
  }
  return keys;
}

template <typename Infos>
std::string names_of(const Infos& infos) {
  std::string names;
  for (const auto& info : infos) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

QuestionSet read_folder(const std::filesystem::path& folder) {
  for (const FolderFormatInfo& format : folder_format_infos()) {
    if (!format.matches(folder)) continue;
    QuestionSet set;
    set.format = format.name;
    format.read(folder, set);
    return set;
  }
  throw DataError(folder.string() + ": a folder of no known layout (known: " +
                  names_of(folder_format_infos()) + "); name one of its files");
}

// A name that is a text's, for inspection.
bool is_text(const std::filesystem::path& path) {
  return path.extension() == ".txt" || path.extension() == ".raw";
}

QuestionSet read_text(const std::filesystem::path& path) {
  QuestionSet set;
  set.format = "text";
  set.no_questions = "a text: give it to the task perplexity with --text";
  set.add_document(read_text_file(path));
  return set;
}

QuestionSet read_one_file(const std::filesystem::path& path) {
  if (is_text(path)) return read_text(path);
  const RecordFile file = read_record_file(path);
  for (const FormatInfo& format : format_infos()) {
    if (!format.matches(file)) continue;
    QuestionSet set;
    set.format = format.name;
    set.skipped = file.bad;
    format.read(file, set);
    return set;
  }
  throw DataError(path.string() + ": no known format; the first record has " + keys_of(file) +
                  " (known: " + names_of(format_infos()) + ")");
}

}  // namespace

std::span<const FormatInfo> format_infos() {
  static const FormatInfo kFormats[] = {
      kCmrcFormat,
      kSquadFormat,
      kQasperFormat,
      kHotpotQaFormat,
      kQualityFormat,
      kNiahConfigFormat,
      kNiahResultFormat,
      kLostInTheMiddleQaFormat,
      kLostInTheMiddleKvFormat,
      kLongBenchV2Format,
      kLvEvalFormat,
      kLongBenchFormat,
      kLEvalFormat,
      kScBenchFormat,
      kZeroScrollsFormat,
      kRulerFormat,
      kKvPressFormat,
      kBambooFormat,
      kInfiniteBenchFormat,
      kBabiLongFormat,
  };
  return kFormats;
}

std::span<const FolderFormatInfo> folder_format_infos() {
  static const FolderFormatInfo kFolderFormats[] = {kNarrativeQaFolder, kPg19Folder, kRulerFolder,
                                                    kNiahFolder};
  return kFolderFormats;
}

QuestionSet read_questions(const std::filesystem::path& path) {
  std::error_code error;
  QuestionSet set =
      std::filesystem::is_directory(path, error) ? read_folder(path) : read_one_file(path);
  std::ranges::stable_sort(set.skipped, {}, [](const SkippedRecord& record) {
    return std::pair(record.file, record.line);
  });
  if (set.questions.empty() && set.documents.empty()) {
    std::string text = path.string() + " holds no question";
    if (!set.skipped.empty()) {
      const SkippedRecord& first = set.skipped.front();
      text += "; line " + std::to_string(first.line) + ": " + first.reason;
    }
    throw DataError(text);
  }
  return set;
}

}  // namespace kvscope
