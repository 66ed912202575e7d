# How much of what its host asks for a guest gives back by virtio-mem, under a load that comes and goes: with
# `rampart banks pools`, which says how much can go, and without, for the same requests.
# The kernel's command line chooses: how=pools, or the zone of the host's memory without pools (online, online_movable,
# as in auto_online_blocks); load=LOW,HIGH (per cent of memory), phases=N, seed=N, and without pools asks=MIB,MIB,...
# virtio_mem_figures runs it.
# memory: 512M
# virtio-mem: 1536M
# modules: virtio_pci virtio_mem

all=1610612736

offline_of_virtio_mem() {
  rampart banks --json | awk '/"virtio_mem": \{/ { inside = 1 } inside && $1 == "\"offline\":" { print $2 + 0; exit }'
}

# What the host sees: requested and actual in bytes, and what it has resident, in KiB.
look() {
  host memory || return 1
  set -- $answer
  requested=$2 actual=$4 resident=$6
}

# Waits until the device has what is requested, or nothing has changed for 15 s.
settle() {
  still=0 last=
  while look && [ "$requested" != "$actual" ] && [ $still -lt 15 ]; do
    if [ "$actual" = "$last" ]; then still=$((still + 1)); else still=0; fi
    last=$actual
    sleep 1
  done
}

# Waits until the pools are at rest: little more than the reserve is free, and no block has moved for 10 s; five minutes
# at most. An emulated machine is slow, by the use of its host: no fixed time is long enough.
calm() {
  still=0 last= waited=0
  while [ $waited -lt 300 ]; do
    moves=$(grep -c '^block' /run.log)
    if [ "$moves" = "$last" ]; then still=$((still + 1)); else still=0; fi
    last=$moves
    blocks=$(ls -d "$memory"/memory[0-9]* | wc -l)
    [ $still -lt 10 ] || [ "$(meminfo MemFree)" -gt $((blocks * 131072 / 20 + 3 * 131072)) ] || return 0
    sleep 1
    waited=$((waited + 1))
  done
}

how=$(option how) load=$(option load) phases=$(option phases) seed=$(option seed)
how=${how:-pools} load=${load:-10,50} phases=${phases:-4} seed=${seed:-1}
zone=$how
[ "$how" != pools ] || zone=online_movable
echo "$zone" >"$memory"/auto_online_blocks
load_modules
settle
# Files of the load lie in memory too: as much as there is.
mount -o remount,size=100%,nr_inodes=0 /tmp
pools=
if [ "$how" = pools ]; then
  rampart banks pools --apply --dwell 2s >/run.log 2>&1 &
  pools=$!
  until grep -q '^pools ' /run.log; do kill -0 $pools || break; done
fi
ALL_KIB=2097152 load "${load%,*}" "${load#*,}" "$phases" "$seed" 10 >/load.log 2>&1 &
program=$!
phase=0
while [ $phase -lt "$phases" ]; do
  until grep -q "^phase $phase " /load.log || ! kill -0 $program 2>/dev/null; do sleep 1; done
  grep -q "^phase $phase " /load.log || break
  # The load rests for 10 s, and begins no other phase until the host has what it asked for.
  kill -STOP $program
  [ -z "$pools" ] || calm
  settle
  free=$(($(meminfo MemFree) / 1024))
  if [ "$how" = pools ]; then
    ask=$(offline_of_virtio_mem)
  else
    ask=$(($(option asks | cut -d , -f $((phase + 1))) << 20))
  fi
  plugged=$actual before=$resident
  if [ "$ask" -gt 0 ]; then
    host shrink "$ask"
    settle
  fi
  report "row $how,$phase,$((ask >> 20)),$(((plugged - actual) >> 20)),$((before / 1024)),$((resident / 1024)),$free"
  host request $all
  settle
  kill -CONT $program
  phase=$((phase + 1))
done
wait $program
code=$?
report "load $(tail -n 1 /load.log) with exit code $code"
check "the load ran to its end" test $code = 0
check "the host asked in each phase" test $phase = "$phases"
check "nobody was killed" sh -c "! dmesg | grep -iE 'oom-kill|out of memory|killed process'"
if [ -n "$pools" ]; then
  report "attempts $(grep -c '^block' /run.log), failed $(grep -c ' stays in ' /run.log)"
  grep ' stays in ' /run.log
  kill -INT $pools
  wait $pools
  check "all blocks come back" test $? = 0
fi
