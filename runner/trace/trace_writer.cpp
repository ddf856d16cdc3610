#include "runner/trace/trace_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/base/error.h"
#include "runner/base/half.h"
#include "runner/base/sha256.h"

namespace kvscope {

TraceWriter::TraceWriter(std::filesystem::path file, TraceFacts facts,
                         std::span<const std::int32_t> ids, std::string_view text)
    : file_(std::move(file)), half_(file_.string() + ".XXXXXX"), facts_(std::move(facts)) {
  if (ids.size() != std::size_t(facts_.n_tokens))
    throw std::logic_error("trace: as many ids as tokens are wanted");
  facts_.text_bytes = std::int64_t(text.size());
  const std::string head = encode_head(facts_);
  layout_ = layout_of(facts_, head.size());
  descriptor_ = ::mkstemp(half_.data());
  if (descriptor_ < 0) fail(errno);
  try {
    const int refused = ::posix_fallocate(descriptor_, 0, off_t(layout_.file_bytes));
    // Some file systems cannot promise room; then only writing shows.
    if (refused != 0 && refused != EOPNOTSUPP && refused != EINVAL) fail(refused);
    write(head);
    write(std::as_bytes(ids));
    write(text);
    write(std::string(layout_.rows - layout_.text - text.size(), '\0'));
  } catch (...) {
    ::close(descriptor_);
    ::unlink(half_.c_str());
    throw;
  }
}

TraceWriter::~TraceWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(half_.c_str());
}

void TraceWriter::fail(int error) const {
  throw IoError("cannot write the trace " + file_.string() + " (" +
                std::to_string(layout_.file_bytes) +
                " bytes): " + std::generic_category().message(error));
}

void TraceWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(errno);
    bytes = bytes.subspan(std::size_t(n));
  }
}

void TraceWriter::add_layer(std::span<const float> qkv) {
  if (n_written_layers_ == facts_.layers.size() || qkv.size() != facts_.layer_floats())
    throw std::logic_error("trace: a layer that was not announced");
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    if (std::isfinite(qkv[i])) continue;
    throw DataError("trace: layer " + std::to_string(facts_.layers[n_written_layers_]) +
                    " of token " + std::to_string(i / facts_.shape().row_floats()) +
                    " is not finite: the model cannot run this text");
  }
  if (facts_.store == DType::kBF16) {
    std::vector<std::uint16_t> half(qkv.size());
    for (std::size_t i = 0; i < qkv.size(); ++i) half[i] = bf16_bits(qkv[i]);
    write(std::as_bytes(std::span(half)));
  } else {
    write(std::as_bytes(qkv));
  }
  ++n_written_layers_;
}

void TraceWriter::finish() {
  if (n_written_layers_ != facts_.layers.size())
    throw std::logic_error("trace: a layer that was announced is missing");
  if (::ftruncate(descriptor_, off_t(layout_.sum)) != 0) fail(errno);
  write(sha256_file_hex(half_));
  if (::fchmod(descriptor_, 0644) != 0 || ::fsync(descriptor_) != 0) fail(errno);
  if (::rename(half_.c_str(), file_.c_str()) != 0) fail(errno);
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace kvscope
