//! Every fault and warning of the two formats: message, line, column and width.

use firstmatch_core::Diagnostic;
use firstmatch_formats::Options;

use crate::names::NAMES;

/// Returns each fault as `line:column+width message`, or each warning, after that word.
pub(crate) fn diagnose(text: &str) -> Vec<String> {
    let show = |kind: &'static str| {
        move |d: &Diagnostic| {
            let expected = d.expected.as_ref().map_or(String::new(), |e| format!("; expected {e}"));
            format!("{kind}{}:{}+{} {}{expected}", d.line, d.column, d.width, d.message)
        }
    };
    match firstmatch_formats::parse(text, &Options::default()) {
        Ok(file) => file.warnings.iter().map(show("warning ")).collect(),
        Err(error) => error.faults().iter().map(show("")).collect(),
    }
}

#[test]
fn each_fault_is_shown_where_it_stands_and_hides_no_other() {
    let all = NATIVE.iter().chain(NAMES).chain(CLASSBENCH);
    let wrong: Vec<_> = all.clone().map(|(text, expected)| (text, diagnose(text), expected)).collect();
    let wrong: Vec<_> = wrong.into_iter().filter(|(_, is, expected)| is != *expected).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for &(text, expected) in all {
        // The line ends of other systems, and no line end at all, change nothing.
        assert_eq!(diagnose(text.trim_end()), expected, "{text}");
        assert_eq!(diagnose(&text.replace('\n', "\r\n")), expected, "{text}");
        assert_eq!(diagnose(&format!("\u{feff}{text}")), expected, "{text}");
    }
}

