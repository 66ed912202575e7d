//! The settings: limits, signals, sandboxes, closed files, ways to make a child, other users, umasks, and the
//! environment.

use super::judge::Allowance::{self, MayLeave, MayRefuse, Works};

/// A setting: its name, its script, and its allowed effects on a guarded program.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// In words.
    pub name: &'static str,
    /// For bash, after `prelude.sh`.
    pub script: &'static str,
    /// The allowed effects.
    pub allowance: Allowance,
}

const fn works(name: &'static str, script: &'static str) -> Setting {
    Setting { name, script, allowance: Works }
}

const fn may_refuse(name: &'static str, script: &'static str) -> Setting {
    Setting { name, script, allowance: MayRefuse }
}

/// All.
pub const SETTINGS: &[Setting] = &[
    // Nothing hostile: the baseline.
    works("nothing", "$RUN $SUMS plain"),
    works("8 threads", "$RUN $SUMS threads"),
    works("threads in a locale", "$RUN $SUMS localized"),
    // Limits, from the start.
    works("ulimit -n 64", "ulimit -n 64; $RUN $SUMS plain"),
    works("ulimit -n 1024", "ulimit -n 1024; $RUN $SUMS fork"),
    may_refuse("ulimit -n 16", "ulimit -n 16; $RUN $SUMS plain"),
    works("ulimit -v twice the peak", "ulimit -v $((2 * (132 << 10))); $RUN $SUMS plain 128"),
    may_refuse("ulimit -v of half the peak", "ulimit -v $((66 << 10)); $RUN $SUMS plain 128"),
    may_refuse("ulimit -v, memory used up", "ulimit -v $((264 << 10)); $RUN $SUMS use-up"),
    works("ulimit -d 1 GiB", "ulimit -d $((1 << 20)); $RUN $SUMS plain"),
    may_refuse("ulimit -d 4 MiB", "ulimit -d 4096; $RUN $SUMS plain"),
    works("ulimit -l 0", "ulimit -l 0; $RUN $SUMS plain"),
    works("ulimit -s 256", "ulimit -s 256; $RUN $SUMS plain"),
    works("ulimit -s unlimited", "ulimit -s unlimited; $RUN $SUMS plain"),
    may_refuse("ulimit -f 0", "exec > >(cat) 2> >(cat >&2); ulimit -f 0; $RUN $SUMS plain"),
    works("ulimit -c 0", "ulimit -c 0; $RUN $SUMS plain"),
    works(
        "ulimit -c unlimited, aborted",
        "ulimit -c unlimited; cd \"$TMPDIR/..\"; $RUN $SUMS aborts; c=$?; rm -f core*; exit $c",
    ),
    may_refuse("ulimit -u 1, as nobody", "nobody bash -c \"ulimit -u 1; $RUN $SUMS plain\""),
    works("ulimit -t 100", "ulimit -t 100; $RUN $SUMS plain"),
    works("ulimit -q 0, -i 0", "ulimit -q 0; ulimit -i 0; $RUN $SUMS alarms"),
    // Limits that the program sets or that are set from outside.
    works("RLIMIT_NOFILE 64, set by the program", "$RUN $SUMS files-64"),
    may_refuse("RLIMIT_NOFILE 0, set by the program", "$RUN $SUMS files-0"),
    works("RLIMIT_AS 1 MiB, set by the program", "$RUN $SUMS addresses"),
    works("RLIMIT_DATA 0, set by the program", "$RUN $SUMS data"),
    works("RLIMIT_NPROC 0, set by the program", "$RUN $SUMS threads-0"),
    works("max_map_count used up", "$RUN $SUMS map-all"),
    works("prlimit --nofile=64 from outside", "limit() { prlimit --nofile=64 --pid $1; }; beside limit"),
    may_refuse("prlimit --nofile=0 from outside", "limit() { prlimit --nofile=0:0 --pid $1; }; beside limit"),
    works("prlimit --as from outside", "limit() { prlimit --as=1048576 --pid $1; }; beside limit"),
    works("mlockall(MCL_CURRENT)", "$RUN $SUMS mlockall-current"),
    works("mlockall(MCL_FUTURE)", "$RUN $SUMS mlockall-future"),
    works("mlockall(both)", "$RUN $SUMS mlockall-both"),
    works("mlock of the heap", "$RUN $SUMS mlock"),
    works("cgroup memory, 1.25 of the peak", "grouped memory 165 $RUN $SUMS plain 128"),
    works("cgroup memory, 4 times the peak", "grouped memory 528 $RUN $SUMS plain 128"),
    may_refuse("cgroup pids.max 4", "grouped pids 4 $RUN $SUMS plain"),
    works("cgroup pids.max 64", "grouped pids 64 $RUN $SUMS fork"),
    // The scheduler.
    works("nice 19", "nice -n 19 $RUN $SUMS plain"),
    works("one CPU", "need taskset; taskset -c 0 $RUN $SUMS threads"),
    works("SCHED_IDLE", "need chrt; chrt -i 0 $RUN $SUMS plain"),
    works("SCHED_FIFO", "need chrt; chrt -f 1 true 2>/dev/null || skip 'no real time'; chrt -f 1 $RUN $SUMS plain"),
    // Signals.
    works("SIGALRM each millisecond", "$RUN $SUMS alarms"),
    works("SIGPROF each millisecond", "$RUN $SUMS profiles"),
    works("50 children end", "$RUN $SUMS children-end"),
    works("all signals blocked", "$RUN $SUMS blocked"),
    works("all blocked in a thread", "$RUN $SUMS blocked-thread"),
    works("all blocked by the parent", "env --block-signal $RUN $SUMS plain"),
    works("all ignored by the parent", "env --ignore-signal $RUN $SUMS plain"),
    works("SIGCHLD ignored by the parent", "trap '' CHLD; $RUN $SUMS exit-7"),
    works("SIGSEGV and SIGBUS ignored", "$RUN $SUMS ignored"),
    works("all handlers set to their defaults", "$RUN $SUMS defaults"),
    works("sigaltstack in the heap", "$RUN $SUMS own-stack"),
    works("SIGSTOP and SIGCONT", "$RUN $SUMS stops"),
    works("SIGSTOP and SIGCONT of rampart run", "pause() { kill -STOP $2; sleep 0.3; kill -CONT $2; }; beside pause"),
    works("ended by SIGKILL", "$RUN $SUMS killed"),
    works("ended by abort", "cd \"$TMPDIR/..\"; ulimit -c 0; $RUN $SUMS aborts"),
    works("exit code 7", "$RUN $SUMS exit-7"),
    works("the last thread ends by itself", "$RUN $SUMS thread-ends"),
    Setting {
        name: "rampart run is killed",
        script: "end() { [[ -z $RUN ]] || kill -9 $2; while kill -0 $1 2>/dev/null; do sleep 0.1; done; }; beside end 2>/dev/null; true",
        allowance: MayLeave,
    },
    // Ways to make a child.
    works("fork", "$RUN $SUMS fork"),
    works("_Fork", "$RUN $SUMS _Fork"),
    works("raw clone", "$RUN $SUMS clone"),
    works("raw clone3", "$RUN $SUMS clone3"),
    works("vfork and exec", "$RUN $SUMS vfork"),
    works("posix_spawn", "$RUN $SUMS spawn"),
    works("system", "$RUN $SUMS system"),
    works("a daemon by two forks", "$RUN $SUMS daemon"),
    works("exec of itself", "$RUN $SUMS exec"),
    works("a child with setuid", "$RUN $SUMS setuid-child"),
    works("a child that is traced", "$RUN $SUMS traced"),
    works("a script with #!", "printf '#!/bin/bash\\nexec %s plain\\n' $SUMS >script; chmod +x script; $RUN ./script"),
    works("a shell with a pipe", "$RUN bash -c \"$SUMS plain | cat\""),
    works("rampart run in rampart run", "$RUN $RUN $SUMS plain"),
    works("two at once", "$RUN $SUMS plain >one & $RUN $SUMS plain >two; wait; cat one two"),
    // Sandboxes.
    may_refuse("seccomp, strict", "$RUN $SUMS strict"),
    may_refuse("seccomp, strict, ended by the kernel", "$RUN $SUMS strict-kills"),
    works("seccomp, a filter that answers EPERM", "$RUN $SUMS filter-errors"),
    works("seccomp, a filter that kills", "$RUN $SUMS filter-kills"),
    works("no_new_privs, set by the program", "$RUN $SUMS no-new-privileges"),
    works("no_new_privs, from the start", "setpriv --no-new-privs $RUN $SUMS plain"),
    works("not dumpable", "$RUN $SUMS not-dumpable"),
    works("without all capabilities", "setpriv --bounding-set=-all --inh-caps=-all $RUN $SUMS plain"),
    works("chroot by the program", "$RUN $SUMS chroot"),
    works("setuid by the program", "$RUN $SUMS setuid"),
    works("a user namespace by the program", "$RUN $SUMS new-user"),
    works("a process namespace by the program", "$RUN $SUMS new-pids"),
    works(
        "in a user namespace",
        "unshare -r true 2>/dev/null || skip 'no user namespace'; unshare -r $RUN $SUMS plain",
    ),
    works("in a process namespace", "unshare -p -f --mount-proc $RUN $SUMS fork"),
    works("in a network namespace", "unshare -n $RUN $SUMS plain"),
    works("in an IPC namespace", "unshare -i $RUN $SUMS plain"),
    works("in a mount namespace", "mounted true $RUN $SUMS plain"),
    may_refuse("without /proc", "mounted 'umount -l /proc' $RUN $SUMS plain"),
    may_refuse("without /sys", "mounted 'umount -l /sys' $RUN $SUMS plain"),
    may_refuse("without /dev", "mounted 'mount -t tmpfs tmpfs /dev' $RUN $SUMS plain </dev/null"),
    may_refuse("without /dev/shm", "mounted 'mount -t tmpfs -o ro tmpfs /dev/shm' $RUN $SUMS plain"),
    // Temporary files and the environment.
    works("temporary files without exec", "mounted 'mount -t tmpfs -o noexec tmpfs $TMPDIR' $RUN $SUMS plain"),
    may_refuse("temporary files read-only", "mounted 'mount -t tmpfs -o ro tmpfs $TMPDIR' $RUN $SUMS plain"),
    may_refuse(
        "temporary files on a full disk",
        "mounted 'mount -t tmpfs -o size=4k tmpfs $TMPDIR; head -c 4096 /dev/zero >$TMPDIR/full' $RUN $SUMS plain",
    ),
    may_refuse("TMPDIR missing", "TMPDIR=$TMPDIR/missing $RUN $SUMS plain"),
    works("TMPDIR unset", "env -u TMPDIR $RUN $SUMS plain"),
    works("TMPDIR with spaces", "mkdir 'a b'; TMPDIR=\"$PWD/a b\" $RUN $SUMS plain; c=$?; ls 'a b'; exit $c"),
    works(
        "TMPDIR very long",
        "d=$PWD/$(printf 'x%.0s' {1..200}); d=$d/$(printf 'y%.0s' {1..200}); mkdir -p $d; TMPDIR=$d $RUN $SUMS plain; c=$?; ls $d; exit $c",
    ),
    works("HOME unset", "env -u HOME $RUN $SUMS plain"),
    works("an empty environment", "env -i RAMPART_STORE=$RAMPART_STORE $RUN $SUMS plain"),
    works("128 KiB of environment", "X=$(head -c 130000 /dev/zero | tr '\\0' x) $RUN $SUMS plain"),
    works("2,000 arguments", "$RUN $SUMS plain 8 $(seq 2000)"),
    works("MALLOC_ settings", "MALLOC_ARENA_MAX=1 MALLOC_PERTURB_=85 MALLOC_CHECK_=3 $RUN $SUMS plain"),
    works("settings of jemalloc", "MALLOC_CONF=junk:true _RJEM_MALLOC_CONF=junk:true $RUN $SUMS plain"),
    works("LD_PRELOAD by the user", "LD_PRELOAD=libm.so.6 $RUN $SUMS plain"),
    works("LD_LIBRARY_PATH", "LD_LIBRARY_PATH=$PWD $RUN $SUMS plain"),
    works("LD_BIND_NOW", "LD_BIND_NOW=1 $RUN $SUMS plain"),
    works("addresses not at random", "setarch -R $RUN $SUMS plain"),
    works("no huge pages for the process", "$RUN $SUMS no-huge-pages"),
    // Files.
    works("standard input closed", "$RUN $SUMS plain <&-"),
    works("standard error closed", "$RUN $SUMS plain 2>&-"),
    works("standard input and error closed", "$RUN $SUMS plain <&- 2>&-"),
    works("all standard files closed", "$RUN $SUMS exit-7 <&- >&- 2>&-"),
    works("standard output full", "$RUN $SUMS plain >/dev/full"),
    works("standard output a closed pipe", "(trap - PIPE; $RUN $SUMS plain; echo $? >code) | true; cat code"),
    works("every file but the standard ones closed", "$RUN $SUMS close-files"),
    works("every file covered by another", "$RUN $SUMS cover-files"),
    works("umask 000", "umask 000; $RUN $SUMS plain"),
    works("umask 077", "umask 077; $RUN $SUMS plain"),
    works("umask 777", "umask 777; $RUN $SUMS plain"),
    // Other users and other programs.
    may_refuse("as nobody", "nobody $RUN $SUMS plain"),
    works("strace -f", "need strace; strace -f -o /dev/null $RUN $SUMS plain"),
    works(
        "gdb",
        "need gdb; gdb -q -batch -ex 'handle SIGSEGV nostop noprint pass' -ex 'set follow-fork-mode child' -ex run \
         --args ${RUN:-env} $SUMS plain </dev/null 2>&1 | grep '^right'",
    ),
    works(
        "gdb, itself under guard",
        "need gdb; $RUN gdb -q -batch -ex 'handle SIGSEGV nostop noprint pass' -ex run --args $SUMS plain </dev/null \
         2>&1 | grep '^right'",
    ),
    works(
        "gdb, attached",
        "need gdb; attach() { gdb -q -batch -p $1 -ex bt -ex detach >gdb.out 2>&1; }; beside attach",
    ),
    works("a static program", "there $SUMS-static; $RUN $SUMS-static plain"),
    works("a program linked against musl", "there $SUMS-musl; $RUN $SUMS-musl plain"),
    works("a static program linked against musl", "there $SUMS-static-musl; $RUN $SUMS-static-musl plain"),
    works("a program with ASan", "there $SUMS-asan; $RUN $SUMS-asan plain"),
    works("busybox, static", "need busybox; $RUN busybox sh -c \"$SUMS plain\""),
    may_refuse("a program that is missing", "$RUN ./missing"),
    may_refuse("a folder as a program", "$RUN /tmp"),
    may_refuse("a program without the right to run", "cp $SUMS plain; chmod 644 plain; $RUN ./plain"),
    may_refuse("a report that cannot be written", "RUN=${RUN/report.json/missing\\/report.json}; $RUN $SUMS plain"),
    may_refuse(
        "a store that cannot be written",
        "RAMPART_STORE=/proc/none/store.db; export RAMPART_STORE; $RUN $SUMS plain",
    ),
];
