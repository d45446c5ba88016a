/* A plugin of qemu (7 to 9) that counts what a program executes, in all and, with the argument
 * `blocks=on`, block by block: address, instructions, how often. scripts/instructions_on_arm.py
 * compiles it; the functions are qemu's, declared here because its header is seldom installed. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;    /* instructions that are executed one after the other */
enum { ADD = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id,
                                           void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);

int qemu_plugin_version = 1;

typedef struct counted {
    uint64_t address, instructions, times;
    struct counted *next;
} counted;
static counted *blocks;
static int shown;

static void translated(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    counted *const one = calloc(1, sizeof *one);
    if (!one) abort();
    *one = (counted){ qemu_plugin_tb_vaddr(block), qemu_plugin_tb_n_insns(block), 0, blocks };
    blocks = one;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &one->times, 1);
}

static void ended(plugin_id id, void *nothing)
{
    uint64_t count = 0;
    (void)id, (void)nothing;
    for (const counted *one = blocks; one; one = one->next) {
        count += one->instructions * one->times;
        if (shown && one->times)
            fprintf(stderr, "%" PRIx64 " %" PRIu64 " %" PRIu64 "\n", one->address,
                    one->instructions, one->times);
    }
    fprintf(stderr, "%" PRIu64 " instructions\n", count);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) shown |= !strcmp(argv[i], "blocks=on");
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
