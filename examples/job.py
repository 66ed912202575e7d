"""A job that keeps some numbers in memory, leaves them alone, and adds them up later.

`rampart run` guards such memory: what is not used for a while is locked, and verified before the job uses it again.
"""

import array
import sys
import time

BLOCKS = int(sys.argv[1]) if len(sys.argv) > 1 else 16
blocks = [array.array("Q", range(block, block + 125_000)) for block in range(BLOCKS)]  # 1 MB each
for _ in range(3):
    time.sleep(0.3)
    total = sum(sum(block) for block in blocks)
print(f"{BLOCKS} blocks: the sum is {total}")
