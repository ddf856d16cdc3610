/* Breaks its contract in the way that the parameter `fault` names, once `after` rows were shown;
 * until then (and with fault=none) the newest tokens stay. */
#include <string.h>

#include "plugin_stub.h"

typedef struct {
  char fault[24];
  int32_t after;
  int32_t rows;
  int32_t budget_tokens;
} unit_state;

static int due(const unit_state* s, const char* fault) {
  return s->rows > s->after && strcmp(s->fault, fault) == 0;
}

static void* create(const kvscope_unit* unit) {
  if (strcmp(unit->arguments[0].value, "null_create") == 0) return NULL;
  unit_state* s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  strncpy(s->fault, unit->arguments[0].value, sizeof s->fault - 1);
  s->after = (int32_t)strtol(unit->arguments[1].value, NULL, 10);
  s->budget_tokens = unit->budget_tokens;
  return s;
}

static void* clone(const void* state) {
  const unit_state* from = state;
  if (strcmp(from->fault, "null_clone") == 0) return NULL;
  unit_state* s = malloc(sizeof *s);
  if (s != NULL) *s = *from;
  return s;
}

static int32_t observe(void* state, const kvscope_row* row) {
  unit_state* s = state;
  float floats[256];
  ++s->rows;
  if (due(s, "observe_code")) return -7;
  if (due(s, "undeclared_value")) row->contents->read_value(row->contents->host, 0, 0, floats);
  if (due(s, "key_of_no_slot"))
    row->contents->read_key(row->contents->host, 0, row->n_slots, floats);
  return 0;
}

static int32_t select_slots(const void* state, const kvscope_slots* slots, int32_t budget_tokens,
                            int32_t* keep, int32_t capacity) {
  const unit_state* s = state;
  const int32_t n = stub_select(state, slots, budget_tokens, keep, capacity);
  if (due(s, "duplicate")) keep[n - 1] = keep[0];
  if (due(s, "out_of_range")) keep[n - 1] = slots->n_slots;
  if (due(s, "negative_slot")) keep[n - 1] = -1;
  if (due(s, "drops_newest")) {
    memmove(keep, keep + 1, (size_t)(n - 1) * sizeof *keep);
    return n - 1;
  }
  if (due(s, "none_kept")) return 0;
  if (due(s, "select_code")) return -3;
  if (due(s, "too_many")) {
    for (int32_t i = 0; i < slots->n_slots; ++i) keep[i] = i;
    return slots->n_slots;
  }
  if (due(s, "huge_count")) return INT32_MAX;
  if (due(s, "writes_behind")) keep[capacity] = 0;
  return n;
}

static int32_t compact(void* state, const int32_t* old_slot_of, int32_t n_slots) {
  const unit_state* s = state;
  (void)old_slot_of;
  (void)n_slots;
  return due(s, "compact_code") ? -5 : 0;
}

int32_t kvscope_policy_abi_version(void) { return KVSCOPE_POLICY_ABI_VERSION; }

const kvscope_policy* kvscope_policy_plugin(void) {
  static const kvscope_param params[] = {
      {"fault", "none",
       "none|duplicate|out_of_range|negative_slot|drops_newest|none_kept|select_code|too_many|"
       "huge_count|writes_behind|observe_code|compact_code|null_create|null_clone|undeclared_value|"
       "key_of_no_slot"},
      {"after", "0", "0.."},
  };
  static kvscope_policy policy;
  policy = stub_policy("misbehaving");
  policy.needs = KVSCOPE_NEEDS_KEYS;
  policy.slot_state_bytes = 0;
  policy.params = params;
  policy.n_params = 2;
  policy.create = create;
  policy.clone = clone;
  policy.observe = observe;
  policy.select = select_slots;
  policy.compact = compact;
  return &policy;
}
