# Figures of [Rahman16] on a real kernel, as counts; each prints rows for a table. OPTIONS chooses the figure, and may
# change what is after it, or lifetime=SECONDS, or busy=PERCENT (--busy-share):
#
#   figure=15 numa=off held=80                                coverage with and without migration (and figure 11)
#   figure=17 numa=off iterations=1,2,3,4,5                   allocations without a valid test, by iterations of a test
#   figure=21 numa=off intervals=0,30,45,60 threads=0,1,2,4,8 TLB shootdowns (also figures 22, 23); 0: no daemon, nobody
#   figure=31 numa=off                                        on-demand tests (KERNEL=6.12-patched)
#   figure=32                                                 tests by CPUs of the other node
# memory: 256M
# cpus: 2
# kernel-module: yes
# qemu: -machine pc-q35-5.0 -numa node,cpus=0,mem=128M -numa node,cpus=1,mem=128M

. /claims.sh

# of KEY DEFAULT: an option's words.
of() {
  words=$(option "$1" | tr , ' ')
  echo "${words:-$2}"
}

lifetime=$(of lifetime 30)
effort="--max-share 100% --max-cores 2 --busy-share $(of busy 5%)"

# watch_kernel OPTION...: the daemon, which has the device when this returns.
watch_kernel() {
  rampart watch --source kernel $effort --retention 0s "$@" >/tmp/watched 2>&1 &
  daemon=$!
  until [ "$(cat $folder/owner)" = $daemon ]; do
    kill -0 $daemon || { cat /tmp/watched; break; }
    usleep 20000
  done
}

# end PROCESS SIGNAL WHAT [CODE]: after this signal it must end with 0, or with that code: the daemon ends with 2 in its
# first sweep.
end() {
  kill "-$2" "$1"
  wait "$1"
  code=$?
  check "$3 (exit code $code)" test $code = 0 -o $code = "${4:-0}"
}

# Frames with a test within a lifetime, of those that are the kernel's to give out ("managed"), and of all.
covered() {
  awk '/ present / { present += $2 } / managed / { managed += $2 } END { print managed, present }' /proc/zoneinfo >/tmp/frames
  od -An -v -tu4 -w16 $folder/ages | awk -v now="$(cut -d . -f 1 /proc/uptime)" -v lifetime=$lifetime '
    NR == FNR { managed = $1; present = $2; next }
    { for (i = 1; i <= NF; i++) { age = $i % 536870912; ever += age > 0; fresh += age > 0 && now + 1 - age <= lifetime } }
    END { printf "tested in time %d of %d managed (%.1f %%), of %d present (%.1f %%); ever %d\n",
      fresh, managed, fresh * 100 / managed, present, fresh * 100 / present, ever }' /tmp/frames -
}

coverage_row() {
  report "row figures 11, 15: $1, $megabytes MiB held for longer than a lifetime: $(covered)"
}

coverage() {
  for megabytes in $(of held 80); do
    holder 3600000 "$megabytes" >/tmp/held 2>&1 &
    load=$!
    sleep 5
    # Pass after pass through what is free, until it is killed.
    rampart test --source kernel --retention 0s --threads 2 --for 1h >/tmp/tested 2>&1 &
    daemon=$!
    sleep $((3 * lifetime))
    coverage_row "without migration (test --source kernel)"
    kill -KILL $daemon
    wait $daemon
    watch_kernel --lifetime ${lifetime}s --max-fidelity 1
    sleep $((3 * lifetime))
    coverage_row "with migration (watch --source kernel)"
    end $daemon INT "the daemon ends with nothing found" 2
    end $load TERM "the load's data are right"
  done
}

# Blocks that were allocated so far: with a valid test, and without.
allocated() {
  awk 'NR > 1 { good += $4; bad += $5 } END { print good, bad }' $folder/tested
}

# The share of blocks without a valid test between two answers of `allocated`.
share() {
  echo "$1" "$2" | awk '{ all = $3 + $4 - $1 - $2; printf "%d of %d blocks, %.1f %%\n", $4 - $2, all, ($4 - $2) * 100 / all }'
}

iterations() {
  holder 100 8 >/tmp/held 2>&1 &
  load=$!
  for number in $(of iterations "1 2 3 4 5"); do
    watch_kernel --lifetime ${lifetime}s --policy fixed --min-fidelity "$number" --max-fidelity "$number"
    sleep $lifetime
    before=$(allocated)
    sleep $lifetime
    report "row figure 17: $number iterations ($((2 * number)) patterns), allocated without a valid test: $(share "$before" "$(allocated)")"
    end $daemon INT "the daemon ends with nothing found" 2
  done
  end $load TERM "the load's data are right"
}

# TLB shootdowns, as both CPUs had them, and frames that were moved.
shootdowns() {
  echo $(awk '$1 == "TLB:" { print $2 + $3 }' /proc/interrupts) $(awk '/^moved/ { sum += $2 } END { print sum + 0 }' $folder/claims)
}

