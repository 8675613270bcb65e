//! Faults: each with its line, column and way out.

use super::super::options::{Hook, Import, Table};
use super::{input, view};
use crate::{Format, Options, parse};

/// Returns the message of the one fault of a file.
#[track_caller]
fn fault_of(text: &str, options: &Options) -> String {
    let error = parse(text, options).expect_err("a fault");
    assert_eq!((error.faults().len(), error.more()), (1, 0), "{error}");
    error.to_string()
}

/// Parts that a rule with a verdict cannot have.
#[test]
fn what_cannot_be_held_is_a_fault() {
    for (rule, expected) in [
        ("-m recent --name x --rcheck -j DROP", "the match `recent` cannot be held"),
        ("-m hashlimit --hashlimit-above 5/sec --hashlimit-name x -j DROP", "the match `hashlimit` cannot be held"),
        ("-m limit --limit 5/sec -j ACCEPT", "`--assume limit=within` or `--assume limit=beyond`"),
        ("-m set --match-set bad src -j DROP", "the match `set` cannot be held"),
        ("-m owner --uid-owner 7 -j ACCEPT", "the match `owner` cannot be held"),
        ("-m conntrack --ctstate DNAT -j ACCEPT", "the state `DNAT` depends on the table `nat`"),
        ("-m addrtype --dst-type BROADCAST -j DROP", "the addresses of type `BROADCAST` are those of a host"),
        ("-j NFQUEUE --queue-num 3", "the target `NFQUEUE` cannot be held"),
        ("-m physdev --physdev-in eth0 -j web", "the match `physdev` cannot be held"),
    ] {
        let text = input("DROP", ":web - [0:0]\n", &format!("-A INPUT {rule}\n-A web -j DROP\n"));
        let shown = fault_of(&text, &view(Hook::Input));
        assert!(shown.contains(expected) && shown.starts_with("6:"), "{rule}: {shown}");
    }
    for (rule, columns) in [("-p tcp -m recent --rcheck -j DROP", 20), ("-p tcp -j NFQUEUE", 20)] {
        let error = parse(&input("DROP", "", &format!("-A INPUT {rule}\n")), &view(Hook::Input)).expect_err("a fault");
        assert_eq!(error.faults()[0].column, columns, "{error}");
    }
}

/// Where there is no verdict, or no packet comes, such parts do not matter.
#[test]
fn what_does_not_matter_is_no_fault() {
    let rules = "-A INPUT -m limit --limit 3/min -j LOG --log-prefix \"no: \" --log-level 4\n-A INPUT -m recent --set --name x\n\
                 -A INPUT -m conntrack --ctstate INVALID -m limit --limit 3/min -j DROP\n-A FORWARD -m owner --uid-owner 7 -j DROP\n\
                 -A never -m u32 --u32 \"0=1\" -j DROP\n-A INPUT -p tcp -j TCPMSS --clamp-mss-to-pmtu\n-A INPUT -p tcp -j ACCEPT\n";
    let file = parse(&input("DROP", ":never - [0:0]\n", rules), &view(Hook::Input)).expect("a file without faults");
    assert_eq!(file.rules.len(), 1);
}

