// Tensors of a checkpoint by the names its file gives them, whatever the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

class TensorStore {
 public:
  virtual ~TensorStore() = default;
  virtual bool has(std::string_view tensor) const = 0;
  virtual std::vector<std::string_view> names() const = 0;
  // Throws DataError if it is absent or not a matrix [n_out][n_in]; n_out = 1: also a vector
  // [n_in].
  virtual void require(std::string_view tensor, int n_out, int n_in) const = 0;
  // Rows first … first + n - 1 of a tensor that was required, as float32: out [n][n_in]. Any number
  // of threads at once.
  virtual void read_rows(std::string_view tensor, int n_out, int n_in, int first, int n,
                         float* out) const = 0;
  virtual const std::string& sha256() const = 0;                      // of all files
  [[noreturn]] virtual void fail(const std::string& what) const = 0;  // DataError "NAME: WHAT"
};

}  // namespace kvscope
