#include "datasets/records/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, gzip's header
constexpr std::size_t kChunk = std::size_t{1} << 18;

std::string mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string gunzip(std::string_view bytes, const std::string& where, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw IoError(where + ": zlib does not start");
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> guard(&stream, &inflateEnd);
  std::string text;
  std::string chunk(kChunk, '\0');
  std::size_t taken = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END || taken - stream.avail_in < bytes.size()) {
    // Files may be joined: another stream follows the end of one.
    if (status == Z_STREAM_END && inflateReset(&stream) != Z_OK) break;
    if (stream.avail_in == 0) {
      const std::size_t more = std::min(bytes.size() - taken, std::size_t{1} << 30);
      if (more == 0) throw DataError(where + ": the gzip file is cut short");
      stream.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));  // zlib reads only
      stream.avail_in = static_cast<uInt>(more);
      taken += more;
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      throw DataError(where + ": damaged gzip file");
    }
    text.append(chunk, 0, chunk.size() - stream.avail_out);
    if (text.size() > most) {
      throw DataError(where + ": inflates to more than " + mebibytes(most) + ", which is refused");
    }
  }
  return text;
}

std::string read_data_file(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (!error && size > kMostDataBytes) {
    throw DataError(file.string() + ": more than " + mebibytes(kMostDataBytes) +
                    ", which is refused: split the file");
  }
  std::string bytes = read_file(file);
  return is_gzip(bytes) ? gunzip(bytes, file.string()) : bytes;
}

}  // namespace kvscope
