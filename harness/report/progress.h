// How far a long command is: a bar with rate and remaining time on a terminal, plain lines at a
// slow pace elsewhere. Always on stderr, so that stdout holds results only.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace kvscope {

class Progress {
 public:
  using Clock = std::function<double()>;  // seconds, steady

  struct Options {
    std::FILE* stream = stderr;
    bool terminal = false;                // draw a bar
    double bar_interval_seconds = 0.1;    // between two drawings
    double line_interval_seconds = 10.0;  // between two plain lines
    int columns = 80;
    Clock clock;  // empty: the steady clock
  };

  // Options for stderr as it is: terminal or not, its width.
  static Options standard_error();

  // `done` units of `total` are finished already (a resumed sweep); they do not count for the rate.
  Progress(std::string title, std::int64_t total, std::string unit,
           Options options = standard_error(), std::int64_t done = 0);
  ~Progress();  // finish()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::int64_t n = 1);
  void stage(std::string_view what);  // shown behind the figures: the task or sample in work
  void note(std::string_view line);   // a line of its own, above the bar
  void finish();                      // clears the bar, prints the closing line; once

 private:
  double now() const;
  std::string figures() const;
  void draw(bool force);
  void clear_bar();

  std::string title_;
  std::string unit_;
  std::string stage_;
  Options options_;
  std::int64_t total_;
  std::int64_t done_;
  std::int64_t done_at_start_;
  double started_;
  double drawn_;
  bool bar_on_screen_ = false;
  bool finished_ = false;
};

}  // namespace kvscope
