#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "runner/backend/backend.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CpuBackend, SaysWhatItUses) {
  const auto backend = make_cpu_backend(2);
  EXPECT_EQ(backend->name(), "cpu");
  EXPECT_EQ(backend->n_threads(), 2);
  EXPECT_THAT(backend->description(), HasSubstr("cpu, 2 threads: matrices"));
  EXPECT_THAT(backend->description(), HasSubstr("f16)"));  // always by our own kernel
  EXPECT_THROW(make_cpu_backend(-1), UsageError);
}

TEST(CpuBackend, EveryWeightTypeOnEveryInstructionSet) {
  const auto backend = make_cpu_backend(2);
  const std::vector<float> weights{1, 2, 3, -4, 0.5F, 6};  // [2][3]
  const std::vector<float> x{1, 10, 100, 2, 0, -1};        // [2][3]
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(name_of(dtype));
    const auto packed = backend->pack(rows_of(weights, 3), 2, 3, dtype);
    EXPECT_EQ(packed->n_out(), 2);
    EXPECT_EQ(packed->n_in(), 3);
    EXPECT_GE(packed->bytes(), 6 * element_bytes(dtype));
    std::vector<float> y(4);
    backend->matmul(*packed, x, 2, RowKind::kPass, y);
    EXPECT_THAT(y, ElementsAre(321, 601, -1, -14));  // exact in all three types
  }
}

}  // namespace
}  // namespace kvscope