/// Texts of the native format, each with its faults or warnings.
#[rustfmt::skip]
pub(crate) const NATIVE: &[(&str, &[&str])] = &[
    // Behind a faulty item, the next line of a list is read again; in a list within it, the lines up to its end are
    // not.
    ("set a = {\n  80 é\n  x99999\n}\n",
     &["2:6+1 the character `é` has no place here", "3:3+6 unknown name `x99999`"]),
    ("set a = { 80 é\n  x99999 {\n 9, é\n }, é\n}\n",
     &[
        "1:14+1 the character `é` has no place here",
        "2:3+6 unknown name `x99999`",
        "2:10+1 `{` after an item; expected `,` or `}`",
        "4:5+1 the character `é` has no place here",
     ]),
    ("permot src any\n",
     &["1:1+6 a line cannot start with `permot`; did you mean `permit`?"]),
    ("accept tcp\n",
     &["1:1+6 a line cannot start with `accept`; did you mean `permit`?"]),
    ("{ 80 }\n",
     &["1:1+1 a line cannot start with `{`; expected a rule (permit, deny, mark, match or audit), set or a directive"]),
    ("é\n",
     &["1:1+1 a line cannot start with the character `é`; expected a rule (permit, deny, mark, match or audit), set or a directive"]),
    // The text behind a fault on its line is read as well.
    ("permit tcp ; dport 99999 sport 80\u{e9}7 src 10.0.0.1/8\n",
     &[
        "1:12+1 the character `;` has no place here",
        "1:20+5 99999 is too large for dport; expected a number up to 65535",
        "1:34+1 the character `é` has no place here",
        "1:41+10 `10.0.0.1` has bits outside its prefix; expected `10.0.0.0/8`",
     ]),
    ("; permit dport 99999\npermot dport 99999\nmark é dport 99999\npermit dport é\npermit dport é 99999\n",
     &[
        "1:1+1 a line cannot start with the character `;`; expected a rule (permit, deny, mark, match or audit), set or a directive",
        "1:16+5 99999 is too large for dport; expected a number up to 65535",
        "2:1+6 a line cannot start with `permot`; did you mean `permit`?",
        "2:14+5 99999 is too large for dport; expected a number up to 65535",
        "3:6+1 the character `é` after mark; expected a number",
        "3:14+5 99999 is too large for dport; expected a number up to 65535",
        "4:14+1 the character `é` has no place here",
        "5:14+1 the character `é` has no place here",
        "5:16+5 99999 is too large for dport; expected a number up to 65535",
     ]),
    ("permit tpc dport 99999\npermit src dst 10.0.0.1/8\n",
     &[
        "1:8+3 unknown field or protocol `tpc`; did you mean `tcp`?",
        "1:18+5 99999 is too large for dport; expected a number up to 65535",
        "2:12+3 `dst` after src; expected an address, a prefix or a range of addresses",
        "2:16+10 `10.0.0.1` has bits outside its prefix; expected `10.0.0.0/8`",
     ]),
    ("permit dport { 80, 99999 sport 99999 # two\npermit dport { 80, sport 99999\npermit dport { 80 tcp sport 99999\n",
     &[
        "1:14+1 this `{` is never closed; expected `}` after the last item",
        "1:20+5 99999 is too large for dport; expected a number up to 65535",
        "1:32+5 99999 is too large for sport; expected a number up to 65535",
        "2:14+1 this `{` is never closed; expected `}` after the last item",
        "2:26+5 99999 is too large for sport; expected a number up to 65535",
        "3:14+1 this `{` is never closed; expected `}` after the last item",
        "3:29+5 99999 is too large for sport; expected a number up to 65535",
     ]),
    // A carriage return that ends no line, as in files of old Macs, hides nothing either.
    ("permit tcp\rdport 99999\n",
     &[
        "1:11+1 the character U+000D, a carriage return that does not end the line, has no place here",
        "1:18+5 99999 is too large for dport; expected a number up to 65535",
     ]),
    ("# all rules\rdeny dport 99999\rset a = { 1 }\n",
     &[
        "1:12+1 a line cannot start with the character U+000D, a carriage return that does not end the line; expected a rule (permit, deny, mark, match or audit), set or a directive",
        "1:24+5 99999 is too large for dport; expected a number up to 65535",
        "1:29+1 the character U+000D, a carriage return that does not end the line, has no place here",
        "1:30+3 unknown field or protocol `set`",
     ]),
    ("permit family\n",
     &["1:14+0 nothing after family; expected ipv4 or ipv6"]),
    ("permit family inet\n",
     &["1:15+4 `inet` after family; expected ipv4 or ipv6"]),
    ("permit family ip6 tcp\n",
     &["1:15+3 `ip6` after family; did you mean `ipv6`?"]),
    ("permit family ipv4 tcp family ipv4\n",
     &["1:24+11 the rule is already for the family ipv4"]),
    ("family ipv4\npermit family ipv6 tcp\npermit dport family ipv6 7\n",
     &[
        "2:15+4 the family ipv6 in a file of family ipv4; expected ipv4, or the directive `family inet`",
        "3:21+4 the family ipv6 in a file of family ipv4; expected ipv4, or the directive `family inet`",
     ]),
    ("schema openflow\npermit family ipv4 tcp\npermit tp_dst family ipv4 7\n",
     &[
        "2:8+6 family has no place beside the schema of line 1",
        "3:15+6 family has no place beside the schema of line 1",
     ]),
    ("permit dport family\n",
     &["1:20+0 nothing after family; expected ipv4 or ipv6"]),
    ("permit dport family ipv4\n",
     &["1:25+0 nothing where a value should be; expected a value, a name or `$` and the name of a set"]),
    ("permit dport { family ipv4 7, family ipv4 }\n",
     &["1:43+1 `}` where a value should be; expected a value, a name or `$` and the name of a set"]),
    ("permit src { 10.0.0.0/8, family ipv4 ::1 }\n",
     &["1:26+15 an IPv6 address for the family ipv4; expected an IPv4 address"]),
    ("permit icmp_type family ipv4 packet-too-big\n",
     &["1:18+26 `packet-too-big` does not exist in IPv4; expected the name of an ICMP type or a number up to 255"]),
    ("permit dport family ipv4 99999\n",
     &["1:14+17 99999 is too large for dport; expected a number up to 65535"]),
    ("permit dport family ipv4 any\n",
     &["1:26+3 unknown name `any`; expected the name of a service or a number up to 65535"]),
    ("set a = { 7, family ipv4 8 }\npermit dport $a\n",
     &["1:14+6 `family` has no place in a set"]),
    ("match 7\n",
     &["1:7+1 the value `7` follows no field; expected a field before it"]),
    ("permit family ipv6 src 10.0.0.0/8\n",
     &["warning 1:8+26 this rule can never match: `src 10.0.0.0/8` (column 20) asks for IPv4, `family ipv6` (column 8) asks for IPv6"]),
    ("permit srcc 10.0.0.0/8\n",
     &["1:8+4 unknown field or protocol `srcc`; did you mean `src`?"]),
    ("permit tpc\n",
     &["1:8+3 unknown field or protocol `tpc`; did you mean `tcp`?"]),
    ("permit saddr 10.0.0.0/8\n",
     &["1:8+5 unknown field or protocol `saddr`; did you mean `src`?"]),
    ("permit src 80\n",
     &["1:12+2 src takes no number (80); expected an address, a prefix or a range of addresses"]),
    ("permit src tcp\n",
     &["1:12+3 src takes no protocol; expected an address, a prefix or a range of addresses"]),
    ("permit src\n",
     &["1:11+0 nothing after src; expected an address, a prefix or a range of addresses"]),
    ("permit src # nothing\n",
     &["1:12+0 nothing after src; expected an address, a prefix or a range of addresses"]),
    ("permit dport 65536\n",
     &["1:14+5 65536 is too large for dport; expected a number up to 65535"]),
    ("permit dport 10.0.0.1\n",
     &["1:14+8 dport takes no IPv4 address; expected the name of a service or a number up to 65535"]),
    ("permit dport 80, 443\n",
     &["1:14+7 several values; expected `{ 80, 443 }`"]),
    ("permit dport { 80 443 }\n",
     &["1:19+3 `443` after an item; expected `,` or `}`"]),
    // The rest up to the next comma is part of that fault.
    ("permit dport { 80 443 90, 99999 }\n",
     &["1:19+3 `443` after an item; expected `,` or `}`", "1:27+5 99999 is too large for dport; expected a number up to 65535"]),
    // The first bit behind a prefix is outside it.
    ("permit src 10.128.0.0/8\npermit dst 2001:db8:8000::/32\n",
     &[
        "1:12+12 `10.128.0.0` has bits outside its prefix; expected `10.0.0.0/8`",
        "2:12+18 `2001:db8:8000::` has bits outside its prefix; expected `2001:db8::/32`",
     ]),
    ("permit dport { 80, 443\n",
     &["1:14+1 this `{` is never closed; expected `}` after the last item"]),
    ("permit dport { }\n",
     &["1:14+3 an empty list holds no value; expected a value"]),
    ("permit dport { 80, , 443 }\n",
     &["1:20+1 `,` where a value should be; expected a value, a name or `$` and the name of a set"]),
    ("permit dport { 80, { 443 } } tcp\n",
     &["1:20+1 `{` where a value should be; expected a value, a name or `$` and the name of a set"]),
    ("permit dport 90-80\n",
     &["1:14+5 the range is reversed: `90` is above `80`; expected `80-90`"]),
    ("permit dport 80-\n",
     &["1:17+0 a range without its end; expected the largest value"]),
    ("permit dport 80:90\n",
     &["1:14+5 `80:90` is no IPv6 address; expected a range such as `80-90`"]),
    ("permit dport 80-10.0.0.1\n",
     &["1:14+11 a range from a number to an IPv4 address; expected two values of one kind"]),
    ("permit dport 080\n",
     &["1:14+3 the number `080` starts with 0; expected a decimal number, or a hexadecimal one after 0x"]),
    ("permit dport 0x\n",
     &["1:14+2 `0x` is neither a number nor an address; expected the name of a service or a number up to 65535"]),
    ("permit dport 99999999999999999999\n",
     &["1:14+20 the number `99999999999999999999` is too large; expected the name of a service or a number up to 65535"]),
    ("permit dport 0x10/0x01\n",
     &["1:14+9 `0x10` has bits outside its mask; expected `0x10/0x11` for a mask with every bit of the value"]),
    ("permit family inet4 tcp\n",
     &["1:15+5 `inet4` after family; did you mean `ipv4`?"]),
    ("permit dport -80\n",
     &["1:14+1 `-` after dport; expected the name of a service or a number up to 65535"]),
    ("permit src 10.0.0.1/8 dst 10.0.0.7/255.0.0.0\n",
     &[
        "1:12+10 `10.0.0.1` has bits outside its prefix; expected `10.0.0.0/8`",
        "1:27+18 `10.0.0.7` has bits outside its mask; expected `10.0.0.0/255.0.0.0`",
    ]),
    ("permit src 10.0.0.0/33 dst ::/129\n",
     &[
        "1:21+2 a prefix length of 33 for an IPv4 address; expected 0 to 32",
        "1:31+3 a prefix length of 129 for an IPv6 address; expected 0 to 128",
    ]),
    ("permit src 10.0.0/8\n",
     &["1:12+6 `10.0.0` is no IPv4 address; expected four numbers from 0 to 255 with dots between, without leading zeros"]),
    ("permit src 10.0.0.0/\n",
     &["1:21+0 nothing after the `/`; expected a prefix length or a mask"]),
    ("permit src 2001:db8::1/32\n",
     &["1:12+14 `2001:db8::1` has bits outside its prefix; expected `2001:db8::/32`"]),
    ("permit src fe80:::1\n",
     &["1:12+8 `fe80:::1` is no IPv6 address; expected an address, a prefix or a range of addresses"]),
    ("permit src 10.0.0.9-10.0.0.5\n",
     &["1:12+17 the range is reversed: `10.0.0.9` is above `10.0.0.5`; expected `10.0.0.5-10.0.0.9`"]),
    ("permit src 10.0.0.9-::1\n",
     &["1:12+12 a range from an IPv4 address to an IPv6 address; expected two values of one kind"]),
    ("permit src 10.0.0.0/::\n",
     &["1:12+11 an IPv4 address under the mask of an IPv6 address; expected an address, a prefix or a range of addresses"]),
    ("permit src any src 10.0.0.0/8 # twice\n",
     &["1:16+14 there is already a condition on src, in column 8; expected one condition a field: a list takes several values"]),
    ("permit tcp proto udp\n",
     &["1:12+9 there is already a condition on proto, in column 8; expected one condition a field: a list takes several values"]),
    ("permit not tcp\n",
     &["1:8+3 `not` has no place here; expected it after the field: `proto not tcp`, `src not 10.0.0.0/8`"]),
    ("permit src not not 10.0.0.0/8\n",
     &["1:16+3 `not` after src; expected an address, a prefix or a range of addresses"]),
    ("permit 10.0.0.0/8\n",
     &["1:8+8 the value `10.0.0.0` follows no field; expected a field before it"]),
    ("permit src = 10.0.0.0/8\n",
     &["1:12+1 `=` after src; expected nothing in its place, because the value follows the field"]),
    ("permit src 10.0.0.0/8; dst any\n",
     &["1:22+1 the character `;` has no place here"]),
    ("mark\n",
     &["1:5+0 nothing after mark; expected a number"]),
    ("mark x tcp\n",
     &["1:6+1 `x` is neither a number nor an address; expected a number up to 4294967295"]),
    ("mark 4294967296\n",
     &["1:6+10 the number `4294967296` is too large; expected a number up to 4294967295"]),
    ("permit dport $web\n",
     &["1:14+4 there is no set `web`"]),
    (concat!(
        "set a = { 1 }\n",
        "permit dport $aa\n",
        "permit dport $aa\n",
    ),
     &["2:14+3 there is no set `aa`; did you mean `a`?"]),
    (concat!(
        "permit dport $web\n",
        "set web = { 80 }\n",
        "permit dport $web\n",
    ),
     &["1:14+4 `$web` is used before its definition on line 2; expected the definition of a set before its use"]),
    (concat!(
        "set web = { 80 }\n",
        "set web = { 443 }\n",
        "permit dport $web\n",
    ),
     &["2:5+3 the set `web` is already defined on line 1"]),
    (concat!(
        "set a = { $a }\n",
        "permit dport $a\n",
    ),
     &["1:11+2 the set `a` contains itself"]),
    (concat!(
        "set a = { $b }\n",
        "set b = { $a }\n",
        "permit dport $a\n",
    ),
     &["1:11+2 `$b` is used before its definition on line 2; expected the definition of a set before its use"]),
    (concat!(
        "set a = { 10.0.0.0/8, 80 }\n",
        "permit src $a\n",
        "permit dport $a\n",
    ),
     &[
        "2:12+2 `$a` (line 1): src takes no number (80); expected an address, a prefix or a range of addresses",
        "3:14+2 `$a` (line 1): dport takes no IPv4 address; expected the name of a service or a number up to 65535",
    ]),
    (concat!(
        "set a = {\n",
        "  80,\n",
        "  70000 # too large for a port\n",
        "}\n",
        "permit dport $a\n",
    ),
     &["5:14+2 `$a` (line 1): 70000 is too large for dport; expected a number up to 65535"]),
    (concat!(
        "set a { 80 }\n",
        "permit dport $a\n",
    ),
     &["1:7+1 `{` where `=` should be; expected `set NAME = { … }`"]),
    (concat!(
        "set a = 80\n",
        "permit dport $a\n",
    ),
     &["1:9+2 `80` where `{` should be; expected `set NAME = { … }`"]),
    (concat!(
        "set a =\n",
        "{ 80,\n",
        "  81 }\n",
        "permit dport $a\n",
    ),
     &["1:8+0 no list after `=`; expected `{` on this line"]),
    (concat!(
        "set a =\n",
        "permit dport $a\n",
    ),
     &["1:8+0 no list after `=`; expected `{` on this line"]),
    (concat!(
        "set $a = { 80 }\n",
        "permit dport $a\n",
    ),
     &["1:5+2 `$` stands only where a set is used; expected `set a = …`"]),
    (concat!(
        "set 1a = { 80 }\n",
        "permit tcp\n",
    ),
     &["1:5+2 `1a` where a set's name should be; expected a name: a letter, then letters, digits, `_` or `-`"]),
    (concat!(
        "set = { 80 }\n",
        "permit tcp\n",
    ),
     &["1:5+1 `=` where a set's name should be; expected a name: a letter, then letters, digits, `_` or `-`"]),
    (concat!(
        "set a = { 80,\n",
        "  443\n",
        "permit dport $a\n",
        "deny bogus\n",
    ),
     &[
        "1:9+1 this `{` is never closed; expected `}` after the last item",
        "4:6+5 unknown field or protocol `bogus`",
    ]),
    (concat!(
        "set a = { 80 443,\n",
        "  ;\n",
        "  99, 10.0.0.1/8, tpc }\n",
        "permit dport $a\n",
    ),
     &[
        "1:14+3 `443` after an item; expected `,` or `}`",
        "2:3+1 the character `;` has no place here",
        "3:7+10 `10.0.0.1` has bits outside its prefix; expected `10.0.0.0/8`",
        "3:19+3 unknown name `tpc`; did you mean `tcp`?",
    ]),
    ("set a = { 80\n",
     &["1:9+1 this `{` is never closed; expected `}` after the last item"]),
    ("set a = { 80 } x\n",
     &["1:16+1 `x` has no place here; expected the end of the line"]),
    ("set a = { $ }\n",
     &["1:11+1 a `$` without a name; expected the name of a set after it"]),
    // The first line counts, however many follow.
    ("default permit\ndefault deny\ndefault deny\n",
     &["2:1+7 default is already given on line 1", "3:1+7 default is already given on line 1"]),
    // Columns inside messages count characters, too.
    ("permit é dport 1 dport 2\n",
     &[
        "1:8+1 the character `é` has no place here",
        "1:18+7 there is already a condition on dport, in column 10; expected one condition a field: a list takes several values",
     ]),
    (concat!(
        "family ipv4\n",
        "family ipv6\n",
        "permit src ::1\n",
    ),
     &[
        "2:1+6 family is already given on line 1",
        "3:12+3 an IPv6 address in a file of family ipv4; expected an IPv4 address, or the directive `family inet`",
    ]),
    (concat!(
        "permit tcp\n",
        "family ipv4\n",
        "permit src ::1\n",
    ),
     &["2:1+6 family comes after a set or a rule; it must come before the first of them"]),
    ("family inet4\n",
     &["1:8+5 `inet4` after family; did you mean `ipv4`?"]),
    ("family\n",
     &["1:7+0 nothing after family; expected inet or ipv4 or ipv6"]),
    ("default drop\n",
     &["1:9+4 `drop` after default; did you mean `deny`?"]),
    ("default permit deny\n",
     &["1:16+4 `deny` has no place here; expected the end of the line"]),
    ("fragments maybe\n",
     &["1:11+5 `maybe` after fragments; expected unknown or layer3"]),
    (concat!(
        "family ipv4\n",
        "permit icmp_type packet-too-big\n",
        "permit icmp_type echo-request\n",
    ),
     &["2:18+14 `packet-too-big` does not exist in IPv4; expected the name of an ICMP type or a number up to 255"]),
    ("permit icmp_type echo\n",
     &["1:18+4 unknown name `echo`; did you mean `echo-request`?"]),
    ("permit proto echo-request\n",
     &["1:14+12 proto takes no ICMP type; expected a protocol's name or a number up to 255"]),
    ("permit icmp_type tcp\n",
     &["1:18+3 icmp_type takes no protocol; expected the name of an ICMP type or a number up to 255"]),
    ("permit ext_headers tcp\n",
     &["1:20+3 ext_headers takes no protocol; expected the name of an extension header or a number up to 255"]),
    ("permit proto routing\n",
     &["1:14+7 proto takes no extension header; expected a protocol's name or a number up to 255"]),
    ("permit exthdr rt\n",
     &["1:8+6 unknown field or protocol `exthdr`; did you mean `ext_headers`?"]),
    ("permit ext_headers hbh\n",
     &["1:20+3 unknown name `hbh`; did you mean `hop-by-hop`?"]),
    ("permit routing_type 256\n",
     &["1:21+3 256 is too large for routing_type; expected a number up to 255"]),
    ("permit proto tcp-udp\n",
     &["1:14+7 unknown name `tcp-udp`; expected a protocol's name or a number up to 255"]),
    ("permit proto tcp - udp\n",
     &["1:14+3 a name before `-`; expected a number: ranges and masks take no names"]),
    ("permit dport { 70000, 80000, 7 } sport 90000\n",
     &["1:16+5 70000 is too large for dport; expected a number up to 65535",
       "1:23+5 80000 is too large for dport; expected a number up to 65535",
       "1:40+5 90000 is too large for sport; expected a number up to 65535"]),
    ("permit src { 300.1.1.1, 1.2.3 } dport 90000\n",
     &["1:14+9 `300.1.1.1` is no IPv4 address; expected four numbers from 0 to 255 with dots between, without leading zeros",
       "1:25+5 `1.2.3` is no IPv4 address; expected four numbers from 0 to 255 with dots between, without leading zeros",
       "1:39+5 90000 is too large for dport; expected a number up to 65535"]),
    ("permit src 300.1.1.1 dport 90000\n",
     &["1:12+9 `300.1.1.1` is no IPv4 address; expected four numbers from 0 to 255 with dots between, without leading zeros",
       "1:28+5 90000 is too large for dport; expected a number up to 65535"]),
    ("permit dport { 8x, 9y-10, 70000 }\n",
     &["1:16+2 `8x` is neither a number nor an address; expected the name of a service or a number up to 65535",
       "1:20+2 `9y` is neither a number nor an address; expected the name of a service or a number up to 65535",
       "1:27+5 70000 is too large for dport; expected a number up to 65535"]),
    ("permit dport 70000 sport 90000\n",
     &["1:14+5 70000 is too large for dport; expected a number up to 65535",
       "1:26+5 90000 is too large for sport; expected a number up to 65535"]),
    ("permit dport { 70000-80000, 90000 }\n",
     &["1:16+11 80000 is too large for dport; expected a number up to 65535",
       "1:29+5 90000 is too large for dport; expected a number up to 65535"]),
    ("permit src 10.0.0.0/8 dst 2001:db8::/32\n",
     &["warning 1:8+32 this rule can never match: `src 10.0.0.0/8` (column 8) asks for IPv4, `dst 2001:db8::/32` (column 23) asks for IPv6"]),
    (concat!(
        "permit dport not any\n",
        "permit proto not { 0-100, 50-255 }\n",
    ),
     &[
        "warning 1:1+20 this rule can never match: dport excludes every value",
        "warning 2:1+34 this rule can never match: proto excludes every value",
    ]),
    (concat!(
        "set unused = { 1 }\n",
        "permit icmp_type timestamp-request src ::1\n",
    ),
     &[
        "warning 1:5+6 the set `unused` is never used",
        "warning 2:8+35 this rule can never match: `icmp_type timestamp-request` (column 8) asks for IPv4, `src ::1` (column 36) asks for IPv6",
    ]),
    (concat!(
        "permit\ttcp\t dport\t99999\n",
        "permit é dport 1\n",
    ),
     &[
        "1:19+5 99999 is too large for dport; expected a number up to 65535",
        "2:8+1 the character `é` has no place here",
    ]),
    (concat!(
        "set a = { 80\n",
        "permit tpc\n",
        "permit dport { 1, 2\n",
        "deny dport 99999\n",
    ),
     &[
        "1:9+1 this `{` is never closed; expected `}` after the last item",
        "2:8+3 unknown field or protocol `tpc`; did you mean `tcp`?",
        "3:14+1 this `{` is never closed; expected `}` after the last item",
        "4:12+5 99999 is too large for dport; expected a number up to 65535",
    ]),
    ("# nothing\n",
     &["warning 1:1+0 the file has no rules: every packet gets the default verdict, deny"]),
    (concat!(
        "permit a b\n",
        "permit tcp dport 99999 sport 70000 src 1\n",
    ),
     &[
        "1:8+1 unknown field or protocol `a`",
        "2:18+5 99999 is too large for dport; expected a number up to 65535",
        "2:30+5 70000 is too large for sport; expected a number up to 65535",
        "2:40+1 src takes no number (1); expected an address, a prefix or a range of addresses",
    ]),
    ("permit src dst 10.0.0.0/8\n",
     &["1:12+3 `dst` after src; expected an address, a prefix or a range of addresses"]),
    ("permit dport { htps, any-port } sport shh\n",
     &[
        "1:16+4 unknown name `htps`; did you mean `https`?",
        "1:22+8 unknown name `any-port`; expected the name of a service or a number up to 65535",
        "1:39+3 unknown name `shh`; did you mean `ssh`?",
     ]),
    ("set\n",
     &["1:4+0 nothing where a set's name should be; expected a name: a letter, then letters, digits, `_` or `-`"]),
];

