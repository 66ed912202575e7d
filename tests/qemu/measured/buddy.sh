# The same load on a real kernel and, from a recording of it, on the simulated `buddy`: how many banks are removable?
# The load is recorded until its last phase has grown; then it stops, the banks are counted, and the trace is handed on.
# `tests/qemu/buddy` replays it. The kernel's command line chooses: load=LOW,HIGH, phases=N, seed=N.
# memory: 4G
# icount: 0

removable() {
  rampart banks --json --bank "$1" | sed -n 's/.*"\(removable_banks\|banks\)": \([0-9]*\),*$/\2/p' | tr '\n' ' '
}

load=$(option load) phases=$(option phases) seed=$(option seed)
load=${load:-30,80} phases=${phases:-5} seed=${seed:-1}
mount -o remount,size=100%,nr_inodes=0 /tmp
cat >/bin/until_grown <<EOF
#!/bin/sh
load ${load%,*} ${load#*,} $phases $seed 20 >/load.log 2>&1 &
until grep -q '^phase $((phases - 1)) ' /load.log; do kill -0 \$! || exit 1; sleep 1; done
killall -STOP load
EOF
chmod +x /bin/until_grown
: >/load.log
rampart banks record --json --out /trace.pat.zst -- until_grown 2>/record.json
check "the whole load is recorded" test $? = 0
report "$(tr -d '\n' </record.json)"
# Both sizes of banks are counted from the same flags.
drained /flags >/drained.log
check "no CPU keeps free frames on lists" test $? = 0
report "$(cat /drained.log)"
mount -o bind /flags /proc/kpageflags
report "removable 128MiB $(removable 128MiB)"
report "removable 256MiB $(removable 256MiB)"
check "the trace is handed on" carry /trace.pat.zst
killall load
