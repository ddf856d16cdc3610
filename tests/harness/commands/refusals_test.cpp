// Bad input: one clear line, the right exit status.
#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using Refusals = ProgramTest;

TEST_F(Refusals, CommandLine) {
  expect_refused("", 64, "no subcommand");
  expect_refused("swep", 64, "swep");
  expect_refused("list", 64, "WHAT");
  expect_refused("list everything", 64, "everything");
  expect_refused("score --text a.txt", 64, "--policy");
  expect_refused("score --polcy full", 64, "kvscope score --help");
  expect_refused("score --policy full --text a.txt --ids b.json", 64, "one of");
  expect_refused("score --policy h2o --budget 0.2 --budget-tokens 9 --text a.txt", 64, "--budget");
  expect_refused("score --policy full --text a.txt --limit 2", 64, "--context");
  expect_refused("score --policy full --text a.txt --convention llama.cpp", 64, "--context");
  expect_refused("score --policy full --ids a.json --context 8 --convention llama.cpp", 64,
                 "--text");
  expect_refused("score --policy full --text a.txt --context 3 --convention llama.cpp", 64,
                 "at least 4");
  expect_refused("score --policy full --text a.txt --context 8 --convention hf", 64,
                 "--convention");
  expect_refused("score --policy full --text a.txt --threads 5000", 64, "--threads");
  expect_refused("score --policy full --text a.txt --dtype q4", 64, "--dtype");
  expect_refused("tokenize", 64, "one of");
  expect_refused("generate --policy full", 64, "one of");
  expect_refused("stats p.csv --margin -1", 64, "--margin");
}

TEST_F(Refusals, DevicesThatAreNotThere) {
  write_model();
  write("a.txt", "some text");
  const std::string score = "score --text a.txt --policy full --model tiny.gguf ";
  expect_refused(score + "--backend gpu", 64, "--backend");
  expect_refused(score + "--device 0", 64, "add --backend cuda");
  // Also where there are devices: not as many.
  expect_refused(score + "--backend cuda --device 1000", 64, "");
}

TEST_F(Refusals, Budgets) {
  const std::string score = "score --text a.txt --policy h2o ";
  expect_refused(score, 64, "--budget");
  for (const char* budget : {"0", "1.5", "nan", "0.12345", "-0.1", "abc", "inf", "''"}) {
    expect_refused(score + "--budget " + budget, 64, "budget");
  }
  expect_refused(score + "--budget-tokens 0", 64, "at least 1 token");
  expect_refused(score + "--budget-tokens 1e3", 64, "--budget-tokens");
  expect_refused("sweep --budgets 0.1,2 --db a.db", 64, "2");
  expect_refused("sweep --budgets 0.1:0.5 --db a.db", 64, "0.1:0.5");
  expect_refused("sweep --question none --db a.db", 64, "--question");
}

TEST_F(Refusals, Suites) {
  write("suite.json", R"({"policies": ["tova"], "budgets": [0.2]})");
  write("wrong.json", R"({"policies": ["tvoa"]})");
  write("half.json", R"({"policies": ["tova")");
  for (const char* option : {"--policies tova", "--budgets 0.2", "--budget-tokens 8",
                             "--question hidden", "--tasks qa"}) {
    expect_refused("sweep --suite suite.json --db a.db " + std::string(option), 64, "--suite");
  }
  expect_refused("run --suite suite.json --policy tova", 64, "--policy and --suite");
  expect_refused("run --suite suite.json --budget 0.2", 64, "--budget and --suite");
  expect_refused("run --db a.db", 64, "give --policy or --suite");
  expect_refused("sweep --suite wrong.json --db a.db", 64, "suite wrong.json: policies[0]: ");
  expect_refused("sweep --suite half.json --db a.db", 64, "suite half.json: is not JSON");
  expect_refused("sweep --suite absent.json --db a.db", 74, "absent.json");
}

TEST_F(Refusals, PoliciesSuggestTheNearest) {
  expect_refused("score --text a.txt --budget 0.2 --policy h20", 64, "h2o");
  expect_refused("score --text a.txt --budget 0.2 --policy snapkv:windw=8", 64, "window");
  expect_refused("score --text a.txt --budget 0.2 --policy h2o:norm=max", 64, "norm");
  expect_refused("sweep --budgets 0.2 --policies tova,tvoa --db a.db", 64, "tova");
  expect_refused("sweep --budgets 0.2 --tasks nedle --db a.db", 64, "needle");
}

