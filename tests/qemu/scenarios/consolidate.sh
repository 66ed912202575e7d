# `rampart banks consolidate` takes memory offline up to its target. `rampart banks restore` brings each block back in
# its former zone, also after a kill and after Ctrl-C in the midst. Programs that wait for memory end it early.
# memory: 2G

all_come_back() {
  rampart banks restore >/tmp/restored 2>&1
  code=$?
  cat /tmp/restored
  check "restore succeeds after $1" test "$code" = 0
  check "each block is online in its former zone after $1" as_before
}

# One block is for movable memory only: it must come back so.
block=$(rampart banks | awk '/ yes$/ { block = $1 } END { print block }')
echo offline >"$memory/memory$block/state"
echo online_movable >"$memory/memory$block/state"
zones >/tmp/before
cat /tmp/before
check "one block is for movable memory" grep -q "^$block online Movable" /tmp/before
all=$(wc -l </tmp/before)

rampart banks consolidate --target 40% >/tmp/plan
code=$?
cat /tmp/plan
check "a dry run says that 40 % can go" test "$code" = 0
check "it says that nothing was changed" grep -q '^dry run ' /tmp/plan
check "and changes nothing" as_before

# 300 MiB of a program's data move out of the way, and stay what they were.
dd if=/dev/urandom of=/tmp/data bs=1M count=300 2>/dev/null
sum=$(md5sum </tmp/data)
rampart banks consolidate --target 40% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
gone=$(offline)
check "it reaches its target" test "$code" = 0
check "40 % of the blocks are offline ($gone of $all)" test $((gone * 100)) -ge $((all * 40))
check "and not two blocks more" test $(((gone - 2) * 100)) -lt $((all * 40))
check "the data are what they were" test "$(md5sum </tmp/data)" = "$sum"
check "rampart banks shows them" test "$(rampart banks | grep -c ' no: offline$')" = "$gone"
all_come_back "a consolidation"

# Data lie in most blocks, and as much goes as can: what moves is said.
for piece in $(seq 100 249); do
  dd if=/dev/urandom of=/tmp/piece.$piece bs=1M count=8 2>/dev/null
done
rm /tmp/piece.*[13579]
pieces=$(cat /tmp/piece.* | md5sum)
rampart banks consolidate --target 95% --pressure-limit 100% --apply >/tmp/report 2>&1
cat /tmp/report
moved=$(sed -n 's/^moved  *\([0-9]*\)[0-9.]* MiB, of which .*/\1/p' /tmp/report)
check "data that move are counted (${moved:-0} MiB)" test "${moved:-0}" -ge 10
check "and are what they were" test "$(cat /tmp/piece.* | md5sum)" = "$pieces"
rm /tmp/piece.*
all_come_back "data moved"
check "restore has nothing to do a second time" sh -c "rampart banks restore | grep -q '^nothing to bring back'"

# begin SIGNAL: a consolidation that gets the signal as soon as two blocks are offline; its exit code is in $code.
begin() {
  rampart banks consolidate --target 70% --apply >/tmp/report 2>&1 &
  consolidation=$!
  until [ "$(offline)" -ge 2 ]; do kill -0 $consolidation || break; done
  rampart banks restore >/tmp/second 2>&1
  second=$?
  kill -"$1" $consolidation
  wait $consolidation
  code=$?
  cat /tmp/report
}

begin KILL
check "a kill ends it before its target" test "$code" = 137
check "a second command is refused meanwhile" test "$second" = 2
check "in one line" test "$(wc -l </tmp/second)" = 1
check "some blocks are offline" test "$(offline)" -ge 2
all_come_back "a kill"

# What the unit of `pools` does when it is started and stopped after that.
begin KILL
check "a second kill leaves blocks offline" test "$(offline)" -ge 2
rampart banks pools --apply --for 2s >/tmp/report 2>&1
tail -n 1 /tmp/report
check "the end of pools brings back what a killed consolidation took" as_before

begin INT
check "Ctrl-C ends it before its target" test "$code" = 2
check "and it says so" grep -q '^ended .*stopped' /tmp/report
check "some blocks are offline, as it says" test "$(grep -c ' offline$' /tmp/report)" = "$(offline)"
all_come_back "Ctrl-C"

