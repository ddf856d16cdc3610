#include "harness/commands/choose_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/base/error.h"
#include "tests/harness/commands/fake_cuda.h"

namespace kvscope {
namespace {

using testing::fake_cuda;
using testing::fake_device;
using ::testing::HasSubstr;

ModelNeed llama_8b() {
  ModelNeed need;
  need.config.n_layers = 32;
  need.config.n_heads = 32;
  need.config.n_kv_heads = 8;
  need.config.head_dim = 128;
  need.config.d_model = 4096;
  need.config.d_ff = 14336;
  need.config.n_vocab = 128256;
  need.config.context_length = 8192;
  need.kv_follows = true;
  return need;
}

BackendOptions on(std::string backend, std::optional<int> device = {}) {
  return {std::move(backend), device};
}

std::string refusal(const BackendOptions& options, const CudaSupport& cuda,
                    const ModelNeed& need = llama_8b()) {
  try {
    choose_backend(options, cuda, need);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(ChooseBackend, TheCpuNeedsNoDevice) {
  const BackendChoice choice = choose_backend(on("cpu"), {}, llama_8b());
  EXPECT_FALSE(choice.device);
  EXPECT_EQ(choice.note, "");
  EXPECT_EQ(make_backend(choice, {}, 1)->name(), "cpu");
}

TEST(ChooseBackend, CudaTakesTheFirstUsableDeviceOrTheOneNamed) {
  const CudaSupport cuda =
      fake_cuda({fake_device(0, 100, "too old"), fake_device(1), fake_device(2)});
  EXPECT_EQ(choose_backend(on("cuda"), cuda, llama_8b()).device->index, 1);
  EXPECT_EQ(choose_backend(on("cuda", 2), cuda, llama_8b()).device->index, 2);
  EXPECT_EQ(make_backend(choose_backend(on("cuda"), cuda, llama_8b()), cuda, 1)->name(), "cuda");
}

TEST(ChooseBackend, DevicesComputeLlamasKindOfBlockOnly) {
  const CudaSupport cuda = fake_cuda({fake_device(0)});
  ModelNeed need = llama_8b();
  need.config.architecture = "qwen2";
  need.config.form.qkv_bias = true;
  EXPECT_EQ(refusal(on("cuda"), cuda, need),
            "--backend cuda: models of architecture 'qwen2' are not computed on CUDA devices yet, "
            "only Llama's kind; use --backend cpu");
  const BackendChoice choice = choose_backend(on("auto"), cuda, need);
  EXPECT_FALSE(choice.device);
  EXPECT_THAT(choice.note, HasSubstr("backend cpu: models of architecture 'qwen2'"));
}

TEST(ChooseBackend, WhatIsNotThereIsRefusedInOneLine) {
  EXPECT_EQ(refusal(on("cuda"), {}),
            "--backend cuda: this program was built without CUDA; use --backend cpu");
  EXPECT_EQ(refusal(on("cuda"), fake_cuda({})),
            "--backend cuda: no NVIDIA driver: install one; use --backend cpu");
  const CudaSupport cuda = fake_cuda({fake_device(0), fake_device(1, 100,
                                                                  "compute capability 3.7: "
                                                                  "not built for it")});
  EXPECT_EQ(refusal(on("cuda", 7), cuda),
            "--device 7: there is no such device, only device 0 (Fake 0), device 1 (Fake 1)");
  EXPECT_EQ(refusal(on("cuda", 1), cuda),
            "--backend cuda: device 1 (Fake 1): compute capability 3.7: not built for it");
  EXPECT_THAT(refusal(on("cpu", 0), cuda), HasSubstr("add --backend cuda"));
  EXPECT_THAT(refusal(on("auto", 0), cuda), HasSubstr("add --backend cuda"));
}

TEST(ChooseBackend, AutoTakesWhatIsThereAndSaysSo) {
  const BackendChoice gpu = choose_backend(
      on("auto"), fake_cuda({fake_device(0, 100, "too old"), fake_device(1)}), llama_8b());
  EXPECT_EQ(gpu.device->index, 1);
  EXPECT_EQ(gpu.note, "backend cuda, device 1 (Fake 1)");
  const auto note = [](const CudaSupport& cuda) {
    const BackendChoice choice = choose_backend(on("auto"), cuda, llama_8b());
    EXPECT_FALSE(choice.device);
    return choice.note;
  };
  EXPECT_EQ(note({}), "backend cpu: this program was built without CUDA");
  EXPECT_EQ(note(fake_cuda({})), "backend cpu: no NVIDIA driver: install one");
  EXPECT_EQ(note(fake_cuda({fake_device(0, 100, "too old")})),
            "backend cpu: device 0 (Fake 0): too old");
  EXPECT_THAT(note(fake_cuda({fake_device(0, 1)})), HasSubstr("backend cpu: device 0 (Fake 0): "
                                                              "weights take 29.9 GiB in f32"));
}

TEST(ChooseBackend, AShortageNamesWhatWouldFit) {
  const auto shortage = [](double free_gib, std::vector<CudaDevice> others = {}) {
    const CudaDevice device = fake_device(0, free_gib);
    others.insert(others.begin(), device);
    return memory_shortage(llama_8b(), device, others).value_or("fits");
  };
  // 8.03e9 weights (the head is packed beside the embedding) of 4 bytes, and 1,024 tokens of 256
  // KiB with 256 MiB of workspace.
  EXPECT_EQ(shortage(30.5), "fits");
  EXPECT_EQ(shortage(30.4),
            "weights take 29.9 GiB in f32, a short prompt 512.0 MiB, and device 0 (Fake 0) has "
            "30.4 GiB free: --dtype bf16 takes 15.0 GiB");
  EXPECT_EQ(shortage(15.3),  // bf16: 14.96 + 0.125 + 0.25
            "weights take 29.9 GiB in f32, a short prompt 512.0 MiB, and device 0 (Fake 0) has "
            "15.3 GiB free: use --backend cpu");
  EXPECT_EQ(shortage(15.3, {fake_device(1, 140, "too old"), fake_device(2, 40)}),
            "weights take 29.9 GiB in f32, a short prompt 512.0 MiB, and device 0 (Fake 0) has "
            "15.3 GiB free: --device 2 has 40.0 GiB");
  EXPECT_THAT(refusal(on("cuda"), fake_cuda({fake_device(0, 20)})),
              HasSubstr("--backend cuda: weights take 29.9 GiB"));
}

TEST(ChooseBackend, AKvTypeOfItsOwnStaysWhenTheWeightsShrink) {
  ModelNeed need = llama_8b();
  need.kv_follows = false;
  const CudaDevice device = fake_device(0, 15.4);
  const auto text = [&] { return memory_shortage(need, device, std::span(&device, 1)).value(); };
  EXPECT_THAT(text(), HasSubstr("use --backend cpu"));  // bf16 weights beside an f32 cache
  need.kv_follows = true;
  EXPECT_THAT(text(), HasSubstr("--dtype bf16"));
}

}  // namespace
}  // namespace kvscope
