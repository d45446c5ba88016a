/* A generated layer, packed once and run as often as the first argument says: what is counted of one
 * call is the difference of two runs. layer_calls.py beside it compiles it. */
#include "measured.h"
#include "numbers.h"

int main(int count, char **words)
{
    const int calls = count > 1 ? atoi(words[1]) : 1;
    float *const input = numbers(INPUTS), *const weight = numbers(WEIGHTS);
    float *const output = room(OUTPUTS * sizeof(float));
    void *const packed = room(measured_packed_bytes());
    void *const workspace = room(measured_workspace_bytes(1));
    measured_pack(weight, packed, 1);
    for (int call = 0; call < calls; call++)
        measured_run(input, packed, NULL, output, workspace, 1);
    printf("%g\n", output[OUTPUTS / 2]);
    return 0;
}
