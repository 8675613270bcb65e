//! Recognition of flow logs by the beginning of their text.

use super::FlowFormat;
use super::columns::{AWS_VERSION_2, is_same};

/// Returns the format of the flow log that `prefix` begins, if it begins one.
pub(in super::super) fn format_of(prefix: &[u8]) -> Option<FlowFormat> {
    let text = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let text = String::from_utf8_lossy(text);
    if text.trim_start().starts_with(['{', '[']) {
        return json_format(&text);
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut line = lines.next()?;
    while line.starts_with('#') {
        if line.starts_with("#separator ") || line.starts_with("#fields\t") && line.contains("id.orig_h") {
            return Some(FlowFormat::Zeek);
        }
        line = lines.next()?;
    }
    let words: Vec<&str> = line.split([' ', ',', '\t', ';']).map(|word| word.trim_matches('"')).collect();
    let has = |name: &str| words.iter().any(|word| is_same(word, name));
    if has("srcaddr") && has("dstaddr") || has("pkt-srcaddr") && has("pkt-dstaddr") || is_aws_row(&words) {
        return Some(FlowFormat::Aws);
    }
    let is_nfdump = has("sa") && has("da") && has("ts") || has("srcAddr") && has("dstAddr");
    is_nfdump.then_some(FlowFormat::Nfdump)
}

/// Returns the format of the flow log that JSON begins, by keys that no other has.
fn json_format(text: &str) -> Option<FlowFormat> {
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    if has("event_type") {
        Some(FlowFormat::Suricata)
    } else if has("id.orig_h") {
        Some(FlowFormat::Zeek)
    } else if has("records") || has("flowTuples") {
        Some(FlowFormat::Azure)
    } else {
        (has("connection") || has("jsonPayload")).then_some(FlowFormat::Gcp)
    }
}

/// Whether a line is a row of AWS, version 2, rather than one of a trace, which has numbers and addresses alone.
fn is_aws_row(words: &[&str]) -> bool {
    let [version, account, interface, .., status] = words else { return false };
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let has_interface = interface.starts_with(|first: char| first.is_ascii_alphabetic() || first == '-');
    let has_status = words.len() == AWS_VERSION_2.len() && matches!(*status, "OK" | "NODATA" | "SKIPDATA");
    *version == "2" && (has_status || is_account && has_interface)
}