# A target that nobody can reach ends at the reserve, and harms nobody.
rampart banks consolidate --target 99% --reserve 10% --pressure-limit 100% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
check "a target out of reach is not reached" test "$code" = 2
check "a tenth of the memory is free" test $(($(meminfo MemFree) * 10)) -ge $(((all - $(offline)) * 131072))
check "the data are what they were" test "$(md5sum </tmp/data)" = "$sum"
check "nobody was killed" sh -c "! dmesg | grep -iE 'oom-kill|out of memory|killed process'"
all_come_back "a target out of reach"

# Pages that look movable and are not: their blocks stay, each attempt ends at its deadline.
rm /tmp/data
pinned >/tmp/pinned &
pinned=$!
until grep -q pinned /tmp/pinned; do kill -0 $pinned || break; done
rampart banks consolidate --target 90% --reserve 0% --deadline 500ms --pressure-limit 100% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
check "pages that cannot move keep it from its target" test "$code" = 2
check "it tries each such block three times" sh -c \
  "grep ' stays online: ' /tmp/report | awk '{ tries[\$1]++ } END { for (block in tries) if (tries[block] == 3) exit 0; exit 1 }'"
check "what is pinned stays" kill -0 $pinned
kill $pinned
all_come_back "an obstacle"

# A program that waits for memory, though the machine has enough: it takes more than its group may have.
mkdir /tmp/groups
mount -t cgroup2 none /tmp/groups
echo +memory >/tmp/groups/cgroup.subtree_control
mkdir /tmp/groups/small
echo 8M >/tmp/groups/small/memory.high

# wait_for_memory: begins to wait as soon as /tmp/wait exists; its process is $waiting.
wait_for_memory() {
  sh -c 'echo $$ >/tmp/groups/small/cgroup.procs; until [ -e /tmp/wait ]; do sleep 1; done; exec dd if=/dev/zero of=/tmp/more bs=64k count=10000' 2>/dev/null &
  waiting=$!
}

end_wait() {
  kill -KILL $waiting
  wait $waiting 2>/dev/null
  rm -f /tmp/more /tmp/wait
}

# Pinned pages: the attempt that is under way when the program begins to wait would last for an hour.
pinned >/tmp/pinned &
pinned=$!
until grep -q pinned /tmp/pinned; do kill -0 $pinned || break; done
wait_for_memory
rampart banks consolidate --target 90% --reserve 0% --deadline 1h --apply --json >/tmp/report 2>&1 &
consolidation=$!
emptying 2 $consolidation
check "a block that can never be emptied is tried" kill -0 $consolidation
gone=$(offline)
touch /tmp/wait
wait $consolidation
code=$?
cat /tmp/report /proc/pressure/memory
check "programs that wait for memory end it" test "$code" = 2
check "it says why" grep -q '"ended": "pressure"' /tmp/report
check "and how long they waited" awk '$1 == "\"most_percent\":" { exit $2 + 0 <= 10 } END { if (!NR) exit 1 }' /tmp/report
check "the attempt that was under way is taken back" test "$(offline)" = "$gone"
check "what is pinned stays" kill -0 $pinned
kill $pinned
until awk '$1 == "some" { sub("avg10=", "", $2); exit $2 + 0 <= 15 }' /proc/pressure/memory; do kill -0 $waiting || break; done
rampart banks consolidate --target 90% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
check "while they wait, it does not begin" sh -c "[ $code = 2 ] && [ $(offline) = $gone ] && ! grep -q ' offline$' /tmp/report"
check "in one line" test "$(grep -c '^ended .*programs waited for memory for longer than the limit' /tmp/report)" = 1
check "a dry run says so too" sh -c "rampart banks consolidate --target 90% | grep -q '^ended .*waited for memory'"
end_wait
all_come_back "programs that waited"

mount -t tmpfs none /proc/pressure
rampart banks consolidate --target 20% --apply >/tmp/report 2>&1
code=$?
cat /tmp/report
umount /proc/pressure
check "without figures of pressure it goes on" test "$code" = 0
check "and says that there is no limit" grep -q '^pressure    unknown, so it has no limit: /proc/pressure/memory does not exist' /tmp/report
all_come_back "a consolidation without figures of pressure"
