"""A layer for a device: as C, in no more scratch memory than the device has, compiled by cc.

Run: python examples/layer_for_a_device.py

Without a limit, `winogen generate --input 1,16,28,28 --weight 32,16,3,3 --padding 1 --isa generic
--name edges -o edges` writes the same kind of files.
"""

import subprocess
from pathlib import Path

from winogen.conv.standalone import standalone

ROOM = 48 * 1024  # bytes of SRAM that are free while the layer runs

MAIN = """
#include <stdio.h>
#include "edges.h"

static float input[16 * 28 * 28], weight[32 * 16 * 3 * 3], output[32 * 28 * 28];
static _Alignas(64) char packed[EDGES_PACKED_BYTES];    /* no malloc on the device */
static _Alignas(64) char workspace[EDGES_WORKSPACE_BYTES(1)];

int main(void)
{
    for (int i = 0; i < 16 * 28 * 28; i++) input[i] = 1;
    for (int i = 0; i < 32 * 16 * 3 * 3; i++) weight[i] = 0.5f;
    edges_pack(weight, (float *)packed, 1);
    edges_run(input, (float *)packed, NULL, output, workspace, 1);
    printf("workspace %zu of %d bytes\\n", sizeof workspace, ROOM);
    printf("corner %g, edge %g, inside %g\\n", output[0], output[1], output[29]);
    return 0;
}
"""

folder = Path("layer")
folder.mkdir(exist_ok=True)
files = standalone(
    (1, 16, 28, 28),
    (32, 16, 3, 3),
    padding=1,
    isa="generic",  # of the device: neon, avx2, ..., or generic for any other
    name="edges",
    workspace_limit=ROOM,
    command="python examples/layer_for_a_device.py",
)
for name, text in {**files, "main.c": MAIN}.items():
    (folder / name).write_text(text)
print(*(line for line in files["edges.h"].splitlines()[1:12] if "by" in line), sep="\n")

cc = ["cc", "-O3", f"-DROOM={ROOM}", "main.c", "edges.c", "-o", "main"]  # or arm-none-eabi-gcc ...
subprocess.run(cc, cwd=folder, check=True)
subprocess.run(["./main"], cwd=folder, check=True)
