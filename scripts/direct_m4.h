/* Direct convolution as CMSIS-NN does it: the patches of two pixels become columns of 16 bits,
 * which meet two filters at a time. Of maps x, S x S x C, by filters w, F x K x K x C: sums z. */
#ifndef BESIDE
#define BESIDE
#endif
static int16_t columns[2][K * K * C] BESIDE;

static void gather(int i, int j, int16_t *to)
{
    for (int a = i - K / 2; a <= i + K / 2; a++)
        for (int b = j - K / 2; b <= j + K / 2; b++, to += C) {
            const int8_t *from = x + (a * S + b) * C;
            if (a < 0 || a >= S || b < 0 || b >= S) {
                memset(to, 0, C * sizeof *to);
                continue;
            }
            for (int c = 0; c < C; c += 4) { /* as pairs 0 and 2, 1 and 3: filters come so, too */
                uint32_t four;
                memcpy(&four, from + c, 4);
                const uint32_t even = __sxtb16(four), odd = __sxtb16(four >> 8);
                memcpy(to + c, &even, 4);
                memcpy(to + c + 2, &odd, 4);
            }
        }
}

static void direct(void)
{
    for (int pixel = 0; pixel < S * S; pixel += 2) {
        gather(pixel / S, pixel % S, columns[0]);
        gather((pixel + 1) / S, (pixel + 1) % S, columns[1]);
        for (int f = 0; f < F; f += 2) {
            const int8_t *w0 = w + f * K * K * C, *w1 = w0 + K * K * C;
            int32_t s00 = 0, s01 = 0, s10 = 0, s11 = 0;
            for (int k = 0; k < K * K * C; k += 4) {
                uint32_t a, b;
                int32_t even[2], odd[2];
                memcpy(&a, w0 + k, 4);
                memcpy(&b, w1 + k, 4);
                for (int p = 0; p < 2; p++) {
                    memcpy(&even[p], columns[p] + k, 4);
                    memcpy(&odd[p], columns[p] + k + 2, 4);
                }
                const int32_t ae = (int32_t)__sxtb16(a), ao = (int32_t)__sxtb16(a >> 8);
                const int32_t be = (int32_t)__sxtb16(b), bo = (int32_t)__sxtb16(b >> 8);
                s00 = __smlad(ao, odd[0], __smlad(ae, even[0], s00));
                s01 = __smlad(bo, odd[0], __smlad(be, even[0], s01));
                s10 = __smlad(ao, odd[1], __smlad(ae, even[1], s10));
                s11 = __smlad(bo, odd[1], __smlad(be, even[1], s11));
            }
            z[pixel * F + f] = s00, z[pixel * F + f + 1] = s01;
            z[(pixel + 1) * F + f] = s10, z[(pixel + 1) * F + f + 1] = s11;
        }
    }
}
