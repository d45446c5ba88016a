#version 450
#extension GL_GOOGLE_include_directive : require
#include "f4_3.glsl"

layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer Image { float image[][36]; };
layout(binding = 1) readonly buffer Kernel { float kernel[9]; };
layout(binding = 2) writeonly buffer Result { float result[][16]; };

void main()
{
    const uint k = gl_GlobalInvocationID.x;
    float v[36], u[36], p[36], y[16];
    winogen_f4_3_input_2d(image[k], v);
    winogen_f4_3_filter_2d(kernel, u);
    for (int i = 0; i < 36; i++)
        p[i] = u[i] * v[i];
    winogen_f4_3_output_2d(p, y);
    result[k] = y;
}
