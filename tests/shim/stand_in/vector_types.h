// Stands for the toolkit's header of this name (cuda_runtime_api.h here says more).
#pragma once

#define __host__
#define __device__
#define __global__
#define __constant__
#define __align__(n) __attribute__((aligned(n)))

struct float2 {
  alignas(8) float x;
  float y;
};
struct float3 {
  float x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct int2 {
  alignas(8) int x;
  int y;
};
struct int3 {
  int x, y, z;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct uint2 {
  alignas(8) unsigned x;
  unsigned y;
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
