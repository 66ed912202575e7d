# How much memory `rampart banks pools` takes offline under a load that comes and goes, beside what could be offline.
# The kernel's command line chooses: load=LOW,HIGH (per cent of memory), phases=N, seed=N.
# memory: 4G

memory=/sys/devices/system/memory

option() {
  sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline
}

offline() {
  grep -l offline "$memory"/memory[0-9]*/state | wc -l
}

# Free and all memory of each zone, in MiB.
free_by_zone() {
  awk '/^Node/ { zone = $4 } /pages free/ { free = $3 } /managed/ { printf "%s %d of %d ", zone, free / 256, $2 / 256 }' /proc/zoneinfo
}

load=$(option load) phases=$(option phases) seed=$(option seed)
load=${load:-10,50} phases=${phases:-20} seed=${seed:-1}
all=$(ls -d "$memory"/memory[0-9]* | wc -l)
# Files of the load lie in memory too: as much as there is.
mount -o remount,size=100%,nr_inodes=0 /tmp
rampart banks pools --apply --dwell 2s >/run.log 2>&1 &
pools=$!
until grep -q '^pools ' /run.log; do kill -0 $pools || break; done
ALL_KIB=$((all * 131072)) load "${load%,*}" "${load#*,}" "$phases" "$seed" 45 >/load.log 2>&1 &
program=$!
phase=0
while [ $phase -lt "$phases" ] && kill -0 $program 2>/dev/null; do
  until grep -q "^phase $phase$" /load.log || ! kill -0 $program 2>/dev/null; do sleep 1; done
  # The load rests for 45 s, as an emulated machine is slow: what the pools have done by then counts.
  sleep 43
  gone=$(offline)
  free=$(meminfo MemFree)
  # The reserve is 5 % of all memory.
  best=$(((free + gone * 131072 - all * 131072 / 20) / 131072))
  report "phase $phase offline $gone optimum $best free $((free / 1024)) MiB: $(free_by_zone)"
  phase=$((phase + 1))
done
wait $program
report "load $(tail -n 1 /load.log) with exit code $?"
report "attempts $(grep -c '^block' /run.log), failed $(grep -c ' stays in ' /run.log)"
grep ' stays in ' /run.log
check "nobody was killed" sh -c "! dmesg | grep -iE 'oom-kill|out of memory|killed process|page allocation failure'"
kill -INT $pools
wait $pools
check "all blocks come back" test $? = 0