#[test]
fn text_that_iptables_would_not_take_is_a_fault() {
    for (rule, expected) in [
        ("-s host.example -j DROP", "not the name of a host"),
        ("-s 10.0.0.0/33 -j DROP", "`33` is no mask"),
        ("-s 2001:db8::1 -j DROP", "`2001:db8::1` is no address of IPv4"),
        ("! -s 10.0.0.1,10.0.0.2 -j DROP", "`!` before several addresses"),
        ("-p tpc -j DROP", "unknown protocol `tpc`"),
        ("! -p all -j DROP", "no packet is of no protocol"),
        ("-p 256 -j DROP", "unknown protocol `256`"),
        ("-p tcp -p udp -j DROP", "`-p` stands twice"),
        ("-p tcp --dport 80 --dport 81 -j DROP", "`--dport` stands twice"),
        ("-p tcp --dport 80:79 -j DROP", "neither a port nor a range"),
        ("-p tcp --dport 65536 -j DROP", "neither a port nor a range"),
        ("-p tcp --dport 010 -j DROP", "neither a port nor a range"),
        ("--dport 80 -j DROP", "unknown option `--dport`"),
        ("-m tcp --dport 80 -j DROP", "a match of another protocol"),
        ("-p udp -m tcp --dport 80 -j DROP", "a match of another protocol"),
        ("! -p tcp -m tcp -j DROP", "a match of another protocol"),
        ("-m multiport --dports 80 -j DROP", "ports of a rule without a protocol"),
        ("-p tcp -m multiport -j DROP", "a match without an option"),
        ("-p tcp --tcp-flags SYN -j DROP", "unknown TCP flag `-j`"),
        ("-p tcp --tcp-option 5 -j DROP", "unknown option `--tcp-option`"),
        ("-p icmp --icmp-type nothing -j DROP", "unknown ICMP type `nothing`"),
        ("-p icmp --icmp-type 3/x -j DROP", "unknown ICMP type `3/x`"),
        ("-m state --state OLD -j DROP", "unknown state `OLD`"),
        ("-m ttl ! --ttl-lt 5 -j DROP", "`!` before `--ttl-lt`"),
        ("-i eth0/1 -j DROP", "is no name of an interface"),
        ("! -j DROP", "`!` before `-j`"),
        ("! tcp -j DROP", "`tcp` follows no option"),
        ("-j", "the line ends before a target"),
        ("-j DROP -j ACCEPT", "a second target"),
        ("-j NOWHERE", "unknown target `NOWHERE`"),
        ("-g DROP", "unknown target `DROP`"),
        ("-j FORWARD", "`FORWARD` is a base chain"),
        ("-j DROP --reject-with x", "unknown option `--reject-with`"),
        ("-j DROP more", "`more` follows no option"),
        ("-m comment --comment \"a -j DROP", "a quote that is not closed"),
        ("-t nat -j DROP", "unknown option `-t`"),
    ] {
        let options = Options { format: Some(Format::Iptables), ..view(Hook::Input) };
        let shown = fault_of(&input("DROP", "", &format!("-A INPUT {rule}\n")), &options);
        assert!(shown.contains(expected), "{rule}: {shown}");
    }
}

