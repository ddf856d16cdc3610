// Parts of an arm that follow its score after "+": who gets how much of the budget, in what
// granularity tokens leave, how what stays is stored, what prompt rows leave out. One file each.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/policies/page_wrap.h"
#include "runner/policies/registry.h"
#include "runner/policies/spec.h"
#include "runner/policies/storage.h"

namespace kvscope {

struct PyramidBudgets {  // policies.md 2.10
  double beta = 20.0;
  bool as_kvpress = false;
};

struct HeadBudgets {  // Ada-KV, policies.md 2.11
  double floor_share = 0.2;
  bool normalize = false;
};

struct CakeBudgets {  // policies.md 2.12
  double tau1 = 1.0;
  double tau2 = 1.0;
  int window = 0;  // newest prompt rows that preferences come from; 0: the score's own window
};

// What all parts of a policy say together.
struct Composition {
  std::optional<PyramidBudgets> pyramid;
  std::optional<HeadBudgets> heads;
  std::optional<CakeBudgets> cake;
  std::optional<PageWrap> page;
  Storage storage;
  std::optional<SparsePrefill> sparse_prefill;

  bool allocates() const { return pyramid || heads || cake; }
};

struct PartInfo {
  enum class Kind : std::uint8_t { kLayerBudgets, kHeadBudgets, kGranularity, kStorage, kPrefill };
  std::string_view name;
  std::string_view summary;  // one sentence
  std::string_view paper;
  std::string_view source;
  std::span<const ParamInfo> params;
  Kind kind;
  std::string_view alone;  // the score it stands for where it is written alone; empty: none
  void (*apply)(const PartSpec&, Composition&);
};

std::span<const PartInfo> parts();
const PartInfo* find_part(std::string_view name);
// Of the score `cake`, whose budgets are its own.
CakeBudgets cake_budgets(const PolicySpec& spec);
Composition compose(const PolicySpec& spec);

}  // namespace kvscope
