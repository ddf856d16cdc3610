// Slots of a page by element, in every format: what is written is encoded, what is read is float32.
#pragma once

#include "runner/cache/page_pool.h"

namespace kvscope {

// key, value: [head_dim]. A value can only be where the pool's pages have values.
void write_key(const PagePool& pool, PageId page, int slot, const float* key);
void write_value(const PagePool& pool, PageId page, int slot, const float* value);
void read_key(const PagePool& pool, PageId page, int slot, float* key);
void read_value(const PagePool& pool, PageId page, int slot, float* value);

// Slots first … first + n - 1 of a page: keys to out [head_dim][kPageSlots], values to out
// [kPageSlots][head_dim], each at its own slot.
void read_keys(const PagePool& pool, PageId page, int first, int n, float* out);
void read_values(const PagePool& pool, PageId page, int first, int n, float* out);

// Copies one slot's keys (and values, where both shapes have them) between pages of equal head_dim:
// bit for bit between pages stored alike, as the value that is read back otherwise.
void copy_slot(const PagePool& from_pool, PageId from, int from_slot, const PagePool& to_pool,
               PageId to, int to_slot);

}  // namespace kvscope
