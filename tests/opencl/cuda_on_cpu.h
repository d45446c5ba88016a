// What lets kernels in CUDA run as C++: the threads of a block are threads, blocks take turns.
#pragma once
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __syncthreads() block->arrive_and_wait()

struct Index {
    unsigned x, y, z;
};

static std::barrier<> *block;
static thread_local Index blockIdx, threadIdx;

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }

template <typename Kernel>
static void launch(Kernel kernel, Index blocks, Index threads)
{
    const unsigned count = threads.x * threads.y * threads.z;
    for (unsigned i = 0; i < blocks.x * blocks.y * blocks.z; i++) {
        std::barrier<> together(count);
        block = &together;
        std::vector<std::thread> team;
        for (unsigned j = 0; j < count; j++)
            team.emplace_back([=] {
                blockIdx = {i % blocks.x, i / blocks.x % blocks.y, i / blocks.x / blocks.y};
                threadIdx = {j % threads.x, j / threads.x % threads.y, j / threads.x / threads.y};
                kernel();
            });
        for (auto &one : team)
            one.join();
    }
}
