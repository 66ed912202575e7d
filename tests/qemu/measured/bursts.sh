# Which bursts of allocations `rampart banks pools` survives: for each kind of memory the highest rate at which a
# program gets all that it wants, and nobody is killed. Times are those of the guest, which executes 10^9 instructions
# a second. The kernel's command line chooses: reserve=PERCENT, kinds=KIND,..., rates=MIB-A-SECOND,... (ascending),
# total=MIB; full=1: before each burst, programs have taken all memory and given it back, so no block is offline.
# memory: 4G
# kernel: 6.12
# icount: 0

# rested COUNT: waits until so many blocks are offline again.
rested() {
  waited=0
  until [ "$(offline)" -ge "$1" ] || [ $waited -ge 120 ]; do
    sleep 1
    waited=$((waited + 1))
  done
}

reserve=$(option reserve) kinds=$(option kinds) rates=$(option rates) total=$(option total)
reserve=${reserve:-5} kinds=${kinds:-program,files,pipes,sockets,tables} rates=${rates:-64,128,256,512,1024,2048}
total=${total:-800} full=$(option full)
mount -o remount,size=100%,nr_inodes=0 /tmp
ulimit -n 65536

# begin DWELL: pools are kept.
begin() {
  keep_pools --dwell "$1" --reserve "$reserve%"
  grep '^pools ' /tmp/report
  first=$(offline)
}

end() {
  report "attempts $(grep -c '^block' /tmp/report), failed $(grep -c ' stays in ' /tmp/report)"
  kill -INT $pools
  wait $pools
  check "all blocks come back" test $? = 0
}

# burst KIND RATE: whether a program gets its memory, and nobody is killed.
burst() {
  if [ "$full" ]; then
    begin 1h
    fill_and_free
    first=$(offline)
  fi
  dmesg -c >/dev/null
  bursts "$1" "$2" "$total" >/burst.log 2>&1
  code=$?
  killed=$(dmesg -c | grep -ciE 'oom-kill|out of memory|page allocation failure')
  report "burst reserve $reserve % kind $1 rate $2 MiB/s: exit code $code, killed or failed $killed, $(tail -n 1 /burst.log), offline $(offline) of $first"
  rm -rf /tmp/burst
  kill -0 $pools || report "fail pools was killed"
  if [ "$full" ]; then end; else rested $((first - 2)); fi
  [ $code = 0 ] && [ "$killed" = 0 ]
}

[ "$full" ] || begin 2s
for kind in $(echo "$kinds" | tr , ' '); do
  best=none
  for rate in $(echo "$rates" | tr , ' '); do
    burst "$kind" "$rate" || break
    best=$rate
  done
  report "best reserve $reserve % kind $kind: $best MiB/s of $total MiB"
done
[ "$full" ] || end
