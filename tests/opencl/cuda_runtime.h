// The part of CUDA's runtime that generated programs call, on the CPU: see cuda_on_cpu.h.
#pragma once
#include "cuda_on_cpu.h"

typedef int cudaError_t;
typedef struct cudaStream *cudaStream_t;
typedef struct cudaEvent *cudaEvent_t;
enum { cudaSuccess, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };

static inline cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    if (*memory) memset(*memory, 0xff, bytes); // NaN: nothing may be read before it is written
    return !*memory;
}
static inline cudaError_t cudaFree(void *memory) { return free(memory), 0; }
static inline cudaError_t cudaMemcpy(void *target, const void *source, size_t bytes, int)
{
    return memcpy(target, source, bytes), 0;
}
static inline cudaError_t cudaDeviceSynchronize() { return 0; }
static inline cudaError_t cudaEventCreate(cudaEvent_t *) { return 0; }
static inline cudaError_t cudaEventDestroy(cudaEvent_t) { return 0; }
static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return 0; }
static inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t)
{
    return *milliseconds = 0, 0;
}
static inline const char *cudaGetErrorString(cudaError_t) { return "an error"; }

template <typename... Arrays, size_t... i>
static void call(void (*kernel)(Arrays...), void **arrays, std::index_sequence<i...>)
{
    kernel(*static_cast<Arrays *>(arrays[i])...);
}

template <typename... Arrays>
static cudaError_t cudaLaunchKernel(
    void (*kernel)(Arrays...), dim3 blocks, dim3 threads, void **arrays, size_t, cudaStream_t)
{
    on_all([=] { call(kernel, arrays, std::index_sequence_for<Arrays...>()); }, blocks, threads);
    return 0;
}
