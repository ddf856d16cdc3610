/* C interface of policy plug-ins: shared objects that `kvscope … --policy-plugin FILE.so` loads, so
 * that a rule of your own is measured like the built-in ones. C11 and C++. docs/plugins.md tells
 * the story; this file is the contract.
 *
 * A plug-in is one policy. It exports two functions (below) and is asked, for every selection unit
 * (one KV head of one layer, or all KV heads of one layer), which cached tokens stay.
 *
 * Life of a unit's state, in this order; `observe`, `select` and `compact` repeat:
 *
 *   create                before the unit's first token
 *   observe               after each attention row; the row's own token is the last slot
 *   select                when a selection is due and more than budget_tokens slots are held
 *   compact               after tokens left: slots have moved
 *   clone                 whenever a sequence forks; original and copy go on separately
 *   destroy
 *
 * A prompt is shown row by row through the same `observe` (all of its tokens stay until its end),
 * followed by one `select`: that is the prompt-end cut. A plug-in whose `acts_in_stream` is 0 is
 * destroyed after it.
 *
 * Slots. The cached tokens of a unit are numbered 0 … n_slots-1 in any order: an evicted slot is
 * filled by the last one. positions[slot] is the token's original position in the text; positions
 * are distinct and the newest token has the largest.
 *
 * Memory. Everything the host passes is the host's and valid during the call only; copy what you
 * keep. States are the plug-in's; what they point to is never read by the host. Strings in
 * kvscope_policy must stay valid as long as the library is loaded (use literals).
 *
 * Threads. Different states are used from different threads at the same time; one state never is.
 * Keep no mutable globals. Results must depend on nothing but what the state was shown, or arms are
 * no longer reproducible.
 *
 * Failure. create and clone return NULL, the others a negative number, to say that they failed. Any
 * failure, and any selection that breaks the rules at `select`, ends the arm it happened in with an
 * error that names it; the unit then keeps its newest budget_tokens tokens so that the pass can go
 * on, and none of its functions but destroy is called again. Other arms are not touched. A plug-in
 * runs inside the process: a crash, an endless loop or a write through a stray pointer takes the
 * whole program with it. */
#ifndef KVSCOPE_POLICY_PLUGIN_H
#define KVSCOPE_POLICY_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever anything in this file does; the host loads its own version only. */
#define KVSCOPE_POLICY_ABI_VERSION 1

/* What the policy reads; the host computes and pays for nothing else. Bits of kvscope_policy.needs.
 */
enum {
  KVSCOPE_NEEDS_PROBABILITIES = 1, /* kvscope_row.probabilities; costly for the rows of a prompt */
  KVSCOPE_NEEDS_KEYS = 2,          /* kvscope_contents.read_key */
  KVSCOPE_NEEDS_VALUES = 4,        /* kvscope_contents.read_value */
  KVSCOPE_NEEDS_QUERIES = 8        /* kvscope_row.queries */
};

/* Who shares one set of tokens: kvscope_policy.scope. */
enum {
  KVSCOPE_SCOPE_HEAD = 0, /* each KV head has its own; its query heads are the group's */
  KVSCOPE_SCOPE_LAYER = 1 /* all KV heads of a layer keep the same; all query heads are seen */
};

/* A parameter, written NAME:key=value in a policy's text. */
typedef struct kvscope_param {
  const char* name;     /* [a-z][a-z0-9_]*, none of the common keys of `kvscope list policies` */
  const char* fallback; /* default; one of the values */
  /* What is allowed: "a|b|c", "0.." or "1..8" (integers), "odd 1..", "float 0..1". Anything after
   * " (" is for people. */
  const char* values;
} kvscope_param;

/* A parameter as it is for this arm: checked, in canonical spelling ("04" is "4"). */
typedef struct kvscope_argument {
  const char* name;
  const char* value;
} kvscope_argument;

