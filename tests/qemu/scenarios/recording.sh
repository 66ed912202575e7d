# `rampart banks record` on a machine one of whose CPUs was never online, which has no trace buffer.
# memory: 448M
# options: maxcpus=1

check "a CPU was never online" test "$(cat /sys/devices/system/cpu/present) $(cat /sys/devices/system/cpu/online)" = "0-1 0"
rampart banks record --json --out /trace.pat.zst -- ls -R /sys/module >/dev/null 2>/record.json
check "the whole load is recorded" test $? = 0
report "$(tr -d '\n' </record.json)"
check "nothing is lost" grep -q '"lost": 0' /record.json
check "the trace is replayed" rampart banks replay /trace.pat.zst --allocator buddy --loops 1
