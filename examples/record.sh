#!/usr/bin/env bash
# Remakes edge.pcapng: real programs talk through an edge router, and dumpcap
# listens on the router's two interfaces.
#
#   staff dmz voice guest acme birch mgmt cedar      one namespace for each VLAN
#        \  |   |    |    |    |    /   /            (cedar: 802.1ad 200, 802.1Q 42)
#                  lan                               the switch, untagged on its trunk
#                   | trunk
#                 edge                               the router; captured here
#                   | wan
#                  isp ------- inet                  a provider, and everybody else
#
# All of it lives in namespaces of this script's own (network, mount, process,
# host name): no packet leaves them, and the kernel takes them away when the
# script ends, however it ends. It needs root, and half a minute.
# With libusrsctp-examples installed the recording has SCTP sessions, and with
# tshark a table of what was recorded ends the run.
#
# OUT=FILE writes there instead; LOG=FILE keeps what the programs said.
set -euo pipefail
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "${OUT:-$here/edge.pcapng}")
log=${LOG:+$(realpath -m "$LOG")}

if [[ ${1-} != --inside ]]; then
    missing=()
    while read -r program package; do
        command -v "$program" >/dev/null || missing+=("$package")
    done <<'NEEDED'
ip          iproute2
ss          iproute2
ethtool     ethtool
dumpcap     wireshark-common
python3     python3
curl        curl
dnsmasq     dnsmasq-base
dig         bind9-dnsutils
openssl     openssl
ssh         openssh-client
sshd        openssh-server
ping        iputils-ping
arping      iputils-arping
traceroute  traceroute
nmap        nmap
busybox     busybox
logger      bsdutils
unshare     util-linux
sysctl      procps
NEEDED
    if ((${#missing[@]})); then
        mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
        echo "record.sh: missing programs; on Debian: apt install ${missing[*]}" >&2
        exit 1
    fi
    if ((EUID != 0)); then
        echo "record.sh: needs root, to make network namespaces" >&2
        exit 1
    fi
    unshare --mount --uts --ipc --net --pid --fork --mount-proc --kill-child \
        env -i PATH="$PATH" HOME=/run OUT="$out" LOG="$log" LC_ALL=C bash "$here/record.sh" --inside &
    inside=$!
    trap 'kill -KILL "$inside"; exit 130' INT TERM # all in there goes with it
    wait "$inside"
    exit
fi

# ---- from here on: process 1 of the private namespaces -----------------------

names=(edge lan isp inet staff dmz voice guest acme birch cedar mgmt)
finish() {
    local status=$? job ns
    trap - EXIT INT TERM
    if ((status)); then
        [[ -z $log ]] || cp /run/lab/log "$log" || true
        echo "record.sh: failed; the last lines of the log:" >&2
        tail -n 20 /run/lab/log >&2 || true
    fi
    for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
    for ns in "${names[@]}"; do ip netns del "$ns" 2>/dev/null || true; done
}
trap finish EXIT
trap 'exit 130' INT TERM

hostname edge-lab
mount -t tmpfs none /run # hides the machine's own; ip netns, sshd and we write here
mkdir -m 755 /run/netns /run/sshd /run/lab /run/lab/www
cd /run/lab
# No program here asks the machine's own resolver, or knows its names.
printf '127.0.0.1 localhost edge-lab\n::1 localhost\n' >hosts
printf 'nameserver 127.0.0.1\n' >resolv.conf
for file in hosts resolv.conf; do
    [[ ! -e /etc/$file ]] || mount --bind "$file" "/etc/$file"
done
install -m 755 "$here/record-net.py" net

# on NS CMD...: run a server until the end.  from NS CMD...: run a client, 15 s at most.
on() { local ns=$1; shift; ip netns exec "$ns" "$@" >>/run/lab/log 2>&1 </dev/null & }
from() { local ns=$1; shift; ip netns exec "$ns" timeout -k 1 15 "$@" >>/run/lab/log 2>&1 </dev/null || true; }
say() { printf '%4ds  %s\n' "$SECONDS" "$*"; }

# ---- links -------------------------------------------------------------------

# wire NS1 IF1 MAC1 NS2 IF2 MAC2 [MTU]: a cable whose frames look as on a real one
# (whole checksums, no segments larger than the MTU, VLAN tags left in the frame).
wire() {
    ip link add "$2" netns "$1" address "02:00:00:$3" mtu "${7:-1500}" type veth \
        peer name "$5" netns "$4" address "02:00:00:$6" mtu "${7:-1500}"
    local end
    for end in "$1 $2" "$4 $5"; do
        # shellcheck disable=SC2086
        ip netns exec ${end% *} ethtool -K ${end#* } tx off sg off tso off gso off gro off \
            txvlan off rxvlan off tx-vlan-stag-hw-insert off rx-vlan-stag-hw-parse off >/dev/null 2>&1
    done
}
mute() { # NS IF: only the switch program speaks here, not the kernel
    ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=1"
    ip -n "$1" link set "$2" arp off up
}

for ns in "${names[@]}"; do
    ip netns add "$ns"
    ip netns exec "$ns" sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0 \
        net.ipv4.conf.all.rp_filter=0 net.ipv4.ping_group_range="0 0"
    ip -n "$ns" link set lo up
done
for ns in edge isp; do
    ip netns exec "$ns" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
done
ip netns exec staff sysctl -qw net.ipv4.tcp_ecn=1

wire edge trunk 20:00:01 lan trunk 20:00:02 1508
wire edge wan   c0:00:02 isp near  c0:00:01
wire isp  far   c0:01:01 inet eth0 c0:01:02 1400

ip -n edge addr add 10.20.0.1/24 dev trunk
ip -n edge addr add 2001:db8:20::1/64 dev trunk
ip -n lan  addr add 10.20.0.2/24 dev trunk
ip -n lan  addr add 2001:db8:20::2/64 dev trunk
ip -n edge addr add 192.0.2.2/29 dev wan
ip -n edge addr add 2001:db8:ffff::2/64 dev wan
ip -n isp  addr add 192.0.2.1/29 dev near
ip -n isp  addr add 2001:db8:ffff::1/64 dev near
ip -n isp  addr add 192.0.2.129/30 dev far
ip -n isp  addr add 2001:db8:ffff:1::1/64 dev far
ip -n inet addr add 192.0.2.130/30 dev eth0
ip -n inet addr add 2001:db8:ffff:1::2/64 dev eth0
# Everybody else: servers, customers at home, scanners, and sources that are forged.
for a in 203.0.113.{22,25,47,53,80,123,130,131,132,140,150,201,202,205} 192.0.2.{140,141,200} \
    10.99.1.1 172.16.5.5 192.168.1.10 100.64.3.3 169.254.7.7 198.18.0.9; do
    ip -n inet addr add "$a/32" dev lo
done
for a in 2001:db8:ffff:113::{22,25,53,80,123} 2001:db8:ffff:c::{130,131,132,140} \
    2001:db8:ffff:bad::{1,2} fd00:bad::9 3ffe::9; do
    ip -n inet addr add "$a/128" dev lo nodad
done

# vlan NS VID TAGS: a port on the switch in lan for NS, and the router's end of it.
lan_ports=() edge_ports=()
vlan() {
    local mac; mac=$(printf '20:%02x' "$(($2 % 256))")
    wire lan "p$2" "$mac:03" "$1" eth0 "$mac:04"
    wire edge "p$2" "$mac:02" edge "vlan$2" "$mac:01"
    mute lan "p$2"
    mute edge "p$2"
    lan_ports+=("p$2=$3") edge_ports+=("p$2=$3")
    ip -n edge link set "vlan$2" up
    ip -n edge addr add "10.20.$2.1/24" dev "vlan$2"
    ip -n edge addr add "2001:db8:20:$2::1/64" dev "vlan$2"
}
vlan staff 10 10
vlan dmz 20 20
vlan voice 30 30@5
vlan guest 40 40
vlan acme 50 50
vlan birch 60 60
vlan mgmt 99 99@6
vlan cedar 142 200.42
wire edge p70 20:46:02 edge vlan70 20:46:01 # building control: nobody answers there
mute edge p70
edge_ports+=(p70=70)
ip -n edge link set vlan70 up
ip -n edge addr add 10.20.70.1/24 dev vlan70
# The customers' public addresses.
ip -n edge addr add 198.51.100.1/26 dev vlan20
ip -n edge addr add 198.51.100.65/27 dev vlan50
ip -n edge addr add 198.51.100.97/27 dev vlan60
ip -n edge addr add 198.51.100.129/27 dev vlan142

hosts() { # NS GATEWAY4 GATEWAY6 ADDRESS...
    local ns=$1 a
    for a in "${@:4}"; do ip -n "$ns" addr add "$a" dev eth0; done
    ip -n "$ns" link set eth0 up
    ip -n "$ns" route replace default via "$2"
    ip -n "$ns" -6 route replace default via "$3"
    ip -n "$ns" route replace 224.0.0.0/4 dev eth0
}

# ---- capture, and only then the links come up --------------------------------

ip -n edge link set trunk up
ip -n edge link set wan up
on edge dumpcap -q -n -s 262144 -B 32 -N 50000 -i trunk -i wan -w /run/lab/raw.pcapng
dumpcap=$!
for _ in {1..50}; do [[ -s raw.pcapng ]] && break; sleep 0.1; done
sleep 1

on edge ./net switch trunk "${edge_ports[@]}"
on lan ./net switch trunk "${lan_ports[@]}"
sleep 0.5
ip -n lan link set trunk up
ip -n isp link set near up
ip -n isp link set far up
ip -n inet link set eth0 up
ip -n lan route add default via 10.20.0.1
ip -n lan -6 route add default via 2001:db8:20::1
hosts staff 10.20.10.1 2001:db8:20:10::1 10.20.10.{11,12,13}/24 2001:db8:20:10::{11,12,13}/64
hosts dmz 198.51.100.1 2001:db8:20:20::1 198.51.100.{10,22,25,53}/26 2001:db8:20:20::{10,22,25,53}/64
hosts voice 10.20.30.1 2001:db8:20:30::1 10.20.30.{5,21,22}/24 2001:db8:20:30::{5,21}/64
hosts acme 10.20.50.1 2001:db8:20:50::1 10.20.50.{10,11}/24 198.51.100.{66,67}/27 2001:db8:20:50::{10,11}/64
hosts birch 10.20.60.1 2001:db8:20:60::1 10.20.60.{10,11}/24 198.51.100.98/27 2001:db8:20:60::10/64
hosts cedar 10.20.142.1 2001:db8:20:142::1 10.20.142.{10,11}/24 198.51.100.130/27 2001:db8:20:142::10/64
hosts mgmt 10.20.99.1 2001:db8:20:99::1 10.20.99.{5,10}/24 2001:db8:20:99::{5,10}/64
for a in 198.51.100.0/24 10.20.0.0/16; do ip -n isp route add "$a" via 192.0.2.2; done
ip -n isp route add 224.0.0.0/4 dev near
ip -n isp route add default via 192.0.2.130
ip -n isp -6 route add 2001:db8:20::/48 via 2001:db8:ffff::2
ip -n isp -6 route add default via 2001:db8:ffff:1::2
ip -n inet route add default via 192.0.2.129
ip -n inet -6 route add default via 2001:db8:ffff:1::1
ip -n edge route add default via 192.0.2.1
ip -n edge -6 route add default via 2001:db8:ffff::1
# Addresses that nobody uses are refused, some of them by policy.
ip -n edge route add unreachable 10.20.0.0/16
ip -n edge route add prohibit 10.20.66.0/24
ip -n edge route add unreachable 198.51.100.0/24
ip -n edge -6 route add unreachable 2001:db8:20::/48
ip -n edge -6 route add prohibit 2001:db8:20:66::/64
sleep 2.5 # duplicate address detection

# ---- servers -----------------------------------------------------------------

say "starting servers"
for size in 200 900 3000; do head -c "$size" /dev/zero | tr '\0' x >"www/$size"; done
echo '<!doctype html><title>hello</title><p>An example page.' >www/index.html
printf 'hostname example\n' >www/switch.cfg
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=www.example \
    -keyout tls.key -out tls.crt 2>/dev/null
ssh-keygen -q -t ed25519 -N '' -C lab -f hostkey
ssh-keygen -q -t ed25519 -N '' -C lab -f id
cp id.pub authorized
chmod 600 authorized

http() { on "$1" python3 -m http.server -p HTTP/1.1 -d /run/lab/www --bind :: "$2"; }
tls() { (cd www && on "$1" openssl s_server -accept "$2" -cert ../tls.crt -key ../tls.key -WWW -quiet); }
http dmz 80; http dmz 8080; http acme 80; http birch 8000; http cedar 80; http inet 80; http mgmt 80; http inet 3128
tls dmz 443; tls acme 8443; tls cedar 443; tls inet 443
for ns in dmz acme inet edge lan; do
    on "$ns" "$(command -v sshd)" -D -e -f /dev/null -h /run/lab/hostkey -o PidFile=none -o UsePAM=no \
        -o AuthorizedKeysFile=/run/lab/authorized -o StrictModes=no -o DebianBanner=no \
        -o PermitRootLogin=prohibit-password
done
on dmz ./net smtp 25 587
on inet ./net smtp 25

dns() { local ns=$1; shift; on "$ns" dnsmasq -k --conf-file=/dev/null --no-hosts --no-resolv --user=root --pid-file= "$@"; }
long=$(printf 'x%.0s' {1..250})
txt=(); for i in {1..10}; do txt+=("--txt-record=big.example,$i$long"); done
dns inet -z -a 203.0.113.53 -a 2001:db8:ffff:113::53 --edns-packet-max=4096 \
    --host-record=www.example,203.0.113.80,2001:db8:ffff:113::80 --host-record=time.example,203.0.113.123 \
    --mx-host=example,mx.example,10 --address=/apps.example/203.0.113.80 "${txt[@]}"
dns dmz -z -a 198.51.100.53 -a 2001:db8:20:20::53 --edns-packet-max=4096 --cache-size=0 --server=203.0.113.53@198.51.100.53 \
    --host-record=www.dmz.example,198.51.100.10,2001:db8:20:20::10 --mx-host=dmz.example,mail.dmz.example,10
dns edge -p 0 -z -i vlan40 --dhcp-range=10.20.40.100,10.20.40.199,1h --dhcp-leasefile=/run/lab/leases \
    --enable-ra --dhcp-range=::,constructor:vlan40,slaac,64
dns mgmt -p 0 -z -i eth0 --enable-tftp --tftp-root=/run/lab/www
on inet ./net serve 203.0.113.123:123 '2001:db8:ffff:113::123:123' 203.0.113.80:443 203.0.113.80:5004 203.0.113.150:20000
on voice ./net serve 10.20.30.5:5060 10.20.30.21:16400 10.20.30.22:16500 2001:db8:20:30::21:16400
on mgmt ./net serve 10.20.99.5:514 2001:db8:20:99::5:514 10.20.99.5:161
on lan ./net serve 10.20.0.2:161
on acme ./net serve 10.20.50.10:4500 198.51.100.67:51820
on cedar ./net serve 10.20.142.10:7000 '2001:db8:20:142::10:7000'
for want in 'dmz :80' 'inet :80' 'dmz :443' 'inet :443' 'inet :22' 'edge :22' 'dmz :25' 'dmz :53' 'inet :53'; do
    for _ in {1..50}; do
        [[ -n $(ip netns exec "${want% *}" ss -Hltn "sport = ${want#* }") ]] && break
        sleep 0.1
    done
done

# ---- clients -----------------------------------------------------------------

web() { # NS SOURCE URL...: the URLs one after the other, over one connection where it can
    local ns=$1 src=$2 u args=(); shift 2
    for u in "$@"; do args+=(-o /dev/null "$u"); done
    from "$ns" curl -s -g -k -A record --connect-timeout 1 -m 3 --interface "$src" "${args[@]}"
}
letter() { # NS SOURCE URL
    from "$1" curl -s -g -m 5 --interface "$2" --mail-from a@example --mail-rcpt b@dmz.example -T mail "$3"
}
dns_of() { local ns=$1; shift; from "$ns" dig +tries=1 +time=1 +nocookie "$@"; }
login() { # NS SOURCE TARGET COMMAND
    from "$1" ssh -F none -b "$2" -i /run/lab/id -o BatchMode=yes -o StrictHostKeyChecking=no \
        -o UserKnownHostsFile=/dev/null -o ConnectTimeout=2 "root@$3" "$4"
}
scan() { # NS SOURCE TARGET KIND PORTS [more]
    from "$1" nmap -n -Pn --max-retries 0 --host-timeout 8s -T4 -e eth0 -S "$2" "$4" -p "$5" "${@:6}" "$3"
}
hello() { local ns=$1; shift; from "$ns" ping -n -q -W 1 -i 0.1 "$@"; }

names_and_time() {
    local i
    for i in {1..6}; do
        dns_of staff -b "10.20.10.$((11 + i % 3))" @198.51.100.53 "host$i.apps.example"
        dns_of acme -b 10.20.50.10 @198.51.100.53 www.example "$([[ $((i % 2)) = 0 ]] && echo A || echo AAAA)"
        dns_of inet -b "203.0.113.13$((i % 3))" @198.51.100.53 www.dmz.example
        dns_of inet -b "2001:db8:ffff:c::13$((i % 3))" @2001:db8:20:20::53 www.dmz.example AAAA
        dns_of staff -b 2001:db8:20:10::12 @2001:db8:20:20::53 "v6-$i.apps.example"
        dns_of birch -b 10.20.60.10 @203.0.113.53 "b$i.apps.example" # not by way of our resolver
        dns_of cedar -b 10.20.142.11 @198.51.100.53 www.example
    done
    for i in 1 2 3; do
        dns_of staff -b 10.20.10.11 +tcp @198.51.100.53 www.example
        dns_of inet -b 203.0.113.131 +tcp @198.51.100.53 dmz.example MX
        dns_of inet -b 2001:db8:ffff:c::131 +tcp @2001:db8:20:20::53 dmz.example MX
        dns_of dmz -b 198.51.100.53 +bufsize=4096 @203.0.113.53 big.example TXT            # UDP in fragments
        dns_of dmz -b 2001:db8:20:20::53 +bufsize=4096 @2001:db8:ffff:113::53 big.example TXT
        dns_of dmz -b 198.51.100.53 +bufsize=1232 @203.0.113.53 big.example TXT            # cut, then TCP
        dns_of guest @198.51.100.53 www.example
    done
    dns_of staff -p 5353 +time=1 @224.0.0.251 printer.local
    dns_of guest -p 5353 +time=1 @224.0.0.251 cast.local PTR
    for i in 1 2 3; do
        from staff ./net udp 10.20.10.11 203.0.113.123 123 4 0 as=ntp
        from dmz ./net udp 2001:db8:20:20::10 2001:db8:ffff:113::123 123 4 0 as=ntp
        from acme ./net udp 10.20.50.11 203.0.113.123 123 2 0 as=ntp sport=123
        from inet ./net udp 203.0.113.140 198.51.100.10 123 3 0 as=ntp # we serve no time
    done
}

web_and_mail() {
    local i
    for i in {1..5}; do
        web staff "10.20.10.$((11 + i % 3))" http://203.0.113.80/{900,index.html}
        web staff 10.20.10.12 https://203.0.113.80/200
        web staff 2001:db8:20:10::11 'http://[2001:db8:ffff:113::80]/200'
        web guest 10.20.40.50 http://203.0.113.80/index.html
        web inet "203.0.113.13$((i % 3))" http://198.51.100.10/{index.html,200,absent}
        web inet "203.0.113.13$((i % 3))" https://198.51.100.10/200
        web inet "2001:db8:ffff:c::13$((i % 3))" 'https://[2001:db8:20:20::10]/200'
        web inet "2001:db8:ffff:c::13$((i % 3))" 'http://[2001:db8:20:20::10]/900'
        web inet 203.0.113.140 http://198.51.100.66/index.html
        web inet 192.0.2.140 http://198.51.100.130/200
    done
    for i in 1 2 3; do
        web inet 203.0.113.131 https://198.51.100.66:8443/3000
        web inet 2001:db8:ffff:c::140 'http://[2001:db8:20:142::10]/900' 
        web inet 192.0.2.141 https://198.51.100.130/200
        web inet 203.0.113.150 http://198.51.100.98:8000/200
        web cedar 10.20.142.10 https://203.0.113.80/900
        web birch 10.20.60.11 http://203.0.113.80:3128/200
        web staff 10.20.10.13 http://198.51.100.10:8080/3000
        web mgmt 10.20.99.10 http://198.51.100.10/index.html
        web mgmt 2001:db8:20:99::10 'https://[2001:db8:20:20::10]/200'
    done
    printf 'Subject: test\r\n\r\nHello.\r\n' >mail
    for i in 1 2 3; do
        letter inet 203.0.113.25 smtp://198.51.100.25/mx.example
        letter dmz 198.51.100.25 smtp://203.0.113.25/mail.dmz.example
        letter staff 10.20.10.12 smtp://198.51.100.25:587/pc.dmz.example
        letter inet 2001:db8:ffff:113::25 'smtp://[2001:db8:20:20::25]/mx.example'
    done
    web inet 203.0.113.131 smtp://198.51.100.25/around # not by way of the filter
    web inet 203.0.113.140 http://198.51.100.10:8080/200
    web acme 10.20.50.11 https://203.0.113.80/{200,900}
    # Mail straight from desks, guests and tenants, as infected machines send it.
    web staff 10.20.10.13 smtp://203.0.113.25/pc
    web guest 10.20.40.50 smtp://203.0.113.25/guest
    web birch 10.20.60.10 smtp://203.0.113.25/birch
}

shells() {
    local i
    for i in 1 2; do
        login inet 203.0.113.22 198.51.100.22 uptime
        login mgmt 10.20.99.10 10.20.99.1 'ip -br addr'
    done
    login inet 2001:db8:ffff:113::22 2001:db8:20:20::22 date
    login staff 10.20.10.11 203.0.113.22 'echo hello'
    login staff 2001:db8:20:10::11 2001:db8:ffff:113::22 'echo hello'
    login mgmt 10.20.99.10 10.20.0.2 'echo switch'
    login mgmt 2001:db8:20:99::10 2001:db8:20::2 'echo switch'
    login inet 203.0.113.22 192.0.2.2 'echo router'
    login staff 10.20.10.12 10.20.99.1 'echo not allowed'
    login inet 203.0.113.132 198.51.100.66 'echo acme'
    login inet 203.0.113.201 198.51.100.22 'echo from a bad network'
    login acme 10.20.50.11 198.51.100.22 'echo tenant'
}

icmp() {
    hello staff -c 8 -I 10.20.10.11 203.0.113.80
    hello staff -c 8 -I 2001:db8:20:10::11 2001:db8:ffff:113::80
    hello inet -c 8 -I 203.0.113.130 198.51.100.10
    hello inet -c 8 -I 2001:db8:ffff:c::130 2001:db8:20:20::10
    hello mgmt -c 5 10.20.0.2
    hello isp -c 5 192.0.2.2
    hello inet -c 3 -I 203.0.113.130 192.0.2.2
    hello isp -6 -c 3 2001:db8:ffff::2
    # Fragments, both families, both directions, in a VLAN and in two.
    hello staff -c 5 -s 4000 -I 10.20.10.11 203.0.113.80
    hello staff -c 5 -s 4000 -I 2001:db8:20:10::11 2001:db8:ffff:113::80
    hello inet -c 3 -s 2600 -I 203.0.113.132 198.51.100.10
    hello cedar -c 3 -s 3000 -I 10.20.142.10 203.0.113.80
    hello cedar -c 3 -s 3000 -I 2001:db8:20:142::10 2001:db8:ffff:113::80
    # Too big for the link behind the provider.
    hello staff -c 3 -M "do" -s 1450 -I 10.20.10.12 203.0.113.53
    hello staff -c 3 -M "do" -s 1440 -I 2001:db8:20:10::12 2001:db8:ffff:113::53
    # Not there: no such host, no such network, forbidden network, no such port.
    hello staff -c 2 -I 10.20.10.12 10.20.70.9
    hello staff -c 2 -I 10.20.10.12 10.20.201.1
    hello staff -c 2 -I 10.20.10.12 10.20.66.6
    hello staff -6 -c 2 2001:db8:20:66::6
    hello staff -6 -c 2 2001:db8:20:abcd::6
    hello inet -c 2 -I 203.0.113.131 198.51.100.200
    from staff ./net udp 10.20.10.12 203.0.113.80 9999 3 40
    from staff ./net udp 2001:db8:20:10::12 2001:db8:ffff:113::80 9999 3 40
    hello staff -c 3 -R -I 10.20.10.12 203.0.113.80 # IPv4 options
    hello staff -c 3 -T tsonly -I 10.20.10.12 203.0.113.80
    local a
    for a in 203.0.113.80 2001:db8:ffff:113::80; do
        from staff traceroute -n -q 2 -w 1 -m 5 "$a"
        from staff traceroute -n -I -q 1 -w 1 -m 5 "$a"
        from staff traceroute -n -T -p 443 -q 1 -w 1 -m 5 "$a"
    done
    from inet traceroute -n -q 2 -w 1 -m 5 -s 203.0.113.140 198.51.100.10
    from inet traceroute -n -q 2 -w 1 -m 5 -s 2001:db8:ffff:c::140 2001:db8:20:20::10
    from inet traceroute -n -q 2 -w 1 -m 5 -s 203.0.113.140 10.20.10.11
    from inet nmap -n -sn -PP -PM --max-retries 0 -e eth0 -S 203.0.113.205 198.51.100.10
    from isp ./net raw4 192.0.2.1 198.51.100.10 1 05010000c00002014500001c0001000040111442c633640acb0071500035003500080000
    from isp ./net raw4 192.0.2.1 198.51.100.10 1 0400000000000000
    from lan arping -q -c 2 -I trunk 10.20.0.1
    from guest arping -q -c 2 -I eth0 10.20.40.1
}

voice_and_vpn() {
    from voice ./net udp 10.20.30.21 10.20.30.5 5060 2 300
    from staff ./net udp 10.20.10.11 10.20.30.5 5060 6 320 sport=5060
    from voice ./net udp 10.20.30.21 203.0.113.150 20000 60 40 sport=16384 as=rtp tos=184 gap=0.01
    from staff ./net udp 10.20.10.11 10.20.30.22 16500 50 40 sport=17000 as=rtp tos=184 gap=0.01
    from staff ./net udp 2001:db8:20:10::11 2001:db8:20:30::21 16400 30 40 as=rtp tos=184 gap=0.01
    from inet ./net udp 203.0.113.150 10.20.30.5 5060 6 300 sport=5060
    from inet ./net udp 203.0.113.140 10.20.30.5 5060 6 300 sport=5090
    from staff ./net udp 10.20.10.13 203.0.113.80 443 25 250 # QUIC-like
    from inet ./net udp 203.0.113.132 198.51.100.67 51820 20 200
    from inet ./net udp 203.0.113.47 198.51.100.66 4500 5 100 sport=4500
    from inet ./net udp 203.0.113.47 198.51.100.66 500 3 150 sport=500
    local i
    for i in {1..5}; do # ESP, AH, GRE with an echo request inside, IP in IP, 6in4
        from inet ./net raw4 203.0.113.47 198.51.100.66 50 "000010010000000${i}a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5"
        from acme ./net raw4 198.51.100.66 203.0.113.47 50 "000010020000000${i}5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
        from inet ./net raw4 203.0.113.47 198.51.100.66 47 000008004500001c00010000400102a40a14320a0a14320b0800f7fd00010001
        from inet ./net raw4 203.0.113.202 198.51.100.98 4 4500001c00010000400166de0a0000010a0000020800f7fd00010001
        from inet ./net raw6 2001:db8:ffff:113::22 2001:db8:20:50::10 50 "000020010000000${i}a5a5a5a5a5a5a5a5"
    done
    from inet ./net raw4 203.0.113.47 198.51.100.66 51 110400000000100300000001a5a5a5a5a5a5a5a5a5a5a5a500350035000c0000aabbccdd
    from inet ./net raw4 203.0.113.202 198.51.100.10 41 6000000000003b4020010db800000000000000000000000120010db8000000000000000000000002
    # IPv6 extension headers: hop-by-hop, destination options, and these with fragments.
    from staff ./net udp 2001:db8:20:10::13 2001:db8:ffff:113::80 9000 3 60 hop=1
    from staff ./net udp 2001:db8:20:10::13 2001:db8:ffff:113::80 9000 3 60 dst=1
    from cedar ./net udp 2001:db8:20:142::10 2001:db8:ffff:113::80 9000 3 60 hop=1 dst=1
    from inet ./net udp 2001:db8:ffff:c::132 2001:db8:20:142::10 7000 3 2500 dst=1
    from inet ./net udp 203.0.113.132 198.51.100.67 51820 3 3200
    # Tenants; Cedar's controllers sit behind two tags.
    from cedar ./net udp 10.20.142.11 203.0.113.80 5004 20 60
    from acme ./net udp 10.20.50.11 10.20.142.10 7000 4 60
    from birch ./net udp 10.20.60.11 10.20.50.10 4500 4 60
    # SCTP, by programs with the protocol in themselves where the kernel has none.
    if [[ -x /usr/lib/usrsctp/daytime_server && -x /usr/lib/usrsctp/http_client ]]; then
        from inet timeout 3 /usr/lib/usrsctp/http_client 198.51.100.130 13 5001 0 0 /
        from inet timeout 3 /usr/lib/usrsctp/http_client 2001:db8:20:142::10 13 5002 0 0 /
    fi
    scan inet 203.0.113.140 198.51.100.130 -sY 2905,3868,36412
    scan inet 203.0.113.205 198.51.100.98 -sO 2,46,88,89,103,112,115,132
}

housekeeping() {
    local i
    from guest busybox udhcpc -f -q -n -i eth0 -s /bin/true -t 3 -T 1
    from mgmt ./net udp 10.20.99.5 10.20.0.2 161 12 70
    from staff ./net udp 10.20.10.12 10.20.99.5 161 4 70
    for i in {1..6}; do
        from acme logger -n 10.20.99.5 -P 514 -d --rfc3164 -t app "message $i"
        from edge logger -n 10.20.99.5 -P 514 -d --rfc3164 -t router "message $i"
        from lan logger -n 10.20.99.5 -P 514 -d --rfc3164 -t switch "port p$i up"
        from dmz logger -n 2001:db8:20:99::5 -P 514 -d --rfc3164 -t www "GET /$i"
    done
    from lan curl -s -m 5 -o /dev/null tftp://10.20.99.5/switch.cfg
    from lan curl -s -m 5 -o /dev/null tftp://10.20.99.5/3000
    for i in 1 2 3; do # OSPF hellos and VRRP adverts, as neighbours would send
        from lan ./net raw4 10.20.0.2 224.0.0.5 89 0201002c0a14000200000000000000000000000000000000ffffff00000a0201000000280000000000000000
        from isp ./net raw4 192.0.2.1 224.0.0.5 89 0201002cc000020100000000000000000000000000000000fffffff8000a0201000000280000000000000000
        from lan ./net raw4 10.20.0.2 224.0.0.18 112 2101640100010a140001000000000000
        sleep 1
    done
    from staff ./net join 239.255.20.1 eth0
    from staff ./net join ff05::20:1 eth0
    from staff ./net udp 10.20.10.11 239.255.255.250 1900 3 100
    from guest ./net udp 10.20.40.50 239.255.255.250 1900 3 100
    from voice ./net join 224.0.1.75 eth0
}

unwanted() {
    local a p
    # Old and new worms' doors, by a scanner on a bad network and by one at home.
    scan inet 203.0.113.201 198.51.100.10 \
        -sS 21,22,23,25,53,80,110,111,135,137-139,143,443,445,512-514,1080,1433,1434,2323,3128,3306,3389,4444,5060,5432,5555,5900,6379,7547,8080,8291,9200,11211,27017
    scan inet 203.0.113.140 198.51.100.98 -sS 1-60,80,8000
    scan inet 203.0.113.132 198.51.100.67 -sS 22,23,80,443,445,1723,3389,5900,6667,31337
    scan inet 203.0.113.202 198.51.100.10 -sU 7,19,53,69,111,123,137,161,389,500,520,1434,1900,5353,11211
    scan inet 203.0.113.140 198.51.100.25 -sS 80,111,445,1080,3306,5555,6379,9200,10250
    scan inet 203.0.113.140 198.51.100.98 -sU 53,69,111,137,161,389,1434,2049,3702
    scan inet 203.0.113.205 198.51.100.53 -sF 22,53,80,443
    scan inet 203.0.113.205 198.51.100.53 -sX 22,53,80,443
    scan inet 203.0.113.205 198.51.100.53 -sN 22,53,80,443
    scan inet 203.0.113.205 198.51.100.53 -sA 22,53,80,443
    scan inet 203.0.113.205 198.51.100.10 -sS 80,443 -f # tiny fragments
    scan inet 203.0.113.205 198.51.100.10 -sS 80,443 -g 53
    scan inet 203.0.113.205 10.20.99.1 -sS 22,23,80,179,443,830
    scan inet 203.0.113.205 192.0.2.2 -sS 22,23,80,179,443,830,8728
    from inet nmap -6 -n -Pn --max-retries 0 -T4 -S 2001:db8:ffff:bad::1 -e eth0 -sS -p 22,23,80,443,445,3389 2001:db8:20:20::10
    from inet nmap -6 -n -Pn --max-retries 0 -T4 -S 2001:db8:ffff:c::140 -e eth0 -sS -p 21,22,23,25,80,139,445,3389,5900,8000 2001:db8:20:60::10
    web inet 203.0.113.140 telnet://198.51.100.10 ftp://198.51.100.10/x smb://u:p@198.51.100.66/x/y ldap://198.51.100.25/
    web inet 203.0.113.131 telnet://198.51.100.130 mqtt://198.51.100.130/t rtsp://198.51.100.130/
    # From inside out.
    web staff 10.20.10.13 telnet://203.0.113.80 smb://u:p@203.0.113.80/x/y http://203.0.113.80:6667/
    web guest 10.20.40.50 http://10.20.99.5/index.html http://10.20.0.1/ https://10.20.50.10:8443/200 http://198.51.100.10/200
    web acme 10.20.50.11 http://10.20.60.10:8000/200 http://10.20.99.5/200 telnet://203.0.113.131
    web birch 10.20.60.10 http://10.20.50.10/200 http://198.51.100.66/200 ftp://203.0.113.80/x
    web voice 10.20.30.22 http://203.0.113.80/200
    # Forged sources: some answer, some only ever speak.
    for a in 10.99.1.1 172.16.5.5 192.168.1.10 100.64.3.3 169.254.7.7 198.18.0.9; do
        hello inet -c 2 -I "$a" 198.51.100.10
        web inet "$a" http://198.51.100.10/200
    done
    for a in fd00:bad::9 3ffe::9; do
        hello inet -c 2 -I "$a" 2001:db8:20:20::10
        web inet "$a" 'http://[2001:db8:20:20::10]/200'
    done
    for a in 127.0.0.1 0.0.0.7 240.1.2.3 255.255.255.255 224.0.0.9 198.51.100.10 10.20.10.5; do
        for p in 80 443 3389; do from isp ./net tcp "$a" 198.51.100.10 4444 "$p" 0x02; done
    done
    for a in ::1 fe80::bad 2001:db8:20:10::66 ff02::1 ::ffff:10.0.0.1 2002:a00:1::1; do
        from isp ./net tcp "$a" 2001:db8:20:20::10 4444 22 0x02
    done
    for p in 0x00 0x03 0x06 0x29 0xff; do from isp ./net tcp 192.0.2.200 198.51.100.25 4444 25 "$p"; done
    from isp ./net tcp 192.0.2.200 198.51.100.25 0 80 0x02
    from isp ./net tcp 192.0.2.200 198.51.100.25 4444 0 0x02
    for a in 198.51.100.255 198.51.100.63; do hello inet -c 2 -b -I 203.0.113.205 "$a"; done
}

say "clients at work"
ip -n guest addr add 10.20.40.50/24 dev eth0
ip -n guest link set eth0 up
ip -n guest route replace default via 10.20.40.1
ip -n guest route replace 224.0.0.0/4 dev eth0
if [[ -x /usr/lib/usrsctp/daytime_server ]]; then
    on cedar timeout 120 /usr/lib/usrsctp/daytime_server
else
    say "no SCTP sessions, only INIT probes: libusrsctp-examples is not installed"
fi
group=()
for work in names_and_time web_and_mail shells icmp voice_and_vpn housekeeping unwanted; do
    "$work" & group+=($!)
done
for pid in "${group[@]}"; do wait "$pid"; done
say "clients done"

# ---- tidy up and report ------------------------------------------------------

sleep 1
kill -INT "$dumpcap"
wait "$dumpcap" || true
grep -i dropped log || true
./net tidy raw.pcapng edge.pcapng
cp edge.pcapng "$out"
if command -v tshark >/dev/null; then
    tshark -n -r edge.pcapng -q -z io,phs 2>/dev/null
    capinfos -M -c -s -u edge.pcapng 2>/dev/null | sed 1d || true
else
    say "$(stat -c %s edge.pcapng) octets written; install tshark for a table of what is in them"
fi
[[ -z $log ]] || cp log "$log"
say "done"
