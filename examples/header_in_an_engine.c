/* A tile loop around transforms/f4_3.h, as a small inference engine would have it: 3x3 convolution
 * of many channels, eight filters at a time, F(4x4, 3x3).
 *
 * Run: cc -O3 -I transforms examples/header_in_an_engine.c -o engine && ./engine
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef float vec __attribute__((vector_size(32)));    /* eight filters, or eight channels */
#define WINOGEN_VEC vec
#define WINOGEN_FILTER_VEC double
#define WINOGEN_FILTER_REAL double
#include "f4_3.h"

enum { C = 16, HEIGHT = 24, WIDTH = 40 };                  /* channels, outputs (multiples of M) */
enum { M = WINOGEN_F4_3_M, N = WINOGEN_F4_3_N, R = WINOGEN_F4_3_R, LANES = 8 };
enum { PADDED_W = WIDTH + R - 1, PADDED_H = HEIGHT + R - 1 };

/* Once per layer: U[position][channel] is a vector of eight filters. In double, rounded once. */
static void pack(float filter[LANES][C][R][R], vec u[N * N][C])
{
    for (int m = 0; m < LANES; m++)
        for (int c = 0; c < C; c++) {
            double g[R * R], t[N * N];
            for (int k = 0; k < R * R; k++) g[k] = filter[m][c][k / R][k % R];
            winogen_f4_3_filter_2d(g, R, 1, t, N, 1);
            for (int k = 0; k < N * N; k++) u[k][c][m] = (float)t[k];
        }
}

/* One tile: channels eight at a time through B^T d B, all of them through the products, A^T y A. */
static void tile(vec in[PADDED_H][PADDED_W][C / LANES], vec u[N * N][C], int y, int x,
                 vec out[HEIGHT][WIDTH])
{
    vec sum[N * N] = { 0 };
    for (int block = 0; block < C / LANES; block++) {
        vec v[N * N];
        winogen_f4_3_input_2d(&in[y][x][block], PADDED_W * (C / LANES), C / LANES, v, N, 1);
        for (int k = 0; k < N * N; k++)
            for (int c = 0; c < LANES; c++) sum[k] += v[k][c] * u[k][block * LANES + c];
    }
    winogen_f4_3_output_2d(sum, N, 1, &out[y][x], WIDTH, 1);
}

static vec in[PADDED_H][PADDED_W][C / LANES], u[N * N][C], out[HEIGHT][WIDTH];
static float filter[LANES][C][R][R];

int main(void)
{
    for (int i = 0; i < PADDED_H * PADDED_W * C; i++) ((float *)in)[i] = (float)(i * 7 % 23) - 11;
    for (int i = 0; i < LANES * C * R * R; i++) ((float *)filter)[i] = (float)(i * 5 % 13) / 8;

    pack(filter, u);
    for (int y = 0; y < HEIGHT; y += M)
        for (int x = 0; x < WIDTH; x += M) tile(in, u, y, x, out);

    double worst = 0, largest = 0;    /* beside the definition */
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int m = 0; m < LANES; m++) {
                double direct = 0;
                for (int c = 0; c < C; c++)
                    for (int k = 0; k < R * R; k++)
                        direct += (double)filter[m][c][k / R][k % R]
                                * in[y + k / R][x + k % R][c / LANES][c % LANES];
                const double error = out[y][x][m] - direct;
                if (error > worst || -error > worst) worst = error < 0 ? -error : error;
                if (direct > largest || -direct > largest) largest = direct < 0 ? -direct : direct;
            }
    printf("%d x %d outputs of %d filters, %d channels\n", HEIGHT, WIDTH, LANES, C);
    printf("%d products per tile and channel instead of %d\n", N * N, M * M * R * R);
    puts(worst < 1e-5 * largest ? "equal to the definition, but for rounding" : "wrong");
    return !(worst < 1e-5 * largest);
}
