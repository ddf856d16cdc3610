// Runs the real program, as a user would, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/runner/model/gguf_writer.h"

namespace kvscope::testing {

struct Finished {
  int status = -1;  // exit status, or 128 + signal as a shell says it
  std::string out;
  std::string err;
};

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("kvscope_program_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A line of shell, in which $KVSCOPE is the program. No default model is to be found.
  Finished shell(const std::string& line) const {
    const std::string out = (folder_ / ".out").string();
    const std::string err = (folder_ / ".err").string();
    const std::string command =
        "cd '" + folder_.string() + "' && export KVSCOPE='" KVSCOPE_PROGRAM "' XDG_CACHE_HOME='" +
        folder_.string() + "/cache' && { " + line + "; } >'" + out + "' 2>'" + err + "'";
    const int status = std::system(command.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read(out), read(err)};
  }
  Finished kvscope(const std::string& arguments) const {
    return shell("\"$KVSCOPE\" " + arguments);
  }

  // Exit status, nothing on stdout, exactly one line on stderr that holds `part`.
  void expect_refused(const std::string& arguments, int status, const std::string& part) const {
    const Finished run = kvscope(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << arguments << "\n" << run.err;
    EXPECT_TRUE(run.err.starts_with("kvscope: ")) << run.err;
    EXPECT_NE(run.err.find(part), std::string::npos) << arguments << "\n" << run.err;
  }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ostringstream bytes;
    bytes << std::ifstream(file, std::ios::binary).rdbuf();
    return bytes.str();
  }
  void write_model(const std::string& name = "tiny.gguf") const {
    write_tiny_model(folder_ / name);
  }

  std::filesystem::path folder_;
};

}  // namespace kvscope::testing
