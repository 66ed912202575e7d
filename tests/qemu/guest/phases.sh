# What a policy takes offline in each phase of a load that comes and goes, beside what could be offline, for scenarios
# to include. A scenario says how much is offline (`offline_by_zone`: "ZONE KIB" lines, the zone in which that would
# come online by default) and how its policy starts (`start_policy`, which has it write its moves to /run.log, and puts
# its process into $keeper), then calls `play_phases`. That reports a line "row KEY=VALUE ..." for each phase, and
# "reason ..." for what stayed online.
#
# The kernel's command line chooses: policy=NAME, load=LOW,HIGH (per cent of memory), phases=N, seed=N, rest=SECONDS;
# and show, by which the console has a row for each block after each phase.

offline_kib() {
  offline_by_zone | awk '{ sum += $2 } END { print sum + 0 }'
}

# The blocks that could be offline: of each zone's free and offline memory, without a reserve of 5 % of the zone.
optimum_by_zone() {
  offline_by_zone | awk -v block=32768 '
    !zones { offline[$1] += $2 / 4; next }
    /^Node/ { zone = $4 }
    /pages free/ { free[zone] = $3 }
    $1 == "managed" { managed[zone] = $2 }
    END {
      for (zone in managed) {
        spare = free[zone] + offline[zone] - (managed[zone] + offline[zone]) / 20
        if (spare > 0) sum += int(spare / block)
      }
      print sum + 0
    }' - zones=1 /proc/zoneinfo
}

# Sums the counters of /proc/vmstat whose names match.
counter() {
  awk -v name="^$1" '$1 ~ name { sum += $2 } END { print sum + 0 }' /proc/vmstat
}

# How many lines of the kernel's log are of memory that somebody did not get.
complaints() {
  dmesg | grep -ciE "$1"
}

# The online blocks by what prevents that they go: OBSTACLE:COUNT, semicolon after semicolon. "null": nothing does.
obstacles() {
  rampart banks --json | sed -n 's/.*"obstacle": "*\([a-z_]*\).*/\1/p' | grep -v offline | sort | uniq -c |
    awk '{ printf "%s%s:%s", (NR > 1 ? ";" : ""), $2, $1 }'
}

# Waits until nothing has moved for a while.
settle() {
  local before=-1 now
  now="$(wc -l </run.log) $(offline_kib)"
  while [ "$before" != "$now" ]; do
    before=$now
    sleep 12
    now="$(wc -l </run.log) $(offline_kib)"
  done
}

# What has been counted since the boot: attempts to empty a block, those that failed, those given up because memory was
# needed, pages that came back from disk, and pages that moved.
counts() {
  echo "$(grep '^block [0-9]*: \(from\|stays in\) ' /run.log | grep -vc ': \(from\|stays in\) offline')" \
    "$(grep -c ': stays in [^o].*\|: stays in online' /run.log)" "$(grep -c ' stays in .* stopped$' /run.log)" \
    "$(counter workingset_refault_)" "$(counter pgmigrate_success)"
}

# since BEFORE: names each count, less what it was before.
since() {
  echo "$* $(counts)" | awk '{
    split("attempts failed given_up refaults migrated", names, " ")
    for (of = 1; of <= 5; of++) printf "%s=%d ", names[of], $(of + 5) - $of
  }'
}

report_phase() {
  local gone free
  gone=$(offline_kib)
  free=$(meminfo MemFree)
  report "row phase=$phase wanted=$wanted blocks=$all offline=$((gone / 131072))" \
    "optimum=$(((free + gone - all * 131072 / 20) / 131072)) zone_optimum=$(optimum_by_zone)" \
    "free_mib=$((free / 1024)) $(since "$before")oom_kills=$(counter oom_kill)" \
    "allocation_failures=$(complaints 'page allocation failure') obstacles=$(obstacles)" \
    "seconds=$(cut -d . -f 1 /proc/uptime)"
  ! grep -qw show /proc/cmdline || rampart banks
  before=$(counts)
}

policy=$(option policy) load=$(option load) phases=$(option phases) seed=$(option seed) rest=$(option rest)
policy=${policy:-pools} load=${load:-10,50} phases=${phases:-20} seed=${seed:-1} rest=${rest:-30}

# Has the load run beside the policy.
play_phases() {
  all=$(ls -d "$memory"/memory[0-9]* | wc -l)
  # Files of the load lie in memory too: as much as there is.
  mount -o remount,size=100%,nr_inodes=0 /tmp
  : >/run.log >/load.log
  start_policy
  settle
  before=$(counts)
  ALL_KIB=$((all * 131072)) load "${load%,*}" "${load#*,}" "$phases" "$seed" "$rest" >/load.log 2>&1 &
  program=$!
  phase=0
  while [ $phase -lt "$phases" ] && kill -0 $program 2>/dev/null; do
    until grep -q "^phase $phase " /load.log || ! kill -0 $program 2>/dev/null; do sleep 1; done
    kill -0 $program 2>/dev/null || break
    wanted=$(sed -n "s/^phase $phase wanted //p" /load.log)
    # What the policy has done just before the load goes on counts.
    sleep $((rest - 4))
    report_phase
    phase=$((phase + 1))
  done
  wait $program
  code=$?
  report "load exit=$code $(tail -n 1 /load.log)"
  sed -n 's/^block \([0-9]*: stays in \)/reason block \1/p' /run.log | while read -r line; do report "$line"; done
  dmesg | grep -iE 'invoked oom-killer|killed process' | while read -r line; do report "killed $line"; done
  check "all phases ran" test "$phase $code" = "$phases 0"
  check "the policy ran to the end" kill -0 $keeper
  check "nobody was killed" nobody_was_killed
}
