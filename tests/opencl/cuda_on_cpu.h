// What lets kernels in CUDA, and programs that launch them, run as C++: the threads of a block are
// threads, blocks take turns, and the device's memory is the host's.
#pragma once
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __syncthreads() block->arrive_and_wait()

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline std::barrier<> *block;
inline thread_local dim3 blockIdx, threadIdx;

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }

template <typename Kernel>
static void on_all(Kernel kernel, dim3 blocks, dim3 threads)
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