#[test]
fn files_that_are_not_whole_have_faults() {
    let options = Options { format: Some(Format::Iptables), ..view(Hook::Input) };
    for (text, expected) in [
        ("*filter\n:INPUT DROP\n-A INPUT -j ACCEPT\n", "a table without its end"),
        ("*filter\n:INPUT DROP\n-A INPUT -j ACCEPT\nCOMMIT\n-A INPUT -j DROP\n", "a line outside of a table"),
        ("*filter\n-A INPUT -j DROP\nCOMMIT\n*filter\nCOMMIT\n", "a second table `filter`"),
        ("*filter\n-A INPUT -j DROP\n*nat\nCOMMIT\n", "a table before the COMMIT of that on line 1"),
        ("*broute\nCOMMIT\n", "unknown table `broute`"),
        ("*nat\nCOMMIT\n", "no table `filter`"),
        ("COMMIT\n-A INPUT -j DROP\n", "COMMIT without a table"),
        ("*filter\n:INPUT QUEUE\n-A INPUT -j DROP\nCOMMIT\n", "`QUEUE` as a policy"),
        ("*filter\n:web DROP\n-A INPUT -j DROP\nCOMMIT\n", "a policy for the chain `web`"),
        ("*filter\n:INPUT -\n-A INPUT -j DROP\nCOMMIT\n", "there is already a chain `INPUT`"),
        ("*filter\n:INPUT DROP [0]\n-A INPUT -j DROP\nCOMMIT\n", "a chain that is not whole"),
        ("*filter\n:DROP - [0:0]\n-A INPUT -j DROP\nCOMMIT\n", "`DROP` cannot be the name of a chain"),
        ("*filter\n-A web -j DROP\n-A INPUT -j DROP\nCOMMIT\n", "there is no chain `web`"),
        ("*filter\n-I INPUT -j DROP\n-A INPUT -j DROP\nCOMMIT\n", "`-I` changes rules"),
        ("*filter\n[0:x] -A INPUT -j DROP\nCOMMIT\n", "counters that are none"),
        (
            "*filter\n:INPUT DROP\n-A INPUT -j a\n:a -\n-A a -j b\n:b -\n-A b -p tcp -j a\nCOMMIT\n",
            "jump in a circle: `a`",
        ),
        ("*filter\n:INPUT ACCEPT\nCOMMIT\n", "no rules for the hook input"),
        ("*filter\n:INPUT ACCEPT\n-A FORWARD -j DROP\nCOMMIT\n", "`--hook forward` (1 rules)"),
    ] {
        let shown = fault_of(text, &options);
        assert!(shown.contains(expected), "{text}: {shown}");
    }
    let error = parse("\u{feff}*filter\nCOMMIT\n", &options).expect_err("no rules");
    assert_eq!((error.faults()[0].column, &*error.faults()[0].text), (1, "*filter"));
    let both = "*filter\n-A INPUT -j DROP\n-A FORWARD -j DROP\n-A FORWARD -p tcp -j ACCEPT\nCOMMIT\n";
    let shown = fault_of(both, &Options::default());
    assert!(shown.contains("`--hook input` (1 rules) or `--hook forward` (2 rules)"), "{shown}");
    let lines =
        parse("*filter\n-A INPUT -p x -j DROP\n-A INPUT -s y -j DROP\nCOMMIT\n", &options).expect_err("two faults");
    assert_eq!(lines.faults().iter().map(|fault| fault.line).collect::<Vec<_>>(), [2, 3]);
}

/// Tables beside `filter` matter if they change what it sees, unless they are left out.
#[test]
fn other_tables_are_looked_into() {
    let file = |table: &str, rules: &str, filter: &str| {
        format!(
            "*{table}\n:PREROUTING ACCEPT [0:0]\n:own - [0:0]\n{rules}COMMIT\n*filter\n:INPUT DROP [0:0]\n{filter}COMMIT\n"
        )
    };
    let plain = "-A INPUT -p tcp -j ACCEPT\n";
    for (table, rules) in [
        ("nat", ""),
        ("mangle", "-A PREROUTING -p tcp -j TCPMSS --clamp-mss-to-pmtu\n-A PREROUTING -j own\n"),
        ("mangle", "-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff\n"),
        ("raw", "-A PREROUTING -s 10.0.0.0/8 -j ACCEPT\n"),
    ] {
        let read = parse(&file(table, rules, plain), &view(Hook::Input));
        assert!(read.is_ok(), "{table} {rules}: {read:?}");
    }
    for (table, rules, expected) in [
        ("nat", "-A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1\n", "`--without nat`"),
        ("nat", "-A PREROUTING -j own\n-A own -j RETURN\n", "and 1 more rules of the table"),
        ("mangle", "-A PREROUTING -p tcp -j DROP\n", "`--without mangle`"),
        ("raw", "-A PREROUTING -j CT --notrack\n", "`--without raw`"),
    ] {
        let text = file(table, rules, plain);
        let shown = fault_of(&text, &view(Hook::Input));
        assert!(shown.contains(expected), "{shown}");
        let import = Import { without: Table::ALL.to_vec(), ..view(Hook::Input).import };
        assert_eq!(parse(&text, &Options { import, ..Options::default() }).expect("left out").rules.len(), 1);
    }
    let marked = file("mangle", "-A PREROUTING -j MARK --set-xmark 0x1\n", "-A INPUT -m mark --mark 0x1 -j ACCEPT\n");
    for marked in [marked.replace("-m mark --mark", "-m mark ! --mark"), marked] {
        let shown = fault_of(&marked, &view(Hook::Input));
        assert!(shown.contains("this tests the mark, which line 4 sets"), "{shown}");
    }
}