TEST_F(Refusals, PluginsThatCannotBeLoaded) {
  write("a.txt", "some text");
  for (const char* command :
       {"score --text a.txt --policy h2o --budget 0.2", "generate --prompt hi --policy h2o",
        "sweep --policies h2o --db a.db", "run --policy h2o --budget 0.2 --db a.db", "bench sweep",
        "bench score", "list policies"}) {
    expect_refused(std::string(command) + " --policy-plugin none.so", 64, "none.so: no such file");
    expect_refused(std::string(command) + " --policy-plugin a.txt", 64, "cannot be loaded");
  }
  expect_refused("list policies --policy-plugin " KVSCOPE_PLUGIN_DIR "/clash.so", 64, "built-in");
}

TEST_F(Refusals, ProbeLevelsThatAreNone) {
  expect_refused("score --text a.txt --policy full --probe some", 64, "off, basic, full and all");
  expect_refused("sweep --policies h2o --probe 8 --db a.db", 64, "off, basic, full and all");
}

TEST_F(Refusals, ModelsThatAreNotThere) {
  write("a.txt", "some text");
  expect_refused("tokenize --text a", 74, "scripts/fetch-model");
  expect_refused("tokenize --text a --model absent.gguf", 74, "absent.gguf");
  expect_refused("score --text a.txt --policy full", 74, "scripts/fetch-model");
  expect_refused("tokenize --text a --model .", 74, ".");
}

TEST_F(Refusals, ModelsThatAreNoModels) {
  write_model();
  const std::string model = read(folder_ / "tiny.gguf");
  write("empty.gguf", "");
  write("text.gguf", "Call me Ishmael. Some years ago never mind how long precisely");
  write("head.gguf", model.substr(0, 100));
  write("half.gguf", model.substr(0, model.size() / 2));
  std::string hostile = model;
  for (std::size_t i = 8; i < 16; ++i) hostile[i] = '\xff';  // 2^64 - 1 tensors
  write("hostile.gguf", hostile);
  write("a.txt", "some text");
  for (const char* file : {"empty.gguf", "text.gguf", "head.gguf", "half.gguf", "hostile.gguf"}) {
    expect_refused(std::string("score --text a.txt --policy full --model ") + file, 65, file);
  }
}

TEST_F(Refusals, ArchitecturesAndTensorTypesWithoutSupport) {
  GgufWriter other;
  other.string("general.architecture", "mamba").string("general.name", "x");
  add_tiny_tokenizer(other, kTinyVocabMin);
  other.write(folder_ / "mamba.gguf");
  write("a.txt", "some text");
  expect_refused("score --text a.txt --policy full --model mamba.gguf", 65, "mamba");

  GgufWriter odd;
  const TinyModelShape shape;
  add_llama_keys(odd, shape);
  add_tiny_tokenizer(odd, shape.n_vocab);
  odd.tensor_at("token_embd.weight", {32, 320}, 16, 0);  // IQ2_XXS
  odd.write(folder_ / "odd.gguf");
  expect_refused("score --text a.txt --policy full --model odd.gguf", 65, "odd.gguf");
}

TEST_F(Refusals, Texts) {
  write_model();
  write("empty.txt", "");
  write("latin1.txt", "caf\xe9 au lait");
  const std::string score = "score --policy full --model tiny.gguf ";
  expect_refused(score + "--text absent.txt", 74, "absent.txt");
  expect_refused(score + "--text .", 74, ".");
  expect_refused(score + "--text empty.txt", 65, "empty");
  expect_refused(score + "--text latin1.txt", 65, "byte 3");
  write("short.txt", "a short text");
  expect_refused(score + "--text short.txt --context 100", 65, "fewer than one window");
  write("bad.json", "[1, 2, 100000]");
  expect_refused(score + "--ids bad.json", 65, "vocabulary");
  write("bad.jsonl", "{\"text\": \"x\"}\n{\"txt\": 1}\n");
  const Finished lines = kvscope("tokenize --jsonl bad.jsonl --json --model tiny.gguf");
  EXPECT_EQ(lines.status, 65);
  EXPECT_EQ(lines.err, "kvscope: bad.jsonl line 2: an object like {\"text\": \"…\"} is wanted\n");
}

