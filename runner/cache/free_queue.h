// The free blocks of a pool in the order they will be taken: a doubly linked list over block ids,
// because a hit takes a block out of the middle.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

namespace kvscope {

using BlockId = std::int32_t;

class FreeQueue {
 public:
  explicit FreeQueue(int n_blocks)  // all free, in the order of their ids
      : next_(std::size_t(n_blocks) + 1), previous_(std::size_t(n_blocks) + 1), end_(n_blocks) {
    next_[end_] = previous_[end_] = end_;
    for (BlockId block = 0; block < n_blocks; ++block) push_tail(block);
  }

  int size() const { return size_; }
  BlockId head() const { return next_[end_]; }  // size() > 0

  void push_tail(BlockId block) {
    next_[block] = end_;
    previous_[block] = previous_[end_];
    next_[previous_[end_]] = block;
    previous_[end_] = block;
    ++size_;
  }

  void remove(BlockId block) {  // that is in the queue
    assert(size_ > 0);
    next_[previous_[block]] = next_[block];
    previous_[next_[block]] = previous_[block];
    --size_;
  }

  std::vector<BlockId> blocks() const {  // head first
    std::vector<BlockId> result;
    for (BlockId block = next_[end_]; block != end_; block = next_[block]) result.push_back(block);
    return result;
  }

 private:
  std::vector<BlockId> next_;      // [n_blocks + 1]
  std::vector<BlockId> previous_;  // [n_blocks + 1]
  BlockId end_;                    // before the head and behind the tail
  int size_ = 0;
};

}  // namespace kvscope
