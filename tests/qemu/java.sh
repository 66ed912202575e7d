# A Java program for a guest, and what runs it; `run` sources this file.
#
# A scenario asks for it in its first lines, "# java: Poisoned", a program of java/programs/lost. Its guest finds in
# /java the host of Java programs, the program compiled for it (program.wasm) and for HotSpot (classes), HotSpot itself
# without what the program does not need (hotspot), and what HotSpot prints here (expected). `java/build` makes the
# host; where that was not run, the scenario is skipped. `java/build copying` makes a second one, with wasmtime's own
# collector; the guest has it, too, unless it is older than the other.

java_host=$root/target/java/build/release/rampart-java

lacks_java() {
  [[ -n $(setting "$1" java) && ! -x $java_host ]] || return 1
  echo
  echo "skipped: $1: java/build makes what it needs"
}

# Puts it into a guest's files.
add_java() {
  local program host guest=$2/java work=$cache/java
  program=$(setting "$1" java)
  [[ -n $program ]] || return 0
  command -v jlink >/dev/null || refuse "needs jlink: apt-get install openjdk-17-jdk-headless"
  mkdir -p "$guest/classes" "$work"
  for host in "$java_host" "$java_host-copying"; do
    [[ -x $host && ! $java_host -nt $host ]] || continue
    "${tools}strip" --strip-debug -o "$guest/$(basename "$host")" "$host"
    { ldd "$host" || true; } | grep -o '[[:space:]]/[^ ]*' | while read -r library; do
      install -D -m 755 "$library" "$2$library"
    done
  done
  rm -rf "$work/classes" "$work/rampart"
  javac -cp "$root/target/java/classes" -d "$work/classes" "$root/java/programs/lost/$program.java"
  # A run without work compiles it.
  XDG_CACHE_HOME=$work "$rampart" java -- -cp "$work/classes" "$program" 0 </dev/null >/dev/null ||
    refuse "$program does not compile"
  cp "$work"/rampart/java/*.wasm "$guest/program.wasm"
  javac -d "$guest/classes" "$root"/java/programs/lost/hotspot/rampart/*.java
  javac -cp "$guest/classes" -d "$guest/classes" "$root/java/programs/lost/$program.java"
  echo | java -cp "$guest/classes" "$program" 0 >"$guest/expected"
  jlink --add-modules java.base --strip-debug --no-man-pages --no-header-files --output "$guest/hotspot"
  { ldd "$guest"/hotspot/bin/java "$guest"/hotspot/lib/{,server/}*.so || true; } | grep -o '[[:space:]]/[^ ]*' |
    sort -u | grep -v "$guest" | while read -r library; do
    install -D -m 755 "$library" "$2$library"
  done
}
