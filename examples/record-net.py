#!/usr/bin/env python3
"""Small network programs that record.sh runs inside its namespaces.

  switch TRUNK PORT=VID[.VID][@PCP]...   tag and untag frames between ports and a trunk
  serve  ADDRESS:PORT...                 answer every UDP datagram (NTP on 123, else an echo)
  smtp   PORT...                         a mail server that accepts everything
  udp    SRC DST DPORT COUNT SIZE [key=value]...
  raw4   SRC DST PROTO HEX               one IPv4 packet; a known checksum is filled in
  raw6   SRC DST NEXT HEX                one IPv6 packet as given
  tcp    SRC DST SPORT DPORT FLAGS       one TCP segment, IPv4 or IPv6
  join   GROUP IFNAME                    join a multicast group for a second
  tidy   IN OUT                          sort a pcapng by time, drop what names the machine

Only the standard library is used. The switch stands in for VLAN devices, so
that the recording needs no 8021q module.
"""
import ipaddress
import selectors
import socket
import socketserver
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6


def port(name):
    """Returns a socket that receives every frame of an interface, tags included."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    s.bind((name, ETH_P_ALL))
    s.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    s.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return s


def receive(s):
    """Returns one frame, with the outer tag that the kernel took off."""
    frame, ancillary, _, _ = s.recvmsg(65536, 256)
    for level, kind, data in ancillary:
        if level == SOL_PACKET and kind == PACKET_AUXDATA:
            status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
            if status & TP_STATUS_VLAN_VALID:
                if not status & TP_STATUS_VLAN_TPID_VALID:
                    tpid = 0x8100
                frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def switch(trunk, *ports):
    up = port(trunk)
    by_tags, sockets = {}, selectors.DefaultSelector()
    for spec in ports:
        name, _, tags = spec.partition("=")
        tags, _, pcp = tags.partition("@")
        vids = [int(v) for v in tags.split(".")]
        tpids = [0x8100] if len(vids) == 1 else [0x88A8, 0x8100]
        tci = [(int(pcp or 0) << 13) | v for v in vids]
        tag = b"".join(struct.pack("!HH", *t) for t in zip(tpids, tci))
        s = port(name)
        by_tags[tuple(vids)] = s
        sockets.register(s, selectors.EVENT_READ, tag)
    sockets.register(up, selectors.EVENT_READ, None)
    while True:
        for key, _ in sockets.select():
            try:
                frame = receive(key.fileobj)
                if key.data is not None:
                    up.send(frame[:12] + key.data + frame[12:])
                    continue
                vids, at = [], 12
                while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
                    vids.append(struct.unpack_from("!H", frame, at + 2)[0] & 0xFFF)
                    at += 4
                if tuple(vids) in by_tags:
                    by_tags[tuple(vids)].send(frame[:12] + frame[at:])
            except OSError as e:  # a link that is still down, or has gone down
                print(e, file=sys.stderr)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def serve(*where):
    sockets = selectors.DefaultSelector()
    for w in where:
        address, _, number = w.rpartition(":")
        s = socket.socket(family(address), socket.SOCK_DGRAM)
        s.bind((address, int(number)))
        sockets.register(s, selectors.EVENT_READ, int(number))
    while True:
        for key, _ in sockets.select():
            try:
                data, peer = key.fileobj.recvfrom(65536)
                if key.data == 123 and len(data) >= 48:
                    now = int(time.time()) + 2208988800
                    stamp = struct.pack("!II", now, 0)
                    data = (struct.pack("!BBbbII4s", 0x24, 2, data[2], -20, 0, 0, b"GPS\0")
                            + stamp + data[40:48] + stamp + stamp)
                if key.data != 514:  # syslog is never answered
                    key.fileobj.sendto(data, peer)
            except OSError as e:
                print(e, file=sys.stderr)


class Mail(socketserver.StreamRequestHandler):
    timeout = 5

    def say(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        self.say("220 mail.example ESMTP")
        for line in self.rfile:
            verb = line[:4].upper()
            if verb == b"EHLO":
                self.say("250-mail.example")
                self.say("250 SIZE 65536")
            elif verb == b"DATA":
                self.say("354 go ahead")
                for text in self.rfile:
                    if text == b".\r\n":
                        break
                self.say("250 queued")
            elif verb == b"QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")


def smtp(*ports):
    class Server(socketserver.ThreadingTCPServer):
        address_family = socket.AF_INET6
        allow_reuse_address = True
        daemon_threads = True
    import threading
    for p in ports:
        server = Server(("::", int(p)), Mail)
        threading.Thread(target=server.serve_forever).start()


def udp(src, dst, dport, count, size, *options):
    """Sends datagrams from src and waits gap seconds for an answer after each."""
    o = dict(x.split("=", 1) for x in options)
    s = socket.socket(family(dst), socket.SOCK_DGRAM)
    s.bind((src, int(o.get("sport", 0))))
    # Extension headers, each one block of eight bytes: a PadN option fills it.
    block = struct.pack("!BBBB4x", 0, 0, 1, 4)
    if "hop" in o:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, block)
    if "dst" in o:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, block)
    if "tos" in o:
        level, name = ((socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if ":" in dst
                       else (socket.IPPROTO_IP, socket.IP_TOS))
        s.setsockopt(level, name, int(o["tos"]))
    s.settimeout(float(o.get("gap", 0.02)))
    for i in range(int(count)):
        payload = o["text"].encode() if "text" in o else bytes((i + j) & 0xFF for j in range(int(size)))
        if o.get("as") == "ntp":
            payload = struct.pack("!B39xII", 0x23, int(time.time()) + 2208988800, 0)
        elif o.get("as") == "rtp":
            payload = struct.pack("!BBHII", 0x80, 0, i, 160 * i, 0x5EED) + payload
        try:
            s.sendto(payload, (dst, int(dport)))
            s.recvfrom(65536)
        except OSError:
            pass


def send4(src, dst, proto, payload):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, proto, 0,
                       socket.inet_aton(src), socket.inet_aton(dst))
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.sendto(head + payload, (dst, 0))


def send6(src, dst, following, payload):
    packed = [ipaddress.ip_address(a).packed for a in (src, dst)]
    head = struct.pack("!IHBB", 6 << 28, len(payload), following, 64) + b"".join(packed)
    s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.sendto(head + payload, (dst, 0))


def ones(data):
    """Returns the Internet checksum of data."""
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def raw4(src, dst, proto, text):
    data, at = bytes.fromhex(text), {"1": 2, "89": 12, "112": 6}.get(proto)
    if at is not None:  # a protocol whose checksum we know how to fill in
        data = data[:at] + ones(data) + data[at + 2:]
    send4(src, dst, int(proto), data)


def raw6(src, dst, following, text):
    send6(src, dst, int(following), bytes.fromhex(text))


def tcp(src, dst, sport, dport, flags):
    segment = struct.pack("!HHIIBBHHH", int(sport), int(dport), 1000, 0, 0x50, int(flags, 0), 1024, 0, 0)
    packed = b"".join(ipaddress.ip_address(a).packed for a in (src, dst))
    check = ones(packed + struct.pack("!HH", 6, len(segment)) + segment)
    segment = segment[:16] + check + segment[18:]
    (send6 if ":" in dst else send4)(src, dst, 6, segment)


def join(group, ifname):
    index = socket.if_nametoindex(ifname)
    s = socket.socket(family(group), socket.SOCK_DGRAM)
    packed = ipaddress.ip_address(group).packed
    if ":" in group:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, packed + struct.pack("@I", index))
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, packed + struct.pack("=4si", b"", index))
    time.sleep(1)


def tidy(source, target):
    """Sorts packets by time and drops all options but the names and clocks of the interfaces."""
    data = open(source, "rb").read()
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    at, packets, interfaces, resolution = 0, [], [], []
    while at < len(data):
        kind, length = struct.unpack_from(order + "II", data, at)
        body = data[at + 8:at + length - 4]
        if kind == 1:  # interface description
            options, o = b"", 8
            while o + 4 <= len(body):
                code, size = struct.unpack_from(order + "HH", body, o)
                padded = (size + 3) & ~3
                if code in (2, 9):  # if_name, if_tsresol
                    options += body[o:o + 4 + padded]
                o += 4 + padded
                if code == 0:
                    break
            interfaces.append(body[:8] + options + bytes(4))
        elif kind == 6:  # enhanced packet: its own options go too
            high, low, caplen = struct.unpack_from(order + "4xIII", body)
            packets.append((high << 32 | low, body[:20 + ((caplen + 3) & ~3)]))
        at += length
    packets.sort(key=lambda p: p[0])
    def block(kind, body):
        length = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + length + body + length
    with open(target, "wb") as out:
        out.write(block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for body in interfaces:
            out.write(block(1, body))
        for _, body in packets:
            out.write(block(6, body))


if __name__ == "__main__":
    commands = {f.__name__: f for f in (switch, serve, smtp, udp, raw4, raw6, tcp, join, tidy)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
