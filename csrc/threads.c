/* The threads of all kernels of a process: those of its OpenMP library, where it has one, so that
 * threads of two kinds do not take the cores from each other; else threads of our own.
 *
 * Ours belong to nobody. A call takes as many as it wants from those that are idle, makes what is
 * missing, and they are idle again when it ends: calls may be made from many threads at once. An
 * idle thread looks out for work for a moment, then it sleeps. A call waits for no thread that has
 * not woken up by the time when the caller's own share is done: the caller does that share, too.
 * They run on the CPUs that the caller may use, however these were chosen since they were made. */
#define _GNU_SOURCE    /* masks of CPUs */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Longer than what lies between the layers of a net, as waking a thread would take longer than a
 * small layer. Whoever else has work for the core gets it between looks. */
enum { AWAKE_NANOSECONDS = 1000000, LOOKS = 64 };

enum { MOST = 1024 };    /* threads of a call */

/* What one thread rings and one other waits for. */
typedef struct {
    int state;                 /* Whether it is silent or rung, or its owner asleep. */
    int rung;                  /* Whether it is rung, for an owner that sleeps. */
    pthread_mutex_t mutex;     /* What guards `rung`. */
    pthread_cond_t changed;    /* What wakes an owner that sleeps. */
} bell;

enum { SILENT, ASLEEP, RUNG };    /* the states of a bell */

static const bell new_bell = {
    .state = SILENT, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER
};

/* Whoever hears that the owner sleeps may change what is the owner's, until it is woken. */
static int its_owner_sleeps(bell *b)
{
    return __atomic_exchange_n(&b->state, RUNG, __ATOMIC_SEQ_CST) == ASLEEP;
}

