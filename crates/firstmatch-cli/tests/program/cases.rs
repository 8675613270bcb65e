//! Tests of `firstmatch test`.

use insta::assert_snapshot;

use crate::fixture::Fixture;

#[test]
fn cases_are_compared_and_failures_explained() {
    let fixture = Fixture::new("cases");
    fixture.write(
        "good.cases",
        "# Who may reach the servers.\n\n\
         tcp 10.1.2.3:4040 > 192.0.2.7:443 => permit   # by line 5\n\
         tcp 10.1.2.3:4040 > 192.0.2.7:443 => line 5\n\
         tcp 10.1.2.3:4040 > 192.0.2.7:22 => deny\n\
         udp 10.0.0.1:53 > 10.0.0.2:53 => mark 7\n\
         proto 47 10.0.0.1 > 10.0.0.2 => unmatched\n\
         proto 47 10.0.0.1 > 10.0.0.2 => deny\n\
         tcp [2001:db8::1]:1 > [2001:db8::2]:80 => line 5\n",
    );
    fixture.write("failing.cases", "tcp 10.1.2.3:1 > 192.0.2.7:22 => line 9\nudp 1.1.1.1:1 > 2.2.2.2:2 => permit\n");
    fixture.write(
        "bad.cases",
        "tcp 1.1.1.1:1 > 2.2.2.2:2\n  tcp 1.1.1.1:1 > 2.2.2.2:2 => perhaps\ntcp 1.1.1.1 => deny\n\
         tcp 1.1.1.1:1 > 2.2.2.2:2 => line 2\nudp 1.1.1.1:1 > 2.2.2.2:2 => mark x\n",
    );
    let shown = ["good.cases", "failing.cases", "bad.cases", "none.cases"]
        .map(|cases| fixture.shown(&["test", "x.rules", cases]));
    assert_snapshot!("cases", shown.join("\n"));
    fixture.write("label.rules", "permit tcp dport 443 label \"the web\"\ndeny label \"all else\"\n");
    fixture.write(
        "label.cases",
        "tcp 1.1.1.1:1 > 2.2.2.2:443 => label \"the web\"\nudp 1.1.1.1:1 > 2.2.2.2:2 => label \"all else\"\n",
    );
    assert_eq!(fixture.run(&["test", "label.rules", "label.cases"]).0, 0);
    let (_, out, _) = fixture.run(&["classify", "label.rules", "x.pcap", "--csv", "-", "--json"]);
    assert!(out.lines().any(|line| line.ends_with(",the web")) && out.contains(",all else\n"), "{out}");
    // A packet whose field cannot be read is expected to be unknown, which these packets are not.
    fixture.write("unknown.cases", "udp 1.1.1.1:1 > 2.2.2.2:2 => unknown\n");
    assert_eq!(fixture.run(&["test", "x.rules", "unknown.cases"]).0, 1);
}
