// Files that are not ours, folders without rights, full disks and killed processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "harness/store/database.h"
#include "harness/store/queries.h"
#include "harness/store/statement.h"
#include "runner/base/error.h"
#include "tests/harness/store/store_fixture.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ok_outcome;
using testing::OpenStore;
using ::testing::SizeIs;
using testing::TempFolder;

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void make_database(const fs::path& file, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
}

// Runs in a child process; returns its exit status, or minus its signal. GoogleTest's checks do not
// reach the parent.
int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(StoreFaults, ADatabaseOfAnotherProgramIsRefusedAndUntouched) {
  TempFolder folder;
  const fs::path file = folder.path / "other.db";
  make_database(file, "CREATE TABLE notes(t TEXT); INSERT INTO notes VALUES('mine')");
  const std::string before = bytes_of(file);
  for (const StoreAccess access : {StoreAccess::kCreate, StoreAccess::kReadOnly}) {
    EXPECT_THROW(Store::open(file, access), IoError);
  }
  EXPECT_EQ(bytes_of(file), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1);  // no journal, no log
}

TEST(StoreFaults, ANewerSchemaIsRefusedAndUntouched) {
  TempFolder folder;
  const fs::path file = folder.path / "newer.db";
  make_database(file, "CREATE TABLE x(y); PRAGMA application_id=1263945046; PRAGMA user_version=6");
  const std::string before = bytes_of(file);
  try {
    Store::open(file, StoreAccess::kCreate);
    FAIL() << "opened";
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr("schema version 6"));
  }
  EXPECT_EQ(bytes_of(file), before);
}

TEST(StoreFaults, AFileThatIsNoDatabaseIsRefusedAndUntouched) {
  TempFolder folder;
  const fs::path file = folder.path / "notes.txt";
  std::ofstream(file) << "not a database";
  EXPECT_THROW(Store::open(file, StoreAccess::kCreate), DataError);
  EXPECT_EQ(bytes_of(file), "not a database");
}

TEST(StoreFaults, ADamagedFileIsADataError) {
  TempFolder folder;
  const fs::path file = folder.path / "a.db";
  { OpenStore s(file); }
  std::string bytes = bytes_of(file);
  for (std::size_t i = 100; i < bytes.size(); ++i) bytes[i] = '\x5a';
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_THROW(OpenStore{file}, DataError);
}

TEST(StoreFaults, AMissingFolderIsAnIoErrorAndAMissingFileToo) {
  TempFolder folder;
  EXPECT_THROW(Store::open(folder.path / "no" / "a.db", StoreAccess::kCreate), IoError);
  EXPECT_THROW(Store::open(folder.path / "a.db", StoreAccess::kReadOnly), IoError);
  EXPECT_THROW(Store::open(folder.path, StoreAccess::kCreate), IoError);
  EXPECT_TRUE(fs::is_empty(folder.path));
}

TEST(StoreFaults, AnEmptyFileBecomesAStore) {
  TempFolder folder;
  std::ofstream(folder.path / "a.db").flush();
  EXPECT_NO_THROW(OpenStore{folder.path / "a.db"});
}

TEST(StoreFaults, AReadOnlyFolderIsAnIoError) {
  TempFolder folder;
  { OpenStore s(folder.path / "a.db"); }
  fs::permissions(folder.path, fs::perms(0555));
  const auto refused = [&](const char* name) {
    return in_child([&] {
      if (::geteuid() == 0 && ::setuid(65534) != 0) return 9;  // rights do not bind root
      try {
        OpenStore s(folder.path / name);
      } catch (const IoError&) {
        return 74;
      } catch (const std::exception&) {
        return 1;
      }
      return 0;
    });
  };
  EXPECT_EQ(refused("new.db"), 74);
  EXPECT_EQ(refused("a.db"), 74);
  fs::permissions(folder.path, fs::perms(0755));
}

// A limit on the size of files stands in for a full disk: both end in a failed write.
TEST(StoreFaults, AFullDiskIsAnIoErrorAndKeepsWhatIsFinished) {
  TempFolder folder;
  const fs::path file = folder.path / "a.db";
  const int status = in_child([&] {
    OpenStore s(file, 2000);
    const auto run = s.begin("run-1");
    s.store.record(run, s.full, s.sample(0), ok_outcome(0.5));
    s.store.checkpoint();
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{256 << 10, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      for (int i = 1; i < 2000; ++i) s.store.record(run, s.full, s.sample(i), ok_outcome(0.5));
    } catch (const IoError&) {
      return 74;
    } catch (const std::exception&) {
      return 1;
    }
    return 0;
  });
  EXPECT_EQ(status, 74);
  OpenStore s(file, 2000);
  Statement check(s.store.database(), "PRAGMA integrity_check");
  ASSERT_TRUE(check.step());
  EXPECT_EQ(check.text(0), "ok");
  const auto rows = arm_results(s.store, s.full);
  EXPECT_GE(rows.size(), 1U);
  for (const auto& row : rows) EXPECT_THAT(row.metrics, SizeIs(2));  // whole or not at all
}

TEST(StoreFaults, AKilledWriterLeavesWholeSamplesAndResumes) {
  TempFolder folder;
  const fs::path file = folder.path / "a.db";
  { OpenStore s(file, 300); }
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    OpenStore s(file, 300);
    const auto run = s.begin("run-1");
    for (int i = 0; i < 300; ++i) {
      s.store.record(run, s.full, s.sample(i), ok_outcome(0.5));
      if (i == 20 && ::write(ready[1], "x", 1) != 1) ::_exit(9);
    }
    ::_exit(0);
  }
  char go = 0;
  ASSERT_EQ(::read(ready[0], &go, 1), 1);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);

  OpenStore s(file, 300);
  Statement check(s.store.database(), "PRAGMA integrity_check");
  ASSERT_TRUE(check.step());
  EXPECT_EQ(check.text(0), "ok");
  Statement keys(s.store.database(), "PRAGMA foreign_key_check");
  EXPECT_FALSE(keys.step());
  const auto rows = arm_results(s.store, s.full);
  EXPECT_GE(rows.size(), 21U);
  for (const auto& row : rows) {
    EXPECT_THAT(row.metrics, SizeIs(2));
    EXPECT_EQ(row.output_text, "42");
  }
  const auto run = s.begin("run-2");
  const auto done = s.store.finished_samples(s.full);
  for (int i = 0; i < 300; ++i) {
    if (!done.contains(s.sample(i))) s.store.record(run, s.full, s.sample(i), ok_outcome(0.5));
  }
  EXPECT_THAT(s.store.finished_samples(s.full), SizeIs(300));
}

}  // namespace
}  // namespace kvscope
