# A machine with two nodes (NUMA): `rampart banks pools` keeps a reserve and memory for the kernel on each, gives a
# program of one node memory of that node first, and `rampart banks` shows the node of each block.
# memory: 2G
# options: numa=fake=2

nodes=/sys/devices/system/node

# of_node NODE STATE: how many of its blocks are in this state. A block in two nodes has a link to each.
of_node() {
  cat "$nodes/node$1"/memory[0-9]*/state | grep -cx "$2"
}

free_kib() {
  awk '$3 == "MemFree:" { print $4 }' "$nodes/node$1/meminfo"
}

# Whether a node's memory for the kernel has pages.
has_kernel_memory() {
  awk -v node="$1," '/^Node/ { mine = $2 == node; zone = $4 } mine && zone != "Movable" && $1 == "managed" { sum += $2 }
    END { exit sum == 0 }' /proc/zoneinfo
}

rampart banks >/tmp/banks
cat /tmp/banks
check "there are two nodes" test -d "$nodes/node1"
rampart banks --json >/tmp/json
check "rampart banks shows the blocks of both" sh -c "grep -q '\"node\": 0' /tmp/json && grep -q '\"node\": 1' /tmp/json"

keep_pools --dwell 2s
cat /tmp/report
for node in 0 1; do
  offline=$(of_node $node offline) online=$(of_node $node online) free=$(free_kib $node)
  check "node $node: idle memory is offline ($offline blocks, $online online)" test "$offline" -ge 4
  check "node $node: the reserve is free ($free KiB)" test $((free * 20)) -ge $(((offline + online) * 131072))
  check "node $node: the kernel has memory" has_kernel_memory $node
done

# A program with more memory than one node has online.
before=$(($(of_node 0 offline) + $(of_node 1 offline)))
dd if=/dev/urandom of=/tmp/data bs=1M count=700 2>/dev/null
after=$(($(of_node 0 offline) + $(of_node 1 offline)))
check "blocks come online for a program ($before, then $after offline)" test $after -le $((before - 3))
check "nobody was killed" nobody_was_killed
kill -INT $pools
wait $pools
code=$?
tail -n 3 /tmp/report
check "Ctrl-C restores all blocks" test "$code" = 0
check "none is offline" sh -c "! grep -q offline $memory/memory[0-9]*/state"
