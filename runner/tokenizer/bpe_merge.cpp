#include "runner/tokenizer/bpe_merge.h"

#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace kvscope {
namespace {

constexpr std::int32_t kNone = -1;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

// A token of the word under work, in a doubly linked list.
struct Node {
  std::int32_t id;  // kNone once it is part of its left neighbour
  std::int32_t previous, next;
};

// A possible merge of node `left` with its right neighbour; out of date if their ids have changed
// since.
struct Candidate {
  std::int32_t rank, left;
  std::int32_t left_id, right_id, merged_id;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  merges_.emplace(pair_key(left, right), merge);
}

const MergeTable::Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void MergeTable::apply(std::vector<std::int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  std::vector<Node> nodes;
  nodes.reserve(symbols.size());
  for (const std::int32_t id : symbols) {
    const auto at = static_cast<std::int32_t>(nodes.size());
    nodes.push_back({id, at - 1, at + 1});
  }
  nodes.back().next = kNone;

  std::vector<Candidate> storage;
  storage.reserve(nodes.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(),
                                                                               std::move(storage));
  const auto node = [&](std::int32_t i) -> Node& { return nodes[static_cast<std::size_t>(i)]; };
  const auto propose = [&](std::int32_t left) {
    if (left == kNone || node(left).next == kNone) return;
    const std::int32_t left_id = node(left).id;
    const std::int32_t right_id = node(node(left).next).id;
    if (const Merge* merge = find(left_id, right_id)) {
      queue.push({merge->rank, left, left_id, right_id, merge->id});
    }
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(nodes.size()); ++i) propose(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& left = node(best.left);
    if (left.id != best.left_id || left.next == kNone) continue;
    Node& right = node(left.next);
    if (right.id != best.right_id) continue;
    left.id = best.merged_id;
    right.id = kNone;
    left.next = right.next;
    if (left.next != kNone) node(left.next).previous = best.left;
    propose(left.previous);
    propose(best.left);
  }
  symbols.clear();
  for (std::int32_t i = 0; i != kNone; i = node(i).next) symbols.push_back(node(i).id);
}

}  // namespace kvscope
