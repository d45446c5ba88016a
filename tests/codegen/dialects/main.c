/* Vectors of four by NEON's intrinsics, or by OpenCL C, of which its file uses what C has, too. */
#include <stdio.h>
#ifdef OPENCL
typedef float vec __attribute__((vector_size(16)));
#define WINOGEN_VEC vec
#include "f4_3.cl"
#else
#include "f4_3.h"
typedef float32x4_t vec;
#endif

int main(void)
{
    vec image[6][6], kernel[3][3], v[6][6], u[6][6], p[6][6], y[4][4];
    for (int i = 0; i < 36; i++)
        image[i / 6][i % 6] = (vec){0, 1, 2, (float)(i * 7 % 11 - 5)};
    for (int i = 0; i < 9; i++)
        kernel[i / 3][i % 3] = (vec){2, 1, 0, (float)(i * 5 % 7 - 3)};
    winogen_f4_3_input_2d((const vec(*)[6])image, v);
    winogen_f4_3_filter_2d((const vec(*)[3])kernel, u);
    for (int i = 0; i < 36; i++)
        p[i / 6][i % 6] = u[i / 6][i % 6] * v[i / 6][i % 6];
    winogen_f4_3_output_2d((const vec(*)[6])p, y);
    for (int i = 0; i < 16; i++)
        printf("%.9g\n", (double)y[i / 4][i % 4][3]);
    return 0;
}
