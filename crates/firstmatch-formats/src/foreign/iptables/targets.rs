//! Targets of rules, with the number of words behind each of their options.

/// Options of a target, each with the number of words behind it.
type TargetOptions = &'static [(&'static str, usize)];

/// Targets after which the packet goes on to the next rule, as it was.
const SILENT: [(&str, TargetOptions); 8] = [
    (
        "LOG",
        &[
            ("--log-level", 1),
            ("--log-prefix", 1),
            ("--log-tcp-sequence", 0),
            ("--log-tcp-options", 0),
            ("--log-ip-options", 0),
            ("--log-uid", 0),
            ("--log-macdecode", 0),
        ],
    ),
    (
        "NFLOG",
        &[
            ("--nflog-group", 1),
            ("--nflog-prefix", 1),
            ("--nflog-range", 1),
            ("--nflog-size", 1),
            ("--nflog-threshold", 1),
        ],
    ),
    ("ULOG", &[("--ulog-nlgroup", 1), ("--ulog-prefix", 1), ("--ulog-cprange", 1), ("--ulog-qthreshold", 1)]),
    ("TCPMSS", &[("--set-mss", 1), ("--clamp-mss-to-pmtu", 0)]),
    ("AUDIT", &[("--type", 1)]),
    ("CHECKSUM", &[("--checksum-fill", 0)]),
    ("CLASSIFY", &[("--set-class", 1)]),
    ("TRACE", &[]),
];

/// Targets that set a mark.
const MARKING: [(&str, TargetOptions); 2] = [
    ("MARK", &[("--set-mark", 1), ("--set-xmark", 1), ("--and-mark", 1), ("--or-mark", 1), ("--xor-mark", 1)]),
    (
        "CONNMARK",
        &[
            ("--set-mark", 1),
            ("--set-xmark", 1),
            ("--and-mark", 1),
            ("--or-mark", 1),
            ("--xor-mark", 1),
            ("--save-mark", 0),
            ("--restore-mark", 0),
            ("--nfmask", 1),
            ("--ctmask", 1),
            ("--mask", 1),
        ],
    ),
];

/// Targets that cannot be held, because something else decides, or the packet is changed.
const UNHELD: [&str; 29] = [
    "NFQUEUE",
    "QUEUE",
    "CT",
    "NOTRACK",
    "SYNPROXY",
    "SET",
    "TEE",
    "TPROXY",
    "DSCP",
    "TOS",
    "TTL",
    "HL",
    "ECN",
    "SECMARK",
    "CONNSECMARK",
    "DNAT",
    "SNAT",
    "MASQUERADE",
    "REDIRECT",
    "NETMAP",
    "DNPT",
    "SNPT",
    "CLUSTERIP",
    "IDLETIMER",
    "LED",
    "RATEEST",
    "HMARK",
    "TCPOPTSTRIP",
    "TARPIT",
];

/// Whether a word is the name of a target, so that no chain has it.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "ACCEPT" | "DROP" | "REJECT" | "RETURN") || is_silent(name) || sets_mark(name) || is_unheld(name)
}

/// Whether a rule with this target, in a table before `filter`, changes neither verdicts nor packets.
pub(super) fn is_harmless(name: &str) -> bool {
    matches!(name, "ACCEPT" | "RETURN") || is_silent(name)
}

fn is_silent(name: &str) -> bool {
    SILENT.iter().any(|(known, _)| *known == name)
}

pub(super) fn sets_mark(name: &str) -> bool {
    MARKING.iter().any(|(known, _)| *known == name)
}

pub(super) fn is_unheld(name: &str) -> bool {
    UNHELD.contains(&name)
}

/// Returns the options of a target that gives no verdict, or of REJECT; `None` for other targets.
pub(super) fn options(name: &str) -> Option<TargetOptions> {
    match name {
        "REJECT" => Some(&[("--reject-with", 1)]),
        "ACCEPT" | "DROP" | "RETURN" => Some(&[]),
        _ => SILENT.iter().chain(&MARKING).find(|(known, _)| *known == name).map(|(_, options)| *options),
    }
}
