# What programs cost with and without `rampart banks pools`: the same programs, alternately without and with pools, in
# one boot. Reports a line "row KEY=VALUE ..." for each run of a program (guest/counted.c). After programs that use much
# memory the machine rests, so that the pools have shrunk when the next one begins: "rest" is what they do meanwhile.
# The kernel's command line chooses: programs=SET (a function below), pairs=N, seed=N.
# memory: 4G
# cpus: 1
# icount: 0
# packages: tcc
# modules: loop ext4 crc32c_generic

# counted_run NAME COMMAND...: a row.
counted_run() {
  local name=$1 costs before
  shift
  before=$(offline)
  costs=$(counted /result "$keeper" /run.log "$@")
  report "row pair=$pair order=$order pools=$pools program=$name $costs offline_before=$before offline_after=$(offline)"
  echo "$name $costs" >>/rows
}

program() {
  rm -rf /tmp/*
  counted_run "$@"
  rm -rf /tmp/*
}

rest() {
  counted_run rest sleep 3
}

# A tree that is compiled file by file and linked, with a shell for each file, as a kernel is.
write_tree() {
  mkdir -p /tree
  awk -v seed="$seed" 'BEGIN {
    for (each = 0; each < 400; each++) {
      printf "struct part_%d { int count, kind; struct part_%d *next; long sizes[%d]; };\n", each, each, each % 7 + 1
      printf "extern int work_%d(struct part_%d *part, int by);\n#define LIMIT_%d %d\n", each, each, each, each * seed
    }
  }' >/tree/parts.h
  awk -v seed="$seed" 'BEGIN {
    for (file = 0; file < 32; file++) {
      name = "/tree/" file ".c"
      print "#include \"parts.h\"" >name
      for (each = 0; each < 12; each++) {
        number = file * 12 + each
        printf "int done_%d(struct part_%d *part, int by) {\n  int sum = LIMIT_%d;\n", number, number % 400, number % 400 >name
        printf "  while (part && by-- > 0) { sum += work_%d(part, by) %% (by + %d); part->count = sum; part = part->next; }\n", number % 400, seed + each >name
        printf "  switch (sum & 7) { case 0: return sum; case 1: return -sum; case 2: sum ^= 0x55; default: return sum / 3; }\n}\n" >name
      }
      close(name)
    }
  }'
}

build() {
  cp -r /tree /tmp/tree
  cd /tmp/tree
  find . -name '*.c' | xargs -n 1 -P "$1" sh -c 'tcc -c -o "$0.o" "$0"'
  tcc -r -o all.o ./*.c.o
  sha256sum all.o
  cd /
}

# Programs of Debian's busybox on a file of 300 KiB.
archive() {
  { cat /tree/1*.c; head -c 100000 /bin/busybox; } >/tmp/data
  cp -r /tree /tmp/copy
  tar -c -C /tmp copy | wc -c
  gzip -c /tmp/data | sha256sum
  bzip2 -c /tmp/data | sha256sum
  sha256sum /tmp/data
}

sorted() {
  i=0
  while [ $i -lt 8 ]; do cat /tree/*.c; i=$((i + 1)); done | sort | uniq -c | sort -n | sha256sum
}

build_tests() {
  program build-1 sh -c '. /functions.sh; build 1'
  program build-4 sh -c '. /functions.sh; build 4'
  rest
}

mix_tests() {
  for processes in 1 4; do
    program graph-$processes mix graph $processes $((240 / processes)) "$seed"
    program points-$processes mix points $processes $((80 / processes)) "$seed"
    program options-$processes mix options $processes $((300000 / processes)) "$seed"
    program patterns-$processes mix patterns $processes $((80 / processes)) "$seed"
    program frames-$processes mix frames $processes $((8 / processes)) "$seed"
    program pipeline-$processes mix pipeline $processes $((60 / processes)) "$seed"
    program large-$processes mix large $processes $((384 / processes)) "$seed"
    rest
  done
  program archive sh -c '. /functions.sh; archive'
  program sort sh -c '. /functions.sh; sorted'
}

micro_tests() {
  program creat-clo micro creat-clo 6000
  program page_test micro page_test 50
  program brk_test micro brk_test 700
  program exec_test micro exec_test 60
  program fork_test micro fork_test 200
  program link_test micro link_test 5000
  program disk_rr micro disk_rr 20000
  program disk_rw micro disk_rw 20000
  program disk_wrt micro disk_wrt 16000
  program disk_src micro disk_src 12000
  program shared_memory micro shared_memory 350
  program tcp_test micro tcp_test 3000
  program udp_test micro udp_test 5000
  program fifo_test micro fifo_test 20000
  program stream_pipe micro stream_pipe 12000
  program dgram_pipe micro dgram_pipe 12000
  program pipe_cpy micro pipe_cpy 20000
  program mmap_test micro mmap_test 25
  program map_test micro map_test 100
  program signal_test micro signal_test 10000
  rest
}

file_tests() {
  program files-1000 fileserver /tmp 1000 128 400 "$seed"
  rest
  program files-10000 fileserver /tmp 10000 16 1000 "$seed"
  rest
}

many_files() {
  program files-100000 fileserver /tmp 100000 8 4000 "$seed"
  rest
}

most_files() {
  program files-450000 fileserver /tmp 450000 2 4000 "$seed"
  rest
}

# Memory that is wanted all at once: more than is online in one allocation, which Linux grants with this setting only,
# and more than the reserve in a moment.
burst_tests() {
  echo 1 >/proc/sys/vm/overcommit_memory
  program burst-1 mix burst 1 1280 "$seed"
  program burst-4 mix burst 4 256 "$seed"
  rest
}

# Files on ext4, whose pages the kernel can drop: they are read, a program uses nearly all memory, and they are read
# again. The disk is a file in memory; another file takes half of the memory.
cache_tests() {
  program cached sh -c "cat /cache/* >/dev/null; mix large 1 $large $seed; cat /cache/* | wc -c"
  rest
}

prepare_cache() {
  load_modules
  mkdir -p /store /cache
  mount -t tmpfs -o size=100% none /store
  dd if=/dev/zero of=/store/half bs=1M count=2000 2>/dev/null
  truncate -s 400M /store/disk
  losetup /dev/loop0 /store/disk
  mke2fs /dev/loop0 >/dev/null 2>&1
  mount -t ext4 /dev/loop0 /cache
  file=0
  while [ $file -lt 80 ]; do
    dd if=/dev/zero of=/cache/$file bs=1M count=4 2>/dev/null
    file=$((file + 1))
  done
  sync
  echo 1 >/proc/sys/vm/drop_caches
  # Of 320 MiB of files, about half have no room beside it.
  large=$(($(meminfo MemFree) / 1024 - 160))
}

all() {
  build_tests
  mix_tests
  micro_tests
  file_tests
}

without_pools() {
  pools=without keeper=0
  : >/run.log
  "$programs"
}

with_pools() {
  pools=with
  : >/run.log
  rampart banks pools --apply --dwell 2s >/run.log 2>&1 &
  keeper=$!
  until grep -q '^pools ' /run.log; do
    kill -0 $keeper || break
    sleep 1
  done
  "$programs"
  kill -INT $keeper
  check "pair $pair: all blocks come back" wait $keeper
  grep ' stays in ' /run.log
}

programs=$(option programs) pairs=$(option pairs) seed=$(option seed)
programs=${programs:-all} pairs=${pairs:-5} seed=${seed:-1}
# Files lie in memory: as much as there is.
mount -o remount,size=100%,nr_inodes=0 /tmp
ip link set lo up
sed -n '/^build()/,/^}/p; /^archive()/,/^}/p; /^sorted()/,/^}/p' /scenario.sh >/functions.sh
write_tree
[ "$programs" != cache_tests ] || prepare_cache
pair=1
while [ $pair -le "$pairs" ]; do
  order=first
  if [ $((pair % 2)) = 1 ]; then without_pools; else with_pools; fi
  order=second
  if [ $((pair % 2)) = 1 ]; then with_pools; else without_pools; fi
  pair=$((pair + 1))
done
check "every program ended well" sh -c "! grep -v ' exit=0 ' /rows"
# As many results as programs.
results=$(sed 's/ .* result=/ /; s/ exit=.*//' /rows | sort -u)
check "each program had the same result each time" test -z "$(echo "$results" | cut -d ' ' -f 1 | uniq -d)"
check "nobody was killed" nobody_was_killed