static void wake_owner(bell *b)
{
    pthread_mutex_lock(&b->mutex);
    b->rung = 1;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

/* Unless its owner sleeps, the bell may be gone once it is rung. */
static void ring(bell *b)
{
    if (its_owner_sleeps(b)) wake_owner(b);
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether the bell rings while its owner is awake. Others get the core between looks. */
static int rings_soon(const bell *b)
{
    const int64_t start = nanoseconds();
    do {
        for (int i = 0; i < LOOKS; i++, relax())
            if (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) == RUNG) return 1;
        sched_yield();
    } while (nanoseconds() - start < AWAKE_NANOSECONDS);
    return 0;
}

static void wait_for(bell *b)
{
    if (!rings_soon(b)) {
        int silent = SILENT;
        pthread_mutex_lock(&b->mutex);
        if (__atomic_compare_exchange_n(&b->state, &silent, ASLEEP, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            while (!b->rung) pthread_cond_wait(&b->changed, &b->mutex);
        b->rung = 0;
        pthread_mutex_unlock(&b->mutex);
    }
    /* Who rings from here on is heard the next time, and what it left before is seen now. */
    __atomic_exchange_n(&b->state, SILENT, __ATOMIC_SEQ_CST);
}

/* The CPUs that a thread may use. */
#ifdef __linux__
typedef cpu_set_t cpus;

/* Empty where they cannot be told. */
static cpus own_cpus(void)
{
    cpus mask;
    if (sched_getaffinity(0, sizeof mask, &mask)) CPU_ZERO(&mask);
    return mask;
}

static int equal(const cpus *a, const cpus *b) { return CPU_EQUAL(a, b); }

static int own_number(void) { return (int)syscall(SYS_gettid); }

/* Lets a thread use these CPUs, 0 being the one that calls; returns whether that was possible. */
static int let_use(int number, const cpus *mask)
{
    return !sched_setaffinity(number, sizeof *mask, mask);
}

/* All but the one that this thread runs on, where that can be told. */
static cpus others(cpus mask)
{
    const int cpu = sched_getcpu();
    if (cpu >= 0) CPU_CLR(cpu, &mask);
    return mask;
}
#else
typedef char cpus;    /* threads are tied to none */
static cpus own_cpus(void) { return 0; }
static int equal(const cpus *a, const cpus *b) { return *a == *b; }
static int own_number(void) { return 0; }
static int let_use(int number, const cpus *mask)
{
    (void)number, (void)mask;
    return 0;
}
static cpus others(cpus mask) { return mask; }
#endif

/* A call: `members` threads, each with its share of [0, count). */
typedef struct {
    void (*one)(void *, int64_t);    /* The function that is called for each of [0, count). */
    void *context;                   /* Its first argument. */
    int64_t count, members;          /* How often it is called, and by how many threads. */
    int64_t left;                    /* Threads that have not finished. */
    cpus cpus;                       /* The CPUs of the caller. */
    bell over;                       /* What the last thread rings. */
} job;

typedef struct worker {
    bell called;            /* What calls it. */
    job *job;               /* The job to join: whoever takes it from here, worker or caller,
                             * does its share. */
    int64_t member;         /* Its place among the members. */
    cpus cpus;              /* The CPUs that it may use. */
    int number;             /* What the system calls it. */
    struct worker *next;    /* The next of those that are idle. */
} worker;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static worker *idle;    /* guarded by the mutex */

static void release(worker *w)
{
    pthread_mutex_lock(&mutex);
    w->next = idle;
    idle = w;
    pthread_mutex_unlock(&mutex);
}

/* From whoever loads this library. A reference to pthread_create would be to that of the C library
 * it was linked with, and older systems have no such version. */
typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static create_function *create;

/* The OpenMP library of the process. GOMP_parallel is what gcc calls for a parallel region; clang's
 * and Intel's libraries have it, too. */
static struct {
    void (*parallel)(void (*)(void *), void *, unsigned threads, unsigned flags);
    int (*thread_number)(void), (*threads)(void);
} openmp;
static int has_openmp, is_child;

static void do_share(const job *j, int64_t member)
{
    const int64_t last = j->count * (member + 1) / j->members;
    for (int64_t i = j->count * member / j->members; i < last; i++) j->one(j->context, i);
}

/* Systems may wake a thread on its caller's CPU though another is idle, as on small virtual
 * machines; then both take turns until that is noticed. So it has to wake elsewhere. */
static void call_for(worker *w, const job *j)
{
    if (!its_owner_sleeps(&w->called)) return;
    const cpus elsewhere = others(j->cpus);
    if (let_use(w->number, &elsewhere)) w->cpus = elsewhere;
    wake_owner(&w->called);
}

static void *work(void *self)
{
    worker *w = self;
    w->number = own_number();
    for (;; wait_for(&w->called)) {
        job *j = __atomic_exchange_n(&w->job, NULL, __ATOMIC_SEQ_CST);
        if (!j) continue;
        if (!equal(&w->cpus, &j->cpus)) {
            w->cpus = j->cpus;
            let_use(0, &w->cpus);
        }
        do_share(j, w->member);
        release(w);    /* before the call ends, so that the next one need not make a thread */
        if (__atomic_sub_fetch(&j->left, 1, __ATOMIC_ACQ_REL) == 0) ring(&j->over);
    }
    return NULL;
}

/* Returns a new worker, which begins with this member of a call; NULL if that cannot be. */
static worker *made(job *j, int64_t member)
{
    worker *w = create ? malloc(sizeof *w) : NULL;
    pthread_attr_t detached;
    pthread_t thread;
    if (!w) return NULL;
    *w = (worker){ .called = new_bell, .job = j, .member = member, .cpus = j->cpus };
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const int failed = create(&thread, &detached, work, w);
    pthread_attr_destroy(&detached);
    if (!failed) return w;
    free(w);
    return NULL;
}

/* Returns up to `wanted` idle workers, which are no longer idle. */
static worker *take(int64_t wanted)
{
    pthread_mutex_lock(&mutex);
    worker *first = idle, **end = &idle;
    for (; wanted > 0 && *end; wanted--) end = &(*end)->next;
    idle = *end;
    *end = NULL;
    pthread_mutex_unlock(&mutex);
    return first;
}

/* OpenMP may give fewer threads than asked for. */
static void on_openmp(void *context)
{
    const job *j = context;
    const int step = openmp.threads();
    for (int64_t m = openmp.thread_number(); m < j->members; m += step) do_share(j, m);
}

/* A winogen_team, as kernels declare it. */
void winogen_on_threads(void (*one)(void *, int64_t), void *context, int64_t count, int threads)
{
    const int64_t most = threads < MOST ? threads : MOST, members = count < most ? count : most;
    worker *joined[MOST];
    job j = {
        .one = one, .context = context, .count = count, .members = members, .left = members,
        .over = new_bell,
    };
    if (members <= 1) {
        for (int64_t i = 0; i < count; i++) one(context, i);
        return;
    }
    if (__atomic_load_n(&has_openmp, __ATOMIC_ACQUIRE)) {
        openmp.parallel(on_openmp, &j, (unsigned)members, 0);
        return;
    }
    j.cpus = own_cpus();
    int64_t all = 1, done = 1;    /* the caller is member 0 */
    for (worker *w = take(members - 1), *next; w; w = next) {
        next = w->next;
        joined[all] = w;
        w->member = all++;
        __atomic_store_n(&w->job, &j, __ATOMIC_SEQ_CST);
        call_for(w, &j);
    }
    while (all < members && (joined[all] = made(&j, all))) all++;
    do_share(&j, 0);
    for (int64_t m = 1; m < members; m++) {
        job *here = &j;
        if (m < all && !__atomic_compare_exchange_n(&joined[m]->job, &here, NULL, 0,
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue;
        if (m < all) release(joined[m]);
        do_share(&j, m);    /* late, or there was no memory for the thread */
        done++;
    }
    if (__atomic_sub_fetch(&j.left, done, __ATOMIC_ACQ_REL)) wait_for(&j.over);
}

/* Only the thread that forks is in the child: neither workers nor those of OpenMP, whose library
 * does not notice and would wait for them. */
static void forget(void)
{
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    idle = NULL;
    has_openmp = 0;
    is_child = 1;
}

/* To be called first: pthread_create. */
void winogen_threads_begin(void *pthread_create)
{
    if (!create) pthread_atfork(NULL, NULL, forget);
    create = (create_function *)pthread_create;
}

/* From now on calls run on this OpenMP library's threads, unless they did on another one's. */
void winogen_threads_follow(void *parallel, void *thread_number, void *threads)
{
    if (has_openmp || is_child) return;
    *(void **)&openmp.parallel = parallel;
    *(void **)&openmp.thread_number = thread_number;
    *(void **)&openmp.threads = threads;
    __atomic_store_n(&has_openmp, 1, __ATOMIC_RELEASE);
}

/* Whether calls run on an OpenMP library's threads. */
int winogen_threads_followed(void) { return has_openmp; }