# A page in use is moved once in three quarters of lifetime - delta.
by_interval() {
  for interval in $(of intervals "0 30 45 60"); do
    if [ "$interval" != 0 ]; then
      echo 'delta = "4s"' >/tmp/settings
      watch_kernel --config /tmp/settings --lifetime $((interval * 4 / 3 + 4))s --max-fidelity 1
      sleep "$interval"
    fi
    for threads in $(of threads "0 1 2 4 8"); do
      [ "$threads" = 0 ] || { sharers "$threads" 32 >/tmp/shared 2>&1 & load=$!; sleep 2; }
      before=$(shootdowns) seconds=$((interval < 30 ? 30 : interval))
      sleep $seconds
      report "row figures 21-23: interval $interval, threads $threads: $(echo $before $(shootdowns) | awk -v seconds=$seconds '
        { printf "shootdowns a minute %d, frames moved a minute %d\n", ($3 - $1) * 60 / seconds, ($4 - $2) * 60 / seconds }')"
      [ "$threads" = 0 ] || end $load TERM "the data are right: $threads threads"
    done
    [ "$interval" = 0 ] || end $daemon INT "the daemon ends with nothing found" 2
  done
}

# What became of the requests for blocks without a valid test.
on_demand() {
  awk '$1 == "good" || $1 == "bad" { sum += $2 } END { print sum + 0 }' $folder/on_demand
}

# on_demand_row WHAT OPTIONS: a row, with the daemon's $effort and these options.
on_demand_row() {
  watch_kernel --lifetime ${lifetime}s $2
  sleep $lifetime
  before="$(on_demand) $(allocated)"
  sleep $lifetime
  report "row figure 31: $1: $(echo $before $(on_demand) $(allocated) | awk '
    { tests = $4 - $1; all = $5 + $6 - $2 - $3; printf "on-demand tests %d of %d allocations, %.2f in 1,000\n", tests, all, tests * 1000 / all }')"
  end $daemon INT "the daemon ends with nothing found" 2
}

efforts() {
  holder 100 8 >/tmp/held 2>&1 &
  load=$!
  fixed="--policy fixed --min-fidelity 4 --max-fidelity 4"
  effort="--max-share 0.1% --busy-share 0.1% --max-cores 1"
  on_demand_row "fixed, 8 patterns, one CPU for a thousandth of its time" "$fixed"
  effort="--max-share 100% --max-cores 1"
  on_demand_row "fixed, 8 patterns, one CPU" "$fixed"
  effort="--max-share 100% --max-cores 2"
  on_demand_row "fixed, 8 patterns, two CPUs" "$fixed"
  on_demand_row "adaptive, 2 to 8 patterns, two CPUs" "--min-fidelity 1 --max-fidelity 4"
  end $load TERM "the load's data are right"
}

# A frame of a claim is mapped when its tester touches it first: which CPU that is, is a count of tests by node.
nodes() {
  check "there are two nodes, of one CPU each" sh -c 'cat /sys/devices/system/node/node[01]/cpulist | grep -cx "[01]" | grep -qx 2'
  trace=/sys/kernel/tracing
  echo 'p:mapped vmf_insert_pfn frame=%dx:u64' >$trace/kprobe_events
  echo 4096 >$trace/buffer_size_kb
  for local in true false; do
    echo "node-local = $local" >/tmp/settings
    echo >$trace/trace
    echo 1 >$trace/events/kprobes/mapped/enable
    awk '/frame=/ { cpu = $0; sub(/.*\[0*/, "", cpu); sub(/\].*/, "", cpu); sub(/.*frame=/, ""); print cpu + 0, $0 + 0 }' \
      $trace/trace_pipe >/tmp/mapped &
    reader=$!
    watch_kernel --config /tmp/settings --lifetime ${lifetime}s --max-fidelity 1
    sleep $lifetime
    end $daemon INT "the daemon ends with nothing found" 2
    echo 0 >$trace/events/kprobes/mapped/enable
    sleep 2
    kill $reader
    wait $reader
    # The first zone of the second node begins there.
    second=$(awk '/^Node/ { node = $2 + 0 } $1 == "start_pfn:" && node == 1 && $2 > 0 { print $2; exit }' /proc/zoneinfo)
    report "row figure 32: node-local $local: $(awk -v second="$second" '
      { remote += ($2 >= second) != $1; all++ } END { printf "mapped for their test by a CPU of the other node %d of %d frames\n", remote, all }' /tmp/mapped); lost events $(awk '$1 == "overrun:" { sum += $2 } END { print sum + 0 }' $trace/per_cpu/cpu*/stats)"
  done
}

dmesg -c >/dev/null
check "the module loads" insmod /rampart.ko
case $(option figure) in
  11 | 15) coverage ;;
  17) iterations ;;
  21 | 22 | 23) by_interval ;;
  31) efforts ;;
  32) nodes ;;
  *) report "fail no such figure: OPTIONS=figure=15" ;;
esac
check "the module can go" rmmod rampart
check "no oops, no warning" log_is_clean