TEST_F(Refusals, PromptsThatDoNotFit) {
  write_model();
  write("ids.json", "[10, 11, 12, 13, 14, 15, 16, 17]");
  const std::string score = "score --ids ids.json --model tiny.gguf ";
  expect_refused(score + "--policy snapkv --budget 0.5", 64, "--prompt-tokens");
  expect_refused(score + "--policy h2o:decode=grow --budget 0.5", 64, "--prompt-tokens");
  expect_refused(score + "--policy full --prompt-tokens 9", 64, "8 tokens");
  expect_refused(score + "--policy full --prompt-tokens 0", 64, "8 tokens");
  expect_refused(score + "--policy streaming_llm:sinks=6 --budget-tokens 4", 64, "sinks");
  expect_refused(score + "--policy full --context 4 --residents", 64, "--limit 1");
}

TEST_F(Refusals, PositionsBeyondTheModelsContext) {
  write_model();
  std::string ids = "[10";
  for (int i = 0; i < 520; ++i) ids += ", 11";  // the tiny model was made for 512
  write("long.json", ids + "]");
  const std::string score = "score --ids long.json --model tiny.gguf ";
  expect_refused(score + "--policy h2o --budget 0.1", 64, "--beyond-context");
  EXPECT_EQ(kvscope(score + "--policy h2o --budget 0.1 --beyond-context --json").status, 0);
  EXPECT_EQ(kvscope(score + "--policy streaming_llm --budget 0.1 --json").status, 0);
}

TEST_F(Refusals, PromptFiles) {
  write_model();
  const std::string generate =
      "generate --policy h2o --model tiny.gguf --max-new-tokens 2 --jsonl ";
  write("none.jsonl", "{\"ids\": [5, 6, 7], \"prompt_tokens\": 2}\n");
  expect_refused(generate + "none.jsonl", 64, "--budget");
  write("long.jsonl", "{\"ids\": [5, 6, 7], \"prompt_tokens\": 4, \"budget_tokens\": 2}\n");
  expect_refused(generate + "long.jsonl", 65, "prompt_tokens 4 for 3 ids");
  write("one.jsonl", "{\"ids\": [5], \"prompt_tokens\": 1, \"budget_tokens\": 2}\n");
  expect_refused(generate + "one.jsonl", 65, "nothing to select");
  write("zero.jsonl", "{\"ids\": [5, 6], \"prompt_tokens\": 1, \"budget_tokens\": 0}\n");
  expect_refused(generate + "zero.jsonl", 65, "budget_tokens 0");
}

TEST_F(Refusals, Databases) {
  write_model();
  expect_refused("compare a b --db absent.db", 74, "absent.db");
  expect_refused("list arms --db absent.db", 74, "absent.db");
  write("text.db", "this is no database, only a text that is long enough to be looked at");
  expect_refused("list arms --db text.db", 65, "text.db");
  ASSERT_EQ(shell("sqlite3 other.db 'CREATE TABLE t(x); PRAGMA application_id=7;' || "
                  "python3 -c \"import sqlite3; c = sqlite3.connect('other.db'); "
                  "c.execute('CREATE TABLE t(x)'); c.execute('PRAGMA application_id=7'); "
                  "c.commit()\"")
                .status,
            0);
  const std::string before = read(folder_ / "other.db");
  const std::string sweep =
      "sweep --model tiny.gguf --policies tova --budgets 0.5 --tasks qa:samples=1:people=1 --db ";
  expect_refused(sweep + "other.db", 74, "other.db");
  EXPECT_EQ(read(folder_ / "other.db"), before);
  expect_refused(sweep + "/proc/kvscope.db", 74, "/proc/kvscope.db");
  expect_refused(sweep + "absent/a.db", 74, "absent/a.db");
}

TEST_F(Refusals, OutputThatCannotBeWritten) {
  const Finished full = shell("\"$KVSCOPE\" list policies --json > /dev/full");
  EXPECT_EQ(full.status, 74);
  EXPECT_EQ(full.err, "kvscope: cannot write the output\n");
  const Finished closed = shell("\"$KVSCOPE\" list policies | true");
  EXPECT_EQ(closed.status, 0);
  EXPECT_EQ(closed.err, "");
}

}  // namespace
}  // namespace kvscope::testing