/* One selection unit of one arm. */
typedef struct kvscope_unit {
  int32_t layer;                     /* 0 … n_layers-1 */
  int32_t n_layers;                  /* of the model */
  int32_t kv_head;                   /* of the layer; 0 with KVSCOPE_SCOPE_LAYER */
  int32_t n_kv_heads;                /* of the unit: 1, or all of the layer */
  int32_t n_query_heads;             /* of the unit */
  int32_t head_dim;                  /* floats of a key, value or query */
  int32_t budget_tokens;             /* slots that may stay after a selection, at least 1 */
  int32_t protect_last;              /* not 0: the newest token must stay */
  const kvscope_argument* arguments; /* [n_arguments], in the order of kvscope_policy.params */
  int32_t n_arguments;
} kvscope_unit;

/* Keys and values of the slots, read on demand. */
typedef struct kvscope_contents {
  const void* host; /* first argument of the functions */
  int32_t n_kv_heads;
  int32_t head_dim;
  /* Writes [head_dim] floats of one slot: as stored and dequantised. Keys of a dense prompt, and of
   * arms with positions=absolute, are rotated (RoPE, adjacent pairs) to their original positions;
   * elsewhere with positions=rerotate to their rank by position, with cache_relative not at all.
   * Returns 0, or a negative number without writing (a need that was not declared, an index out of
   * range), which ends the arm. */
  int32_t (*read_key)(const void* host, int32_t kv_head, int32_t slot, float* out);
  int32_t (*read_value)(const void* host, int32_t kv_head, int32_t slot, float* out);
} kvscope_contents;

/* What one attention row saw. */
typedef struct kvscope_row {
  int32_t n_slots;                /* visible: all held before, and the row's own token */
  const int32_t* positions;       /* [n_slots] */
  const float* probabilities;     /* [n_query_heads][n_slots] sum to 1 by head; NULL: not needed */
  int32_t n_query_heads;          /* of the unit */
  const float* queries;           /* [n_query_heads][head_dim] before RoPE; NULL: not needed */
  const float* inverse_frequency; /* [head_dim/2] radians a position of pair (2i, 2i+1), or NULL */
  const kvscope_contents* contents; /* of the same slots */
} kvscope_row;

/* What a selection is made from. */
typedef struct kvscope_slots {
  int32_t n_slots;          /* more than budget_tokens */
  const int32_t* positions; /* [n_slots] */
  const kvscope_contents* contents;
} kvscope_slots;

typedef struct kvscope_policy {
  const char* name;         /* [a-z][a-z0-9_]*, no policy's or part's of `kvscope list policies` */
  const char* summary;      /* one sentence for the list */
  uint32_t needs;           /* KVSCOPE_NEEDS_…, or'ed */
  int32_t scope;            /* KVSCOPE_SCOPE_… */
  int32_t acts_in_stream;   /* not 0: selects after every row too; 0: at the prompt's end only */
  int32_t slot_state_bytes; /* state of a cached token and unit, for the ledger of KV bytes */
  const kvscope_param* params; /* [n_params] */
  int32_t n_params;

  /* A state for the unit, which has no slots yet. NULL: failed. */
  void* (*create)(const kvscope_unit* unit);
  /* A copy that shares nothing mutable with the original. NULL: failed. */
  void* (*clone)(const void* state);
  void (*destroy)(void* state);
  /* 0, or negative: failed. */
  int32_t (*observe)(void* state, const kvscope_row* row);
  /* Writes the slots that stay to keep and returns how many: 1 … budget_tokens, each in
   * 0 … n_slots-1 and once, in any order, the newest token among them if protect_last. `keep` has
   * room for capacity = n_slots entries. Pure: may be called again, or not be followed by compact.
   * Negative: failed. */
  int32_t (*select)(const void* state, const kvscope_slots* slots, int32_t budget_tokens,
                    int32_t* keep, int32_t capacity);
  /* The unit now holds n_slots slots: new slot i was old slot old_slot_of[i]. 0, or negative:
   * failed. */
  int32_t (*compact)(void* state, const int32_t* old_slot_of, int32_t n_slots);
} kvscope_policy;

/* What a plug-in exports. The first says what it was compiled against and is called before the
 * other. The struct stays the plug-in's. */
#define KVSCOPE_EXPORT __attribute__((visibility("default")))
KVSCOPE_EXPORT int32_t kvscope_policy_abi_version(void);
KVSCOPE_EXPORT const kvscope_policy* kvscope_policy_plugin(void);

#ifdef __cplusplus
}
#endif

#endif /* KVSCOPE_POLICY_PLUGIN_H */
