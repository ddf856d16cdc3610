#include "harness/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "harness/report/table.h"

namespace kvscope {

Progress::Options Progress::standard_error() {
  Options options;
  options.terminal = ::isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (options.terminal && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) {
    options.columns = size.ws_col;
  }
  return options;
}

Progress::Progress(std::string title, std::int64_t total, std::string unit, Options options,
                   std::int64_t done)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      options_(std::move(options)),
      total_(std::max<std::int64_t>(total, 0)),
      done_(done),
      done_at_start_(done),
      started_(now()),
      drawn_(started_) {
  draw(true);
}

Progress::~Progress() { finish(); }

double Progress::now() const {
  if (options_.clock) return options_.clock();
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Progress::advance(std::int64_t n) {
  done_ += n;
  draw(false);
}

void Progress::stage(std::string_view what) {
  stage_ = what;
  draw(false);
}

void Progress::note(std::string_view line) {
  clear_bar();
  std::fprintf(options_.stream, "%.*s\n", int(line.size()), line.data());
  draw(options_.terminal);
}

// "37/120 samples, 1.8 samples/s, 0 min 46 s left"
std::string Progress::figures() const {
  std::string text = std::to_string(done_) + "/" + std::to_string(total_) + " " + unit_;
  const double elapsed = now() - started_;
  const std::int64_t fresh = done_ - done_at_start_;
  if (fresh > 0 && elapsed > 0) {
    const double rate = double(fresh) / elapsed;
    text += ", " + format_significant(rate, 3) + " " + unit_ + "/s";
    if (done_ < total_) text += ", " + format_duration(double(total_ - done_) / rate) + " left";
  }
  return text;
}

void Progress::draw(bool force) {
  if (finished_) return;
  const double time = now();
  const double interval =
      options_.terminal ? options_.bar_interval_seconds : options_.line_interval_seconds;
  if (!force && time - drawn_ < interval) return;
  drawn_ = time;
  if (!options_.terminal) {
    std::fprintf(options_.stream, "%s: %s%s%s\n", title_.c_str(), figures().c_str(),
                 stage_.empty() ? "" : ": ", stage_.c_str());
    std::fflush(options_.stream);
    return;
  }
  constexpr int kBarCells = 24;
  const double share = total_ > 0 ? std::clamp(double(done_) / double(total_), 0.0, 1.0) : 1.0;
  const auto filled = static_cast<std::size_t>(share * kBarCells);
  std::string line = title_ + " [" + std::string(filled, '#') +
                     std::string(kBarCells - filled, '.') + "] " + figures();
  if (!stage_.empty()) line += "  " + stage_;
  // A line that wraps could not be erased. Cut before a UTF-8 continuation byte only at a whole
  // character.
  std::size_t cut = std::min(line.size(), static_cast<std::size_t>(options_.columns - 1));
  while (cut < line.size() && cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80) {
    --cut;
  }
  line.resize(cut);
  std::fprintf(options_.stream, "\r\033[K%s", line.c_str());
  std::fflush(options_.stream);
  bar_on_screen_ = true;
}

void Progress::clear_bar() {
  if (!bar_on_screen_) return;
  std::fputs("\r\033[K", options_.stream);
  bar_on_screen_ = false;
}

void Progress::finish() {
  if (finished_) return;
  clear_bar();
  std::fprintf(options_.stream, "%s: %lld/%lld %s in %s\n", title_.c_str(),
               static_cast<long long>(done_), static_cast<long long>(total_), unit_.c_str(),
               format_duration(now() - started_).c_str());
  std::fflush(options_.stream);
  finished_ = true;
}

}  // namespace kvscope
