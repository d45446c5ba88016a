/* Caches that see one number after the other, and a nest of loops that names the numbers.

   What misses one cache is looked for in the next. A write is an access like a read; nothing is
   prefetched, and lines that were written leave without a count. */

#include <stdint.h>
#include <stdlib.h>

enum policy { LRU, SRRIP, BRRIP, DRRIP };

enum {
    DISTANT = 3,      /* of two bits: used again in the distant future, so the next to leave */
    LONG = 2,         /* what SRRIP inserts */
    RARELY = 32,      /* one insertion of BRRIP of so many is LONG */
    DUELS = 32,       /* pairs of sets that try SRRIP and BRRIP */
    SELECT_MOST = 1023,
    OPERANDS = 3
};

struct winogen_cache {
    int64_t sets, ways, line;
    int64_t policy;
    int64_t misses[OPERANDS]; /* of inputs, weights, outputs */
    int64_t *lines;           /* [sets][ways], -1: empty */
    int64_t *ages;            /* [sets][ways]: when it was used, or the prediction of RRIP */
    int64_t now, inserted, select;
};

static int inserts_as(struct winogen_cache *cache, int64_t set)
{
    int64_t policy = cache->policy;
    if (policy == DRRIP) {
        int64_t apart = cache->sets / DUELS > 4 ? cache->sets / DUELS : 4;
        policy = cache->select > SELECT_MOST / 2 ? BRRIP : SRRIP;
        if (set % apart == 0) { /* a leader for SRRIP, which just missed */
            policy = SRRIP;
            cache->select += cache->select < SELECT_MOST;
        } else if (set % apart == apart - 1) {
            policy = BRRIP;
            cache->select -= cache->select > 0;
        }
    }
    if (policy == SRRIP)
        return LONG;
    return cache->inserted++ % RARELY == RARELY - 1 ? LONG : DISTANT;
}

static int64_t leaving(struct winogen_cache const *cache, int64_t const *lines, int64_t *ages)
{
    for (int64_t way = 0; way < cache->ways; way++)
        if (lines[way] < 0)
            return way;
    if (cache->policy == LRU) {
        int64_t oldest = 0;
        for (int64_t way = 1; way < cache->ways; way++)
            if (ages[way] < ages[oldest])
                oldest = way;
        return oldest;
    }
    for (;;) {
        for (int64_t way = 0; way < cache->ways; way++)
            if (ages[way] == DISTANT)
                return way;
        for (int64_t way = 0; way < cache->ways; way++)
            ages[way]++;
    }
}

/* Whether an address was found; otherwise it is there from now on. */
static int use(struct winogen_cache *cache, int64_t address, int operand)
{
    int64_t line = address / cache->line, set = line % cache->sets;
    int64_t *lines = cache->lines + set * cache->ways, *ages = cache->ages + set * cache->ways;
    int64_t now = ++cache->now;
    for (int64_t way = 0; way < cache->ways; way++)
        if (lines[way] == line) {
            ages[way] = cache->policy == LRU ? now : 0;
            return 1;
        }
    cache->misses[operand]++;
    int64_t way = leaving(cache, lines, ages);
    lines[way] = line;
    ages[way] = cache->policy == LRU ? now : inserts_as(cache, set);
    return 0;
}

static void touch(struct winogen_cache *caches, int64_t count, int64_t address, int operand)
{
    for (int64_t level = 0; level < count; level++)
        if (use(&caches[level], address, operand))
            return;
}

int winogen_caches_begin(struct winogen_cache *caches, int64_t count)
{
    for (int64_t level = 0; level < count; level++) {
        struct winogen_cache *cache = &caches[level];
        int64_t places = cache->sets * cache->ways;
        cache->lines = malloc((size_t)places * sizeof *cache->lines);
        cache->ages = calloc((size_t)places, sizeof *cache->ages);
        if (cache->lines == NULL || cache->ages == NULL)
            return -1;
        for (int64_t place = 0; place < places; place++)
            cache->lines[place] = -1;
        cache->select = SELECT_MOST / 2;
    }
    return 0;
}

void winogen_caches_end(struct winogen_cache *caches, int64_t count)
{
    for (int64_t level = 0; level < count; level++) {
        free(caches[level].lines);
        free(caches[level].ages);
    }
}

void winogen_caches_use(struct winogen_cache *caches, int64_t count, int64_t const *addresses,
                        int64_t length)
{
    for (int64_t at = 0; at < length; at++)
        touch(caches, count, addresses[at], 0);
}

/* A loop goes over what is left of its axis in steps, and moves each operand by so many bytes. */
struct winogen_loop {
    int64_t axis, step, bytes[OPERANDS];
};

static void walk(struct winogen_cache *caches, int64_t count, struct winogen_loop const *loop,
                 struct winogen_loop const *end, int64_t *left, int64_t const *addresses)
{
    int64_t at[OPERANDS], whole;
    if (loop == end) {
        for (int operand = 0; operand < OPERANDS; operand++)
            touch(caches, count, addresses[operand], operand);
        return;
    }
    whole = left[loop->axis];
    for (int operand = 0; operand < OPERANDS; operand++)
        at[operand] = addresses[operand];
    for (int64_t done = 0; done < whole; done += loop->step) {
        left[loop->axis] = loop->step < whole - done ? loop->step : whole - done;
        walk(caches, count, loop + 1, end, left, at);
        for (int operand = 0; operand < OPERANDS; operand++)
            at[operand] += loop->bytes[operand];
    }
    left[loop->axis] = whole;
}

/* Runs loops from the outermost to the innermost; extents of all axes, first bytes of operands. */
void winogen_caches_walk(struct winogen_cache *caches, int64_t count,
                         struct winogen_loop const *loops, int64_t length, int64_t *extents,
                         int64_t const *first)
{
    walk(caches, count, loops, loops + length, extents, first);
}
