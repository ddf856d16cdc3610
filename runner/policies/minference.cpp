// MInference: sparse attention of the prompt's rows (Jiang et al., NeurIPS 2024, arXiv:2407.02490).
//
//   a_shape       : the first n_init columns and the n_local newest
//   vertical_slash: the `vertical` heaviest columns and `slash` heaviest diagonals of the last 64
//                   rows' attention
//   block_sparse  : per block of 64 rows the `blocks` best key blocks by mean-pooled products
//
// Needs     : per layer and query head a short pass over the last 64 rows (vertical_slash).
// State     : none. Nothing is evicted and decoding is dense.
// Deviations: index and the scores of a cut come from the dense attention of the sparse pass's own
// queries and keys, masked columns included. The diagonal is always attended to. One pattern for
// all heads (the published search ends with vertical_slash for every head).
#include <array>

#include "runner/policies/builtin_parts.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr std::array<ParamInfo, 7> kParams = {{
    {"pattern", "vertical_slash", "vertical_slash|a_shape|block_sparse"},
    {"vertical", "1000", "1…", "pattern=vertical_slash"},
    {"slash", "6096", "1…", "pattern=vertical_slash"},
    {"granularity", "1", "1|64", "pattern=vertical_slash"},
    {"n_init", "128", "0…", "pattern=a_shape"},
    {"n_local", "3968", "1…", "pattern=a_shape"},
    {"blocks", "100", "1…", "pattern=block_sparse"},
}};

void apply(const PartSpec& part, Composition& composition) {
  SparsePrefill sparse;
  const std::string& pattern = part.params.at("pattern");
  sparse.pattern = pattern == "a_shape"        ? SparsePrefill::Pattern::kAShape
                   : pattern == "block_sparse" ? SparsePrefill::Pattern::kBlockSparse
                                               : SparsePrefill::Pattern::kVerticalSlash;
  sparse.n_vertical = int_param(part, "vertical");
  sparse.n_slash = int_param(part, "slash");
  sparse.granularity = int_param(part, "granularity");
  sparse.n_init = int_param(part, "n_init");
  sparse.n_local = int_param(part, "n_local");
  sparse.top_blocks = int_param(part, "blocks");
  composition.sparse_prefill = sparse;
}

}  // namespace

PartInfo minference_part() {
  return {.name = "minference",
          .summary = "Prompt rows attend to few columns (A-shape, vertical-slash, block-sparse).",
          .paper = "Jiang et al., NeurIPS 2024, arXiv:2407.02490",
          .source = "runner/policies/minference.cpp",
          .params = kParams,
          .kind = PartInfo::Kind::kPrefill,
          .alone = "full",
          .apply = apply};
}

}  // namespace kvscope
