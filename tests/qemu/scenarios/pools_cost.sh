# Programs execute as many instructions with `rampart banks pools` as without, apart from what the pools' own process
# executes, and have the same faults and results. Each instruction takes a nanosecond of this machine's time.
# memory: 2G
# cpus: 1
# icount: 0

part() {
  echo "$costs" | tr ' ' '\n' | sed -n "s/^$1=//p"
}

# programs KEEPER: what three programs cost together, in $all, $own and $faults; and their $results and $exits.
programs() {
  all=0 own=0 faults=0 results= exits=
  for program in "mix patterns 2 40 1" "micro exec_test 60" "fileserver /tmp 1000 16 500 1"; do
    costs=$(counted /result "$1" /run.log $program)
    report "$costs"
    all=$((all + $(part instructions))) own=$((own + $(part keeper))) faults=$((faults + $(part minor)))
    results="$results $(part result)" exits=$exits$(part exit)
  done
}

# differ_by PER_MILLE ONE OTHER: at most by so much.
differ_by() {
  [ $((($2 - $3) * 1000)) -le $(($1 * $3)) ] && [ $((($3 - $2) * 1000)) -le $(($1 * $3)) ]
}

: >/run.log
programs 0
before=$all faults_before=$faults results_before=$results
rampart banks pools --apply >/run.log 2>&1 &
pools=$!
until grep -q '^pools ' /run.log; do
  kill -0 $pools || break
  sleep 1
done
check "memory is offline" grep -q offline /sys/devices/system/memory/memory*/state
programs $pools
check "programs do the same with pools" test "$results" = "$results_before"
check "programs ended well" test "$exits" = 000
check "programs execute as many instructions, but for the pools' process: $((all - own)) and $before" differ_by 20 $((all - own)) "$before"
check "the pools' process takes at most a fiftieth: $own of $all" test $((own * 50)) -le $all
check "programs have as many faults: $faults and $faults_before" differ_by 100 $faults "$faults_before"
kill -INT $pools
check "all blocks come back" wait $pools
