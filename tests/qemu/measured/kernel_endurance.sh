# What the kernel module goes through in a long life: the daemon is killed again and again at any moment, and stopped
# past the time limit of its claims; the module is unloaded and loaded; memory is plugged in, goes offline and is taken
# out; a CPU goes and comes; all that beside programs that use memory. Afterwards no frame is lost, pageblocks are as
# the same load leaves them without the module, and what programs got was zero.
# The kernel's command line chooses: kills=N of the daemon, unloads=N, adds=N of memory, stops=N. A kill takes 3 s here.
# memory: 512M
# kernel-module: yes
# options: log_buf_len=4M
# tcg: thread=single
# host: yes
# qemu: -m 512M,slots=2,maxmem=1G

. /claims.sh

kills=$(option kills) unloads=$(option unloads) adds=$(option adds)
most_stops=$(option stops)
kills=${kills:-20} unloads=${unloads:-5} adds=${adds:-3} most_stops=${most_stops:-5}
claim_seconds=/sys/module/rampart/parameters/claim_seconds
cpu=/sys/devices/system/cpu/cpu1/online
# Memory is plugged in from 4 GiB on; the entries of its memory block in the table of ages.
block=32 block_frames=32768

# now: hundredths of a second since the boot, in $now.
now() {
  read -r now rest </proc/uptime
  now=${now%.*}${now#*.}
}

# dice SIDES: a number below it, in $number; the same ones at each run.
state=1
dice() {
  state=$(((state * 1103515245 + 12345) & 0x7fffffff))
  number=$(((state >> 8) % $1))
}

# held_now: how many frames are held, in $held; without a process.
held_now() {
  while read -r name held; do [ "$name" != held ] || return 0; done <$folder/claims
}

# Waits until the daemon holds frames.
until_held() {
  waits=0 held=0
  until held_now && [ "$held" -gt 0 ]; do
    kill -0 $daemon 2>/dev/null && [ $waits -lt 6000 ] || return 1
    usleep 20000
    waits=$((waits + 1))
  done
}

# Waits until nobody holds any; the time limit is an end of it.
until_free() {
  waits=0
  until held_now && [ "$held" = 0 ]; do
    [ $waits -lt 3000 ] || return 1
    usleep 20000
    waits=$((waits + 1))
  done
}

start_daemon() {
  rampart watch --source kernel --lifetime 20s --max-share 100% --max-cores 2 --max-fidelity 1 --retention 0s --events /tmp/events \
    >/tmp/watched 2>&1 &
  daemon=$!
}

kill_daemon() {
  kill -KILL $daemon
  wait $daemon 2>/dev/null
}

# Programs use memory from now on: one knows what it wrote, others read and write files.
churn() {
  while [ ! -e /tmp/stop ]; do
    tar -c /bin/rampart /bin/busybox /init 2>/dev/null >/tmp/churn.tar
    tar -x -C /tmp/churn -f /tmp/churn.tar
    dd if=/tmp/churn.tar of=/tmp/churn.copy bs=64k 2>/dev/null
    rm -r /tmp/churn/* /tmp/churn.tar /tmp/churn.copy
  done
}

start_load() {
  rm -f /tmp/stop
  mkdir -p /tmp/churn
  holder 2000 60 >/tmp/held 2>&1 &
  holder=$!
  churn &
  churn=$!
}

stop_load() {
  touch /tmp/stop
  kill -TERM $holder
  wait $holder $churn
}

# What programs get is zero.
take_memory() {
  touches small 48 || wrong=$((wrong + 1))
  touches huge 16 || wrong=$((wrong + 1))
  taken=$((taken + 64))
}

turn_cpu() {
  echo 0 >$cpu && dice 300 && usleep ${number}000 && echo 1 >$cpu && turns=$((turns + 1))
}

types() {
  awk '/^Number of blocks/ { on = 1 } on' /proc/pagetypeinfo
}

# Pageblocks of programs, in a copy of that part of pagetypeinfo; and how many have another type in the second of two.
movable() {
  awk '/^Number/ { for (i = 1; i <= NF; i++) if ($i == "Movable") column = i } /^Node/ { n += $(column) } END { print n }' "$1"
}

changed() {
  awk '/^Node/ { for (i = 5; i <= NF; i++) if (NR == FNR) was[$2 $4 i] = $(i); else if ($(i) > was[$2 $4 i]) n += $(i) - was[$2 $4 i] }
    END { print n + 0 }' "$1" "$2"
}

# at_rest NAME: what is left when all that can go has gone: /tmp/NAME.walk, /tmp/NAME.types.
at_rest() {
  sleep 2
  echo 3 >/proc/sys/vm/drop_caches
  echo 1 >/proc/sys/vm/compact_memory
  echo 0 >$cpu
  echo 1 >$cpu
  sleep 1
  walk >"/tmp/$1.walk"
  types >"/tmp/$1.types"
  report "walk $1: $(cat "/tmp/$1.walk"); processes $(ls -d /proc/[0-9]* | wc -l), MemFree $(meminfo MemFree) kB"
}

# of NAME KIND: a number of that walk.
of() {
  awk -v kind="$2" '{ for (i = 1; i < NF; i++) if ($i == kind) print $(i + 1) }' "/tmp/$1.walk"
}

# Without the module: the same load, memory that comes and goes, a CPU too.
same_without() {
  start_load
  for turn in $(seq 10); do
    turn_cpu
    take_memory
    rampart --help >/dev/null
  done
  plug && set_state online_movable && set_state offline && unplug
  stop_load
}

plug() {
  host plug "module$plugged" 134217728 || return 1
  waits=0
  until [ -e "$memory/memory$block/state" ]; do
    [ $waits -lt 600 ] || return 1
    usleep 100000
    waits=$((waits + 1))
  done
}

unplug() {
  host unplug "module$plugged" || return 1
  plugged=$((plugged + 1))
  test ! -e "$memory/memory$block"
}

# A program may hold a page for a moment.
set_state() {
  for try in 1 2 3 4 5; do
    echo "$1" 2>/dev/null >"$memory/memory$block/state" && return 0
    refused=$((refused + 1))
    sleep 1
  done
  return 1
}

# How many frames of the memory that was plugged in have a test.
tested_of_block() {
  dd if=$folder/ages bs=$((block_frames * 4)) skip=$block count=1 2>/dev/null | od -An -v -tx4 | awk '
    { for (i = 1; i <= NF; i++) if ($i !~ /^[02468ace]0*$/) n++ } END { print n + 0 }'
}

# One kill of the daemon: before it has claims, when it has, or a while later.
kill_once() {
  now
  began=$now
  start_daemon
  dice 4
  case $number in
    0)
      dice 2500
      usleep ${number}000
      ;;
    1) until_held || failed=$((failed + 1)) ;;
    *)
      until_held || failed=$((failed + 1))
      now
      starts=$((starts + 1)) starting=$((starting + now - began))
      dice 1500
      usleep ${number}000
      ;;
  esac
  held_now
  [ "$held" = 0 ] || with_claims=$((with_claims + 1))
  kill -0 $daemon 2>/dev/null || { ended=$((ended + 1)) && cat /tmp/watched; }
}

# The module goes, each second time at once after its owner was killed; and comes again.
unload_once() {
  if [ "$held" -gt 0 ]; then
    opened=$((opened + 1))
    ! rmmod rampart 2>/dev/null || went_open=$((went_open + 1))
  fi
  tested=$((tested + $(claims tested))) retired=$((retired + $(claims retired)))
  kill -KILL $daemon
  if [ $((unloaded % 2)) = 0 ]; then
    wait $daemon 2>/dev/null
    until_free || stuck=$((stuck + 1))
    now
    began=$now
    rmmod rampart || not_at_once=$((not_at_once + 1))
  else
    now
    began=$now
    until rmmod rampart 2>/dev/null; do
      early=$((early + 1))
      usleep 1000
    done
    wait $daemon 2>/dev/null
  fi
  now
  [ $((now - began)) -le $longest ] || longest=$((now - began))
  unloaded=$((unloaded + 1))
  insmod /rampart.ko || not_loaded=$((not_loaded + 1))
}

# It comes online while the daemon stands still, and none of its frames has a test.
comes_new() {
  kill -STOP $daemon
  set_state online_movable || return 1
  new=$((new + (block_frames - $(tested_of_block))))
  kill -CONT $daemon
}

# Waits until the daemon has tested a frame of it, for some sweeps at most.
until_reached() {
  waits=0
  until [ "$(tested_of_block)" -gt 0 ]; do
    kill -0 $daemon && [ $waits -lt 400 ] || return 1
    sleep 1
    waits=$((waits + 1))
  done
}

# Claims that are there for certain end when it goes offline.
claimed_goes() {
  lost=$(claims lost_offline)
  begin hold 2048 $block || return 1
  set_state offline && [ "$(claims lost_offline)" = $((lost + 2048)) ]
  code=$?
  kill -KILL $held
  wait $held
  return $code
}

# One memory module: it comes, goes offline while the daemon runs, comes online, and goes with claims in it. The daemon
# is waited for in each tenth turn.
add_once() {
  start_daemon
  plug && comes_new || return 1
  if [ $((added % 10)) = 0 ]; then
    until_reached && reached=$((reached + 1))
  else
    dice 4000
    usleep ${number}000
  fi
  set_state offline && comes_new || return 1
  kill -0 $daemon || ended=$((ended + 1))
  kill_daemon
  until_free || return 1
  claimed_goes && given_up=$((given_up + 1))
  unplug
}

mount -o remount,size=60% /tmp
# Linux 6.12 would put it online by itself.
echo offline >"$memory/auto_online_blocks"
wrong=0 taken=0 turns=0 plugged=0 refused=0
dmesg -c >/dev/null
at_rest boot
same_without
at_rest loaded
same_without
at_rest again
check "the walk reads what the kernel has ($(of again odd) frames are odd)" test "$(of again odd)" -le 20

check "the module loads" insmod /rampart.ko
check "no mapping shows a claim that began after it" window late
start_load
starts=0 starting=0 with_claims=0 failed=0 ended=0 stuck=0 killed=0
unloaded=0 opened=0 went_open=0 not_at_once=0 early=0 longest=0 not_loaded=0 tested=0 retired=0 turned=$turns
while [ $killed -lt "$kills" ]; do
  kill_once
  if [ $((killed * unloads / kills)) -lt $(((killed + 1) * unloads / kills)) ]; then
    unload_once
  else
    kill_daemon
    until_free || stuck=$((stuck + 1))
  fi
  killed=$((killed + 1))
  if [ $((killed % 10)) = 0 ]; then
    turn_cpu
    take_memory
    echo "kills $killed unloads $unloaded with claims $with_claims; a start takes $((starting / (starts + (starts == 0)))) cs"
  fi
done
check "the daemon was killed $killed times, $with_claims of them with claims, on average $((starting / (starts + (starts == 0)))) hundredths of a second after its start" \
  test $((with_claims * 2)) -ge "$kills"
check "it always claimed ($failed), and never ended by itself ($ended)" test "$failed $ended" = "0 0"
check "its claims went back each time ($stuck stuck)" test $stuck = 0
check "the module went $unloaded times ($not_at_once refused when nobody had it; $early tries came before its owner was gone)" \
  test "$unloaded $not_at_once $not_loaded" = "$unloads 0 0"
check "none took longer than the time limit of claims (the longest $longest hundredths of a second)" \
  test $longest -le $(($(cat $claim_seconds) * 100))
check "while it was in use it was refused ($opened times)" test "$went_open $((opened > 0))" = "0 1"
check "a CPU went and came $((turns - turned)) times" test $((turns - turned)) = $((kills / 10))

# A daemon that is stopped, for longer than its claims last.
echo 1 >$claim_seconds
start_daemon
stops=0 returned=0
while [ $stops -lt $most_stops ]; do
  until_held || break
  kill -STOP $daemon
  lost=$(claims lost_time)
  until_free || break
  [ "$(claims lost_time)" -le "$lost" ] || returned=$((returned + 1))
  lost=$(claims tested)
  kill -CONT $daemon
  until [ "$(claims tested)" -gt "$lost" ] || ! kill -0 $daemon; do usleep 100000; done
  stops=$((stops + 1))
done
check "a daemon that was stopped lost its claims ($returned times of $stops), and went on" sh -c \
  "test $stops = $most_stops && test $returned -ge $((most_stops * 3 / 4)) && kill -0 $daemon"
echo 30 >$claim_seconds

kill_daemon
until_free
added=0 new=0 reached=0 refused=0 given_up=0
while [ $added -lt "$adds" ] && add_once; do
  added=$((added + 1))
  turn_cpu
  take_memory
  echo "adds $added reached $reached refused $refused"
done
check "memory was plugged in $added times, went offline twice each time, and was taken out ($refused tries failed)" \
  test $added = "$adds"
check "it was untested each time that it came" test $new = $((adds * 2 * block_frames))
check "the daemon tested it when it was waited for ($reached times), and never ended by itself" \
  test "$reached $ended" = "$(((adds + 9) / 10)) 0"
check "claims in it were given up when it went ($given_up times)" test $given_up = "$adds"
until_free

take_memory
stop_load
cat /tmp/held
check "the data of programs is as it was ($(cat /tmp/held))" grep -q ' 0 words wrong' /tmp/held
check "each page of $taken MiB that programs took was zero" test $wrong = 0
tested=$((tested + $(claims tested))) retired=$((retired + $(claims retired)))
check "frames were tested ($tested), and none was retired" test "$((tested > 0)) $retired" = "1 0"
check "no frame is held, as the table of ages has it" test "$(window held)" = 0
at_rest held
check "nor marked as a claim's" test "$(of held offline)" = 0
check "the module can go" rmmod rampart
at_rest end
# Programs that began and ended change some: what one lost frame a kill would be is many more.
lost=$(($(of end lost) - $(of again lost)))
check "no frame is lost ($(of again lost) without a use before, then $(of end lost))" test $lost -le 32
kept=$(($(of end kernel) - $(of again kernel)))
check "none is kept ($(of again kernel) of the kernel before, then $(of end kernel))" test $kept -le 100
check "none is marked as a claim's, or bad" test "$(of end offline) $(of end poisoned)" = "0 0"
own=$(($(changed /tmp/boot.types /tmp/loaded.types) + $(changed /tmp/loaded.types /tmp/again.types)))
cat /tmp/boot.types /tmp/again.types /tmp/end.types
check "pageblocks keep their types ($(changed /tmp/again.types /tmp/end.types) changed; $own without the module)" \
  test "$(changed /tmp/again.types /tmp/end.types)" -le $((own + 8))
check "no more of them are programs' ($(movable /tmp/again.types), then $(movable /tmp/end.types))" \
  test "$(movable /tmp/end.types)" -le "$(movable /tmp/again.types)"
rampart map show
grep -E '"event":"(bad_frame|retired)"' /tmp/events
check "no frame was called bad" sh -c "rampart map show | grep -q 'no bad frames are known'"
check "no oops, no warning" log_is_clean
check "no task hangs" sh -c "! dmesg | grep 'blocked for more than'"
check "no program was killed for want of memory" nobody_was_killed
