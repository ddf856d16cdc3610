#include "datasets/pg19/pg19.h"

#include <algorithm>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;

// train|validation|test/<id>.txt beside metadata.csv.
std::vector<fs::path> books(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::is_regular_file(folder / "metadata.csv", error)) return files;
  for (const char* part : {"train", "validation", "test"}) {
    for (const auto& entry : fs::directory_iterator(folder / part, error)) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

void read(const fs::path& folder, QuestionSet& set) {
  set.no_questions = "books: give one to the task perplexity with --text";
  for (const fs::path& file : books(folder)) {
    try {
      set.add_document(read_text_file(file));
    } catch (const DataError& error) {
      set.skipped.push_back({1, error.what(), file.lexically_relative(folder).string()});
    }
  }
}

}  // namespace

const FolderFormatInfo kPg19Folder = {"pg19", "Books in train, validation and test.", "nll_nats",
                                      [](const fs::path& folder) { return !books(folder).empty(); },
                                      read};

}  // namespace kvscope
