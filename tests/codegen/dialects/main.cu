/* By nvcc the host computes and the kernel is compiled; another compiler takes it for C++. */
#include <cstdio>
#ifndef __CUDACC__
#define WINOGEN_INLINE static inline
#endif
#include "f4_3.cuh"

template <typename T>
WINOGEN_INLINE void convolve(const T (&image)[6][6], const T (&kernel)[3][3], T (&y)[4][4])
{
    T v[6][6], u[6][6], p[6][6];
    winogen_f4_3_input_2d(image, v);
    winogen_f4_3_filter_2d(kernel, u);
    for (int i = 0; i < 36; i++)
        p[i / 6][i % 6] = u[i / 6][i % 6] * v[i / 6][i % 6];
    winogen_f4_3_output_2d(p, y);
}

#ifdef __CUDACC__
__global__ void there(const float (*image)[6][6], const float (*kernel)[3][3], float (*y)[4][4])
{
    convolve(image[threadIdx.x], *kernel, y[threadIdx.x]);
}
#endif

int main()
{
    float image[6][6], kernel[3][3], y[4][4];
    for (int i = 0; i < 36; i++)
        image[i / 6][i % 6] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < 9; i++)
        kernel[i / 3][i % 3] = (float)(i * 5 % 7 - 3);
    convolve(image, kernel, y);
    for (int i = 0; i < 16; i++)
        std::printf("%.9g\n", (double)y[i / 4][i % 4]);
}
