/* The taps of a window that lie in the map, along one axis. */
typedef struct taps {
    int32_t begin, end;    /* The first of them, and the one behind the last. */
} taps;

static taps inside(int32_t start, int32_t count, int32_t step, int32_t size)
{
    taps found = { 0, count };
    while (found.begin < count && start + found.begin * step < 0) found.begin++;
    while (found.end > found.begin && start + (found.end - 1) * step >= size) found.end--;
    return found;
}
