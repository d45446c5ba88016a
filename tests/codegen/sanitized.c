/* Runs one kernel on many calls, in allocations of just the right size. `calls.h` is generated: the
 * declarations of the kernel, its calls as Python makes them, and what is known of each besides.
 * `definition.h` is the file of its kind: it fills the arrays of a call, and compares the result
 * with loops over single numbers. */

#include <math.h>
#ifndef NO_THREADS
#include <pthread.h>
#endif
#ifdef NO_GUARDS
#define __asan_poison_memory_region(from, bytes) ((void)(from), (void)(bytes))
#define __asan_unpoison_memory_region __asan_poison_memory_region
#else
#include <sanitizer/asan_interface.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What lies behind a buffer of the workspace, in bytes: nobody may touch it. */
typedef struct {
    int64_t offset, step, bytes;
} gap;

#include "calls.h"

/* Exactly `bytes` long, so that the next byte is out of bounds; filled with what no result is. */
static void *exactly(int64_t bytes, size_t alignment)
{
    void *memory = NULL;
    if (posix_memalign(&memory, alignment, bytes ? (size_t)bytes : 1)) abort();
    memset(memory, FILL, (size_t)bytes);
    return memory;
}

static int random_of(unsigned *seed, int count)
{
    *seed = *seed * 1103515245u + 12345u;
    return (int)(*seed >> 16) % count;
}

#define UNUSED __attribute__((unused))    /* by some kinds */

UNUSED static real *numbers(int64_t count, unsigned *seed)
{
    real *values = exactly(count * (int64_t)sizeof(real), 8);
    for (int64_t i = 0; i < count; i++) values[i] = (real)(random_of(seed, 8) - 3);
    return values;
}

UNUSED static int64_t at(winogen_strides s, int64_t image, int64_t channel, int64_t row, int64_t col)
{
    return image * s.image + channel * s.channel + row * s.row + col * s.pixel;
}

/* Nothing that is between the buffers of the workspace may be touched, or again everything. */
static void guard(char *workspace, const gap *between, int threads, int begin)
{
    for (const gap *g = between; g < between + BUFFERS; g++)
        for (int member = 0; member < (g->step ? threads : 1); member++) {
            char *const from = workspace + g->offset + member * g->step;
            if (begin) __asan_poison_memory_region(from, (size_t)g->bytes);
            else __asan_unpoison_memory_region(from, (size_t)g->bytes);
        }
}

/* Runs the i-th call in a workspace of its own, in two pieces or as a whole. */
static void run(int i, winogen_call *c)
{
    const winogen_conv *const p = &calls[i];
    const int64_t parts = p->phases * p->parts, middle = parts / 2;
    void *workspace = exactly(p->shared_bytes + threads[i] * p->thread_bytes, 64);
    c->p = p;
    c->workspace = workspace;
    guard(workspace, gaps[i], threads[i], 1);
    if (i % 2) {
        winogen_run_some(c, 0, middle, threads[i]);
        winogen_run_some(c, middle, parts, threads[i]);
    } else {
        winogen_run(c, threads[i]);
    }
    guard(workspace, gaps[i], threads[i], 0);
    free(workspace);
}

#include "definition.h"

#ifdef NO_THREADS
static void begin(void) {}    /* a kernel calls one member after the other, unless told otherwise */
#else
typedef void team(void (*)(void *, int64_t), void *, int64_t, int);
team winogen_on_threads;
void winogen_use_team(team *);
void winogen_threads_begin(void *);
static void begin(void)
{
    winogen_threads_begin((void *)pthread_create);
    winogen_use_team(winogen_on_threads);
}
#endif

int main(void)
{
    begin();
    const int count = (int)(sizeof calls / sizeof calls[0]);
    for (int i = 0; i < count; i++) {
        const int wrong = failed(i, (unsigned)i);
        if (wrong) {
            printf("call %d: %d numbers are wrong\n", i, wrong);
            return 1;
        }
    }
    printf("%d calls are right\n", count);
    return 0;
}
