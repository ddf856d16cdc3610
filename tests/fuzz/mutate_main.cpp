// Runs a fuzz target on mutations of seed files for a time, where libFuzzer is not at hand:
//   TARGET SECONDS SEED SEED_FILE…
// With KVSCOPE_FUZZ_KEEP set, the last input is in fuzz-TARGET.input of the working folder.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runner/base/splitmix.h"
#include "tests/fuzz/target.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes read(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }

  // Most changes fall into the head, where the structure is.
  Bytes mutate(const Bytes& seed, const Bytes& other) {
    Bytes bytes = seed;
    for (std::uint64_t n = 1 + below(4); n > 0; --n) {
      const std::size_t reach =
          below(4) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 4096);
      const std::size_t at = below(reach);
      switch (below(7)) {
        case 0:
          if (!bytes.empty()) bytes[at] ^= std::uint8_t(1U << below(8));
          break;
        case 1:
          if (!bytes.empty()) bytes[at] = std::uint8_t(next());
          break;
        case 2:
          bytes.insert(bytes.begin() + std::ptrdiff_t(at), std::uint8_t(next()));
          break;
        case 3:
          if (!bytes.empty()) bytes.erase(bytes.begin() + std::ptrdiff_t(at));
          break;
        case 4:
          write_number(bytes, at);
          break;
        case 5:
          copy_piece(bytes, at, other);
          break;
        default:
          if (below(8) == 0) bytes.resize(at);
      }
    }
    return bytes;
  }

 private:
  std::uint64_t next() { return state_ = kvscope::smix(state_ + 0x9E3779B97F4A7C15ULL); }

  void write_number(Bytes& bytes, std::size_t at) {
    constexpr std::uint64_t kNasty[] = {
        0,          1,          0x7F,       0xFF,       0xFFFF,           0x7FFFFFFF,
        0xFFFFFFFF, 1ULL << 32, 1ULL << 62, 1ULL << 63, ~std::uint64_t{0}};
    const std::uint64_t value = kNasty[below(std::size(kNasty))];
    const std::size_t width = std::size_t{1} << below(4);
    for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i)
      bytes[at + i] = std::uint8_t(value >> (8 * i));
  }

  void copy_piece(Bytes& bytes, std::size_t at, const Bytes& other) {
    const std::size_t from = below(other.size());
    const std::size_t n = below(std::min<std::size_t>(64, other.size() - from + 1));
    for (std::size_t i = 0; i < n && at + i < bytes.size(); ++i) bytes[at + i] = other[from + i];
  }

  std::uint64_t state_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s SECONDS SEED SEED_FILE…\n", argv[0]);
    return 64;
  }
  const double seconds = std::atof(argv[1]);
  Mutator mutator(std::strtoull(argv[2], nullptr, 10));
  std::vector<Bytes> seeds;
  for (int i = 3; i < argc; ++i) seeds.push_back(read(argv[i]));
  const std::string last = "fuzz-" + std::filesystem::path(argv[0]).filename().string() + ".input";
  const bool keep = std::getenv("KVSCOPE_FUZZ_KEEP") != nullptr;  // slow: a file an input
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  long long runs = 0;
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    const Bytes& seed = seeds[mutator.below(seeds.size())];
    const Bytes input = mutator.mutate(seed, seeds[mutator.below(seeds.size())]);
    if (keep)
      std::ofstream(last, std::ios::binary)
          .write(reinterpret_cast<const char*>(input.data()), std::streamsize(input.size()));
    LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
  }
  std::printf("%lld inputs in %.0f s\n", runs, seconds);
  return 0;
}
