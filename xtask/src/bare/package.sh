# In a bare root, in the tree, after the optimized build: the package is made, installed, used, upgraded and purged.
set -eux
apt-get install -y -qq --no-install-recommends debhelper dpkg-dev lintian
export DEBFULLNAME='Bare root' DEBEMAIL=somebody@localhost.localdomain
cargo xtask package
cargo xtask package +1
cd target/package
version=$(dpkg-parsechangelog --file rampart/debian/changelog --show-field Version)
first=$(ls "$PWD"/rampart_*.deb | grep -vF "$version") second=$(ls "$PWD"/rampart_"$version"_*.deb)
cp "$first" "$second" /tmp
cd /tmp
# Nobody's address is real in here.
address=bogus-mail-host,bogus-mail-host-in-debian-changelog
lintian --allow-root --suppress-tags $address --fail-on error,warning "$first"
apt-get install -y -qq "$first"
for unit in rampart rampart-pools; do [ -e /lib/systemd/system/$unit.service ]; done
[ -e /usr/share/man/man1/rampart-test.1.gz ] || grep -q path-exclude /etc/dpkg/dpkg.cfg.d/*
rampart map add 0x12345 2>/tmp/said || { cat /tmp/said; exit 1; }
rampart test --memory 16MiB --passes 1
rampart run --cap 4MiB -- ls /tmp >/dev/null 2>/tmp/said || { cat /tmp/said; exit 1; }
grep 'rampart: guarded' /tmp/said # with the library that the binary carries
echo '# Of this machine.' >>/etc/rampart/watch.toml
apt-get install -y -qq -o Dpkg::Options::=--force-confold "$second"
[ "$(dpkg-query --show --showformat='${Version}' rampart)" = "$version" ]
grep 'Of this machine' /etc/rampart/watch.toml
apt-get remove -y -qq rampart
[ ! -e /usr/bin/rampart ]
[ -e /etc/rampart/watch.toml ]
apt-get purge -y -qq rampart
[ ! -e /etc/rampart ] && [ ! -e /var/cache/rampart ] && [ ! -e /var/log/rampart ]
[ -e /var/lib/rampart/rampart.db ] # the memory is as bad as before