/// Texts of ClassBench, each with its faults or warnings.
#[rustfmt::skip]
pub(crate) const CLASSBENCH: &[(&str, &[&str])] = &[
    ("@10.0.0.0/33\t192.0.2.0\t9 : 7\t80 : 99999\t6/0xFF\t0x0000\n@1.2.3.0/24 0.0.0.0/0 x:65536 0:65535 0x06/0xFF 7 8\n",
     &[
        "1:11+2 `33` is no prefix length; expected 0 to 32",
        "1:14+9 the destination prefix `192.0.2.0` has no length; expected an address, `/` and the prefix length",
        "1:24+5 the source ports are reversed: 9 is above 7; expected `7 : 9`",
        "1:35+5 `99999` is no port; expected two ports from 0 to 65535: `lo : hi`",
        "1:41+6 the protocol `6/0xFF` is no good; expected a value and a mask up to 0xFF: `0x06/0xFF`",
        "1:48+6 the flags `0x0000` is no good; expected a value and a mask up to 0xFFFF: `0x06/0xFF`",
        "2:23+1 `x` is no port; expected two ports from 0 to 65535: `lo : hi`",
        "2:25+5 `65536` is no port; expected two ports from 0 to 65535: `lo : hi`",
        "2:49+1 the flags `7` is no good; expected a value and a mask up to 0xFFFF: `0x06/0xFF`",
        "2:51+1 unexpected `8`; expected the end of the line",
     ]),
    ("@10.0.0.0/8 0.0.0.0/0 0:65535\r0:65535 0x00/0x00\n# two\r@10.0.0.0/8\n",
     &[
        "1:30+1 the character U+000D, a carriage return that does not end the line, has no place here",
        "2:6+1 the character U+000D, a carriage return that does not end the line, has no place here",
     ]),
    (concat!(
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\n",
        "@10.0.0.0\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\n",
        "@10.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\n",
        "@10.0.0.0/33\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\n",
        "@::/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\n",
        "@10.0.0.0/8\n",
        "@10.0.0.0/8\t192.0.2.0/24\t80\t80 : 80\t0x06/0xFF\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65536\t80 : 80\t0x06/0xFF\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 79\t0x06/0xFF\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t6/0xFF\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0x1FF\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t7\n",
        "10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\n",
        "@10.0.0.0/8\t192.0.2.0/24\ta : 65535\t80 : 80\t0x06/0xFF\n",
        "@10.0.0.0/8\t192.0.2.0/24\t : 65535\t80 : 80\t0x06/0xFF\n",
    ),
     &[
        "2:2+8 the source prefix `10.0.0.0` has no length; expected an address, `/` and the prefix length",
        "3:2+6 `10.0.0` is no address; expected an address, `/` and the prefix length",
        "4:11+2 `33` is no prefix length; expected 0 to 32",
        "5:2+4 an ipv6 address in a file whose first rule is ipv4; expected one family a file",
        "6:12+0 the line ends before the destination prefix",
        "7:29+0 the source ports have no end; expected `:` and the last port",
        "8:30+5 `65536` is no port; expected two ports from 0 to 65535: `lo : hi`",
        "9:36+7 the destination ports are reversed: 80 is above 79; expected `79 : 80`",
        "10:44+6 the protocol `6/0xFF` is no good; expected a value and a mask up to 0xFF: `0x06/0xFF`",
        "11:44+10 the protocol `0x06/0x1FF` is no good; expected a value and a mask up to 0xFF: `0x06/0xFF`",
        "12:54+6 the flags `0x0000` is no good; expected a value and a mask up to 0xFFFF: `0x06/0xFF`",
        "13:68+1 unexpected `7`; expected the end of the line",
        "14:1+0 a rule without its `@`; expected `@` and the source prefix",
        "15:26+1 `a` is no port; expected two ports from 0 to 65535: `lo : hi`",
        "16:27+0 the source ports are missing; expected two ports from 0 to 65535: `lo : hi`",
    ]),
    (concat!(
        "@10.1.0.0/8\t192.0.2.0/24\t0:65535\t80:80\t0x06/0xF0\n",
        "\n",
        "# comment\n",
        "@10.0.0.0/8\t192.0.2.0/24\t0 : 65535\t80 : 80\t0x06/0xFF\t0x1000/0x0200\n",
        "@192.0.2.0/24\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x07/0xFE\n",
    ),
     &[
        "warning 1:2+10 `10.1.0.0/8` has bits outside its prefix; they are dropped",
        "warning 1:40+9 `0x06/0xF0` has bits outside its mask; they are dropped",
        "warning 4:1+66 this rule is never the first to match: the rule on line 1 takes all its packets",
        "warning 4:54+13 `0x1000/0x0200` has bits outside its mask; they are dropped",
        "warning 5:45+9 `0x07/0xFE` has bits outside its mask; they are dropped",
    ]),
];

#[test]
fn columns_count_characters_and_the_text_is_the_whole_line() {
    let error =
        firstmatch_formats::parse("# é\npermit tcp # ü\n\tdeny dport é\0\r\n", &Options::default()).unwrap_err();
    let fault = &error.faults()[0];
    assert_eq!((fault.line, fault.column, &*fault.text), (3, 13, "\tdeny dport é␀"));
    let error = firstmatch_formats::parse("permit \0\n", &Options::default()).unwrap_err();
    assert!(error.to_string().starts_with("1:8: the character U+0000"), "{error}");
}

/// Ports that are missing hide no fault behind them where the line goes on.
#[test]
fn missing_ports_hide_no_other_fault() {
    let missing = "the source ports are missing; expected two ports from 0 to 65535: `lo : hi`";
    let prefixes = "@10.0.0.0/8\t192.0.2.0/24\t";
    let faults = diagnose(&format!("{prefixes}: 99999\t80 : 79\t0x06/0xFF\n"));
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert_eq!(faults[0], format!("1:26+0 {missing}"));
    assert!(faults[1].contains("`99999` is no port") && faults[2].contains("are reversed"), "{faults:?}");
}
