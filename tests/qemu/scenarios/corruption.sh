# Locked pages of a guarded program are corrupted in the machine's RAM, in each way of `cargo xtask bench
# guard-corruption`, 20 pages each, by each engine: each page is corrected, or reported and its program stopped. None is
# read wrong unseen.
# memory: 448M
# kernel: 6.12

pages=4096 # 16 MiB
each=20

cat >/tmp/classes <<END
1 bit
2 bits of a word
2 bits in two lines
a nibble
a byte
a word
64 bits across words
a line, random
a line of zeros
a line from elsewhere in the page
two lines swapped
half a page, random
the content of another page
the page's older content, or zeros
END

# Starts a guarded program of $1 pages with options $2..., and waits until all of it but the unlocked limit is locked.
# Pages are not put on tested frames meanwhile: what changes during the copy would go with the old frame.
start() {
  size=$1
  shift
  rm -f /tmp/go /tmp/said /tmp/told /tmp/run.json
  salt=$((salt + 1))
  RAMPART_GUARD_LIBRARY=/bin/librampart_preload.so rampart run --engine $engine --test none --report /tmp/run.json "$@" -- \
    verifier $size 1 $salt >/tmp/said 2>/tmp/told &
  guard=$!
  while [ ! -s /tmp/said ] && kill -0 "$guard" 2>/dev/null; do sleep 1; done
  if ! grep -q '^filled' /tmp/said; then
    wait "$guard"
    cat /tmp/told
    return 1
  fi
  sleep 8
}

# Lets the program go on, until it ends.
finish() {
  touch /tmp/go
  wait "$guard"
  code=$?
  tail -n 3 /tmp/told
}

# The frame of page $1 of the program, in $frame. Fails for pages of which the RAM holds a second image: one of them is
# a copy that nobody uses.
find_frame() {
  badram find "$(printf '52414d%02x%06x00' $salt "$1")" || return
  set -- ${answer#found}
  [ $# = 1 ] || return
  frame=$(printf '%#x' $(($1 / 4096)))
}

# Corrupts page $1 as class $2 says.
corrupt() {
  find_frame "$1" && badram "corrupt $frame $donor $1 $2"
}

# A page of the program that stays as it is, whose content others get.
find_donor() {
  donor=
  for page in 10 20 30; do
    [ -n "$donor" ] || ! find_frame $page || donor=$frame
  done
}

# Corrupts pages of each class, and has the guard hand over what it cannot correct: it must name each page that the
# program finds wrong.
corrupt_all() {
  start $pages --cap 4MiB --on-error continue || return 1
  find_donor
  : >/tmp/hits
  page=100
  while read -r class; do
    count=0
    while [ $count -lt $each ] && [ $page -lt 3000 ]; do
      page=$((page + 5))
      corrupt $page "$class" || continue
      count=$((count + 1))
      echo "$page $class" >>/tmp/hits
    done
  done </tmp/classes
  finish
  judge >/tmp/fates
  cat /tmp/fates
  check "$engine: $each pages of each of 14 classes were corrupted" test "$(wc -l </tmp/hits)" = $((14 * each))
  check "$engine: each was corrected or reported, and no page was read wrong unseen" sound
  report "row $engine $(awk -F'\t' '{ printf "%s%s", separator, $2 + 0 "/" $3 + 0; separator = " " }' /tmp/fates)"
}

# A line for each class: its name, and how many pages were corrected, reported as beyond correction, read wrong unseen,
# and otherwise unexplained, with tabs between. A last line if pages were wrong that nobody corrupted.
judge() {
  # mawk and busybox have 53 bits, which addresses fit.
  base=$(printf '%d' "$(sed -n 's/^filled [0-9]* //p' /tmp/said)")
  awk -v base="$base" -F'"' '
    FILENAME ~ /run.json/ { if ($2 == "event") event = $4
      if ($2 == "address" && (event == "corrected" || event == "uncorrectable")) {
        sub(/.*: /, ""); sub(/,/, ""); fate[($0 - base) / 4096] = event }
      next }
    FILENAME ~ /said/ { if (/^wrong in/) { sub(/.*page /, ""); sub(/,.*/, ""); wrong[$0] = 1 } next }
    { page = $0; sub(/ .*/, "", page); class = $0; sub(/^[0-9]* /, "", class)
      if (!(class in seen)) { seen[class] = 1; order[++classes] = class }
      hit[page] = 1
      if (fate[page] == "uncorrectable") reported[class]++
      else if (page in wrong) silent[class]++
      else if (fate[page] == "corrected") corrected[class]++
      else odd[class]++ }
    END { for (number = 1; number <= classes; number++) { class = order[number]
        printf "%s\t%d\t%d\t%d\t%d\n", class, corrected[class], reported[class], silent[class], odd[class] }
      for (page in wrong) if (!(page in hit)) others++
      if (others) printf "not corrupted\t0\t0\t%d\t0\n", others }' /tmp/run.json /tmp/said /tmp/hits
}

sound() {
  awk -F'\t' '$4 > 0 || $5 > 0 { bad = 1 } END { exit bad || NR != 14 }' /tmp/fates
}

# One page of a class that one line's codes cannot correct: the program ends before it reads the page.
stop_at() {
  start 1024 --cap 1MiB --block 64KiB --interval 20ms || return
  find_donor
  hit=
  for page in 100 140 180 220; do
    [ -n "$hit" ] || ! corrupt $page "$1" || hit=$page
  done
  finish
  check "$engine, $1: the program is stopped at page $hit (exit code $code)" test $code = 86
  check "$engine, $1: it read nothing wrong" test "$(wc -l </tmp/said)" = 1
}

salt=0
for engine in move minor mprotect; do
  if ! corrupt_all; then
    lacks "$engine" "$(head -n 1 /tmp/told)"
    continue
  fi
  for class in "2 bits in two lines" "two lines swapped" "half a page, random" "the content of another page" \
    "the page's older content, or zeros"; do
    stop_at "$class"
  done
done
