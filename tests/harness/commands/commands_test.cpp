// What the small commands print, on a tiny random model.
#include <nlohmann/json.hpp>

#include "harness/store/store.h"
#include "tests/harness/commands/program.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using Commands = ProgramTest;

TEST_F(Commands, HelpAndVersionAreNoErrors) {
  const Finished help = kvscope("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("Examples:"), std::string::npos);
  for (const char* command : {"sweep", "run", "compare", "list", "show", "tokenize", "score",
                              "generate", "trace", "simulate", "stats", "bench", "why"}) {
    const Finished one = kvscope(std::string(command) + " --help");
    EXPECT_EQ(one.status, 0) << command;
    EXPECT_NE(one.out.find("Example"), std::string::npos) << command;
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
  }
  const Finished version = kvscope("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("kvscope 0.1.0 (")) << version.out;
}

TEST_F(Commands, ListsWhatThereIs) {
  std::vector<std::string> names;
  for (const auto& policy : json::parse(kvscope("list policies --json").out)) {
    names.push_back(policy["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"full",
                                             "sliding_window",
                                             "streaming_llm",
                                             "random",
                                             "lru",
                                             "h2o",
                                             "scissorhands",
                                             "tova",
                                             "snapkv",
                                             "cake",
                                             "knorm",
                                             "keydiff",
                                             "expected_attention",
                                             "paged_eviction",
                                             "quest",
                                             "+pyramid",
                                             "+adakv",
                                             "+cake",
                                             "+page",
                                             "+kivi",
                                             "+kv_int8",
                                             "+kv_fp8",
                                             "+minference"}));
  names.clear();
  for (const auto& task : json::parse(kvscope("list tasks --json").out)) {
    names.push_back(task["name"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"perplexity", "needle", "passkey", "niah", "ruler",
                                             "kv_retrieval", "dialogue", "qa", "replay"}));
  EXPECT_GT(json::parse(kvscope("list metrics --json").out).size(), 10U);
  EXPECT_NE(kvscope("list policies").out.find("snapkv"), std::string::npos);
}

TEST_F(Commands, PluginsAreListedAndRun) {
  write_model();
  write("ids.json", "[5,6,7,8,9,10,11,12,13,14,15,16]");
  const std::string plugin = " --policy-plugin " KVSCOPE_PLUGIN_DIR "/attention_average.so";
  const auto policies = json::parse(kvscope("list policies --json" + plugin).out);
  const auto listed = std::find_if(policies.begin(), policies.end(), [](const json& policy) {
    return policy["name"] == "attention_average";
  });
  ASSERT_NE(listed, policies.end());
  EXPECT_EQ((*listed)["plugin_sha256"].get<std::string>().size(), 64U);
  EXPECT_NE(kvscope("list policies" + plugin).out.find("recent=auto (half of B)"),
            std::string::npos);
  const std::string score = "score --ids ids.json --model tiny.gguf --budget-tokens 4 --json ";
  const Finished run = kvscope(score + "--policy attention_average:decay=0.5" + plugin);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["policy"], "attention_average:decay=0.5");
  expect_refused(score + "--policy attention_average", 64, "unknown policy");
  const Finished faulty =
      kvscope(score + "--policy misbehaving:fault=duplicate --policy-plugin " KVSCOPE_PLUGIN_DIR
                      "/misbehaving.so");
  EXPECT_EQ(faulty.status, 70);
  EXPECT_EQ(faulty.out, "");
  EXPECT_NE(faulty.err.find("select kept slot"), std::string::npos) << faulty.err;
}

TEST_F(Commands, TokenizeTakesATokenizersFileOrFolder) {
  write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  EXPECT_EQ(kvscope("tokenize --text abba --tokenizer tokenizer.json").out, "2 1 0\n");
  EXPECT_EQ(kvscope("tokenize --text abba --tokenizer .").out, "2 1 0\n");
  EXPECT_EQ(kvscope("tokenize --text abba --model .").out, "2 1 0\n");
  expect_refused("tokenize --text a --tokenizer . --model tiny.gguf", 64, "--model");
  write("tokenizer.json", R"({"model": {"type": "WordPiece"}})");
  expect_refused("tokenize --text a --tokenizer .", 65,
                 "tokenizer.json: tokenizer model 'WordPiece' is not supported");
}

TEST_F(Commands, GenerateTakesAnotherChatTemplate) {
  write_model();
  const std::string generate =
      "generate --prompt 'hello there' --policy full --max-new-tokens 2 --model tiny.gguf "
      "--chat-template ";
  EXPECT_EQ(kvscope(generate + "none").status, 0);
  EXPECT_EQ(kvscope(generate + "zephyr").status, 0);
  write("mine.jinja", "{{ 'Q: ' + messages[0]['content'] }}");
  expect_refused(generate + "mine.jinja", 65, "chat template is none that is known (chatml,");
  expect_refused(generate + "llama-3", 65, "ends a turn with <|eot_id|>");
  expect_refused(generate + "nonesuch", 64, "neither a file nor a form; known are none, chatml,");
}

TEST_F(Commands, TokenizeRecognisesSpecialTokens) {
  write_model();
  // Bytes are 3 + b; "he" is the third merge.
  EXPECT_EQ(kvscope("tokenize --text 'he<|im_end|>!' --model tiny.gguf").out, "261 2 36\n");
  write("a.jsonl", "{\"text\": \"!\"}\n{\"text\": \"\"}\n");
  EXPECT_EQ(kvscope("tokenize --jsonl a.jsonl --json --model tiny.gguf").out,
            "{\"ids\":[36]}\n{\"ids\":[]}\n");
}

TEST_F(Commands, ScoreAtALevelThatSamplesGivesEstimatesWithTheirPlan) {
  write_model();
  std::string ids = "[10";
  for (int i = 1; i < 80; ++i) ids += "," + std::to_string(10 + i * 7 % 200);
  write("ids.json", ids + "]");
  const std::string score =
      "score --ids ids.json --model tiny.gguf --json --policy h2o --budget-tokens 10 --probe ";
  const json full = json::parse(kvscope(score + "full").out);
  for (const char* key : {"mean_rebound_mass", "mean_hit_at_32", "mean_hit_at_90_percent_mass"}) {
    const std::string sampled = std::string(key) + "_sampled";
    ASSERT_TRUE(full[sampled].is_number()) << key;
    EXPECT_LE(full[sampled + "_ci95"][0], full[sampled]) << key;
    EXPECT_GE(full[sampled + "_ci95"][1], full[sampled]) << key;
    EXPECT_FALSE(full.contains(key)) << key;
  }
  EXPECT_EQ(full["probe_plan"]["text"], "sampled, 2 of 2 layers, every 8th step");
  EXPECT_TRUE(full["mean_kl_full_nats"].is_number());
  const json basic = json::parse(kvscope(score + "basic").out);
  EXPECT_FALSE(basic.contains("mean_rebound_mass_sampled"));
  EXPECT_EQ(basic["nll_nats"], full["nll_nats"]);
  const json rounded = json::parse(kvscope(score + "all --ghosts int8").out);
  EXPECT_EQ(rounded["nll_nats"], full["nll_nats"]);
  EXPECT_EQ(rounded["ghost_coverage"], 1.0);
  EXPECT_GT(rounded["ghost_logit_bound"], 0.0);
}

TEST_F(Commands, BenchProbesFindsTheSameBitsAtEveryLevel) {
  write_model();
  write("text.txt", std::string(4000, 'a'));
  const json bench = json::parse(
      kvscope(
          "bench probes --model tiny.gguf --json --repetitions 1 --threads 1 --policies h2o,tova "
          "--budgets 0.2 --text text.txt --tasks "
          "needle:length=300:samples=1,perplexity:context=64:windows=1")
          .out);
  EXPECT_EQ(bench["results_are_the_same"], true);
  ASSERT_EQ(bench["levels"].size(), 4U);
  EXPECT_EQ(bench["levels"][0]["level"], "off");
  EXPECT_TRUE(bench["levels"][2]["metrics"].contains("rebound_mass_sampled"));
  EXPECT_TRUE(bench["levels"][3]["metrics"].contains("rebound_mass"));
}

TEST_F(Commands, ScoreInStreamPrintsWhatTheChecksRead) {
  write_model();
  std::string ids = "[10";
  for (int i = 1; i < 40; ++i) ids += "," + std::to_string(10 + i * 7 % 200);
  write("ids.json", ids + "]");
  const std::string score =
      "score --ids ids.json --model tiny.gguf --json --residents --probe all ";
  const json h2o = json::parse(kvscope(score + "--policy h2o --budget-tokens 10 --top 3").out);
  EXPECT_EQ(h2o["token_ids"].size(), 40U);
  EXPECT_EQ(h2o["nll_nats"].size(), 40U);
  EXPECT_TRUE(h2o["nll_nats"][0].is_null());
  EXPECT_TRUE(h2o["nll_nats"][39].is_number());
  EXPECT_EQ(h2o["top"].size(), 40U);
  EXPECT_EQ(h2o["top"][0].size(), 3U);
  EXPECT_EQ(h2o["mode"], "in_stream");
  EXPECT_EQ(h2o["resident_positions"].size(), 4U);  // 2 layers of 2 KV heads
  EXPECT_EQ(h2o["resident_positions"]["1.0"].size(), 10U);
  EXPECT_EQ(h2o["resident_positions"]["1.0"][9], 39);
  for (const char* key : {"mean_rebound_mass", "mean_hit_at_32", "mean_hit_at_90_percent_mass",
                          "mean_kl_full_nats", "top1_agreement"}) {
    EXPECT_TRUE(h2o[key].is_number()) << key;
  }
  EXPECT_FALSE(h2o.contains("windows"));

  const json full = json::parse(kvscope(score + "--policy full").out);
  EXPECT_TRUE(full["mean_rebound_mass"].is_null());
  EXPECT_TRUE(full["mean_hit_at_32"].is_null());
  EXPECT_EQ(full["mean_kl_full_nats"], 0.0);
  EXPECT_EQ(full["top1_agreement"], 1.0);
  EXPECT_EQ(full["resident_positions"]["0.1"].size(), 40U);

  const json relative = json::parse(
      kvscope(score + "--policy streaming_llm:positions=cache_relative --budget-tokens 10").out);
  EXPECT_TRUE(relative["mean_rebound_mass"].is_null());
  EXPECT_TRUE(relative["mean_kl_full_nats"].is_number());

  // The same bits token by token, and with any number of threads.
  const std::string plain =
      "score --ids ids.json --model tiny.gguf --json --policy h2o --budget 0.25 ";
  const std::string expected = kvscope(plain + "--threads 1").out;
  EXPECT_EQ(kvscope(plain + "--threads 3").out, expected);
  EXPECT_EQ(json::parse(kvscope(plain + "--token-major").out)["nll_nats"],
            json::parse(expected)["nll_nats"]);
}

TEST_F(Commands, ScoreOfOneTokenHasNothingToPredict) {
  write_model();
  write("one.json", "[17]");
  const json score = json::parse(
      kvscope("score --ids one.json --model tiny.gguf --policy full --top 2 --json").out);
  EXPECT_EQ(score["nll_nats"], json::array({nullptr}));
  EXPECT_TRUE(score["mean_nll_nats"].is_null());
  EXPECT_EQ(score["top"][0].size(), 2U);
}

TEST_F(Commands, ScoreCutsATextIntoWindows) {
  write_model();
  std::string text;
  for (int i = 0; i < 100; ++i) text += char('a' + i * i % 26);
  write("a.txt", text);
  const json score = json::parse(
      kvscope("score --text a.txt --model tiny.gguf --policy full --context 16 --limit 2 --json")
          .out);
  ASSERT_EQ(score["windows"].size(), 2U);
  EXPECT_EQ(score["windows"][1]["tokens"], 15);
  EXPECT_EQ(score["nll_nats"].size(), 32U);
  EXPECT_TRUE(score["nll_nats"][16].is_null());
  const double sum = score["windows"][0]["sum_nll_nats"].get<double>() +
                     score["windows"][1]["sum_nll_nats"].get<double>();
  // exp of a mean of the same 30 numbers: only the last bit can differ.
  EXPECT_NEAR(score["perplexity"].get<double>(), std::exp(sum / 30), 1e-9);
}

TEST_F(Commands, ScoreCountsTheSecondHalvesLikeLlamaPerplexity) {
  write_model();
  std::string text;
  for (int i = 0; i < 100; ++i) text += char('a' + i * i % 26);
  write("a.txt", text);
  const std::string score =
      "score --text a.txt --model tiny.gguf --policy full --context 16 --limit 2 --json ";
  const json all = json::parse(kvscope(score).out);
  const json half = json::parse(kvscope(score + "--convention llama.cpp").out);
  EXPECT_EQ(all["convention"], "all");
  EXPECT_EQ(half["convention"], "llama.cpp");
  EXPECT_EQ(half["token_ids"], all["token_ids"]);
  EXPECT_EQ(half["windows"][1]["tokens"], 7);  // 16 - 1 - 16 / 2
  double sum = 0;
  for (int w : {0, 1}) {
    for (int t = 0; t < 16; ++t) {
      const auto& nll = half["nll_nats"][16 * w + t];
      if (t < 9) {
        EXPECT_TRUE(nll.is_null()) << t;
      } else {
        EXPECT_EQ(nll, all["nll_nats"][16 * w + t]) << t;
        sum += nll.get<double>();
      }
    }
  }
  EXPECT_NEAR(half["perplexity"].get<double>(), std::exp(sum / 14), 1e-9);  // order of the sum
}

TEST_F(Commands, ScoreShowsItsProgressOnStderrOnly) {
  write_model();
  write("ids.json", "[10, 11, 12, 13, 14, 15, 16, 17]");
  const Finished score =
      kvscope("score --ids ids.json --model tiny.gguf --policy full --context 4 --json");
  EXPECT_EQ(score.status, 0);
  EXPECT_TRUE(json::parse(score.out).is_object());
  EXPECT_TRUE(score.err.starts_with("score: 0/8 tokens\n")) << score.err;
  EXPECT_NE(score.err.find("score: 8/8 tokens in "), std::string::npos) << score.err;
}

TEST_F(Commands, ScoreStopsCleanlyOnASignal) {
  write_model();
  write("long.txt", std::string(3'000'000, 'a'));
  for (const auto& [signal, status] : {std::pair("TERM", 75), std::pair("INT", 130)}) {
    // The first line of progress says that the signal has a handler; it must not be the last run's.
    const Finished score = shell(
        "rm -f err; \"$KVSCOPE\" score --text long.txt --model tiny.gguf --policy full --context "
        "64 2>err & "
        "pid=$!; until grep -q 'score: 0/' err; do sleep 0.01; done; kill -" +
        std::string(signal) + " $pid; wait $pid; status=$?; cat err >&2; (exit $status)");
    EXPECT_EQ(score.status, status) << score.err;
    EXPECT_EQ(score.out, "");
    EXPECT_NE(score.err.find(" windows scored; nothing is kept.\n"), std::string::npos)
        << score.err;
  }
}

TEST_F(Commands, ScoreCutsAtThePromptsEnd) {
  write_model();
  std::string ids = "[10";
  for (int i = 1; i < 48; ++i) ids += "," + std::to_string(10 + i * 11 % 200);
  write("ids.json", ids + "]");
  const json score = json::parse(
      kvscope("score --ids ids.json --model tiny.gguf --json --residents --prompt-tokens 40 "
              "--budget 0.5 --policy snapkv:window=4")
          .out);
  EXPECT_EQ(score["mode"], "monolithic");
  // Half of the prompt stays and the 8 tokens after it grow the cache.
  EXPECT_EQ(score["resident_positions"]["0.0"].size(), 28U);
}

TEST_F(Commands, GenerateAnswersEachLine) {
  write_model();
  write("a.jsonl",
        "{\"ids\": [20, 30, 40, 50, 60, 70], \"prompt_tokens\": 4, \"budget_tokens\": 2}\n"
        "{\"ids\": [20, 30, 40, 50, 60, 70], \"prompt_tokens\": 6, \"budget_tokens\": 6}\n");
  const std::string generate =
      "generate --model tiny.gguf --jsonl a.jsonl --max-new-tokens 3 --json ";
  const Finished tova = kvscope(generate + "--policy tova");
  EXPECT_EQ(tova.status, 0) << tova.err;
  std::istringstream lines(tova.out);
  std::string first;
  std::string second;
  ASSERT_TRUE(std::getline(lines, first) && std::getline(lines, second));
  EXPECT_LE(json::parse(first)["new_ids"].size(), 3U);
  EXPECT_GE(json::parse(first)["new_ids"].size(), 1U);
  EXPECT_TRUE(json::parse(second)["new_ids"].is_array());

  const Finished chat = kvscope(
      "generate --model tiny.gguf --policy full --prompt 'hello there' --max-new-tokens 2 --json");
  EXPECT_EQ(chat.status, 0) << chat.err;
  EXPECT_TRUE(json::parse(chat.out)["text"].is_string());
}

TEST_F(Commands, StatsPrintsTheSharedKeys) {
  write("p.csv", "cluster,a,b\nx,0,1\nx,1,1\ny,0,0\ny,1,0\n");
  const json stats = json::parse(kvscope("stats p.csv --margin 0.1 --json").out);
  EXPECT_EQ(stats["n"], 4);
  EXPECT_EQ(stats["clusters"], 2);
  EXPECT_EQ(stats["mean_difference"], 0.0);
  EXPECT_EQ(stats["mcnemar_exact"]["gained"], 1);
  EXPECT_EQ(stats["mcnemar_exact"]["lost"], 1);
  EXPECT_EQ(stats["sign_flip_exact"]["p_two_sided"], 1.0);
  EXPECT_TRUE(stats["wilson95_b"].is_array());
  EXPECT_NE(kvscope("stats p.csv").out.find("mean_difference"), std::string::npos);
}

TEST_F(Commands, ArmsThatSeeTheQuestionAreNotComparedWithOthers) {
  write_model();
  const Finished run = kvscope(
      "run --model tiny.gguf --policy tova --budget 0.5 --question both --tasks "
      "qa:samples=3:people=1:filler=false --db a.db");
  ASSERT_EQ(run.status, 0) << run.err;
  const json arms = json::parse(kvscope("list arms --db a.db --json").out);
  ASSERT_EQ(arms.size(), 4U);
  EXPECT_EQ(arms[3]["label"], "tova@0.500 question=hidden");
  EXPECT_EQ(arms[3]["question_visibility"], "hidden");
  const json hidden =
      json::parse(kvscope("compare full 'tova@0.500 question=hidden' --db a.db --json").out);
  EXPECT_EQ(hidden["a"]["question_visibility"], "hidden");
  EXPECT_EQ(hidden["a"]["label"], "full@1.000 question=hidden");
  const Finished mixed = kvscope("compare tova@0.500 'tova@0.500 question=hidden' --db a.db");
  EXPECT_EQ(mixed.status, 64);
  EXPECT_EQ(mixed.err,
            "kvscope: compare: the question is visible to tova@0.500 and hidden to tova@0.500 "
            "question=hidden; name two arms of one visibility\n");
  EXPECT_NE(kvscope("show 'tova@0.500 question=hidden' --db a.db").out.find("question hidden"),
            std::string::npos);
  // A sample's arms: one table for each visibility.
  const std::string sample = kvscope("show document=0:question=0 --db a.db").out;
  const std::string heading = "arm  ";
  const std::size_t first = sample.find("\n\n" + heading);
  ASSERT_NE(first, std::string::npos) << sample;
  EXPECT_NE(sample.find("\n\n" + heading, first + 1), std::string::npos) << sample;
}

TEST_F(Commands, ASweepIsComparedListedAndShown) {
  write_model();
  const std::string sweep =
      "sweep --model tiny.gguf --policies tova --budgets 0.5 --tasks "
      "qa:samples=3:people=1:filler=false --db "
      "a.db "
      "--metrics-textfile a.prom ";
  const Finished first = kvscope(sweep);
  ASSERT_EQ(first.status, 0) << first.err;
  const Finished again = kvscope(sweep);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(read(folder_ / "a.prom").find("kvscope_result_nll_nats{"), std::string::npos);

  const json arms = json::parse(kvscope("list arms --db a.db --json").out);
  ASSERT_EQ(arms.size(), 2U);
  EXPECT_EQ(arms[0]["label"], "full@1.000");
  const json compared = json::parse(kvscope("compare full tova@0.500 --db a.db --json").out);
  bool found = false;
  for (const auto& metric : compared["metrics"]) {
    if (metric["metric"] != "gold_nll_nats") continue;
    found = true;
    EXPECT_EQ(metric["n"], 3);
    EXPECT_TRUE(metric["mean_difference"].is_number());
  }
  EXPECT_TRUE(found) << compared;
  EXPECT_NE(kvscope("compare full tova --db a.db").out.find("95 % interval"), std::string::npos);
  const json runs = json::parse(kvscope("list runs --db a.db --json").out);
  const std::string run = runs[0]["run_uuid"];
  EXPECT_EQ(json::parse(kvscope("show " + run.substr(0, 13) + " --db a.db --json").out)["run_uuid"],
            run);
  EXPECT_EQ(json::parse(kvscope("show tova@0.500 --db a.db --json").out)["label"], "tova@0.500");
  EXPECT_EQ(kvscope("show nothing --db a.db").status, 64);

  Store store = Store::open(folder_ / "a.db", StoreAccess::kCreate);
  for (const char* uuid : {"ffffffff-0001-7000-8000-000000000001",  //
                           "ffffffff-0001-7000-8000-000000000002"}) {
    RunRecord record;
    record.uuid = uuid;
    record.sweep_uuid = runs[0]["sweep_uuid"];
    record.argv_json = "[]";
    store.begin_run(record);
  }
  const Finished ambiguous = kvscope("show ffffffff-0001 --db a.db");
  EXPECT_EQ(ambiguous.status, 64);
  EXPECT_NE(ambiguous.err.find("ffffffff-0001-7000-8000-000000000001"), std::string::npos);
  EXPECT_NE(ambiguous.err.find("ffffffff-0001-7000-8000-000000000002"), std::string::npos);
  const Finished policies = kvscope("list policies");
  EXPECT_NE(policies.out.find("sinks=auto (4)"), std::string::npos) << policies.out;
  EXPECT_NE(policies.out.find("window=auto (32)"), std::string::npos);
  EXPECT_NE(policies.out.find("recent=auto (half of B)"), std::string::npos);
}

}  // namespace
}  // namespace kvscope::testing
