//! Files: messages that name them, and whole texts.

use std::path::{Path, PathBuf};

use super::*;
use firstmatch_net::source::{open, read_text, read_text_with};

/// File with given content, removed when it goes out of scope.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("firstmatch-net-{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("written");
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn messages_name_the_file_and_what_it_looks_like() {
    let missing = open(Path::new("/no/such/file.pcap")).expect_err("missing");
    assert_eq!(missing.to_string(), "/no/such/file.pcap: there is no such file");
    assert_eq!(missing.io_kind(), Some(io::ErrorKind::NotFound));
    let directory = open(&std::env::temp_dir()).expect_err("a directory");
    assert!(directory.to_string().ends_with("this is a directory; expected a file"), "{directory}");
    assert_eq!(directory.io_kind(), Some(io::ErrorKind::IsADirectory));
    let empty = Temporary::new("empty", b"");
    assert!(open(&empty.0).expect_err("empty").to_string().ends_with("there is nothing in it"));
    assert!(read_text(&empty.0).is_err_and(|error| error.is_empty()));
    let hollow = slow(&gz(b""), 99).expect_err("empty inside");
    assert_eq!(hollow.to_string(), "test: there is nothing in it once gzip is undone");

    let said = slow(b"@10.0.0.0/8 ...\n", 99).and_then(Input::into_capture).expect_err("text").to_string();
    assert_eq!(said, "test: this is text (it starts with \"@10.0.0.0/8 ...\"); expected a capture (pcap or pcapng)");
    let (capture, _) = pcap(Endianness::Big, TsResolution::NanoSecond, &frames());
    let said = slow(&capture, 99).and_then(Input::into_trace).expect_err("a capture").to_string();
    assert_eq!(said, "test: this is a pcap capture; expected a trace (text, a packet a line)");
    let file = Temporary::new("capture", &zst(&capture));
    let said = read_text(&file.0).expect_err("a capture").to_string();
    assert!(said.ends_with("this is a pcap capture; expected text in UTF-8"), "{said}");
    let said = slow(b"\x7fELF\0\0", 99).expect_err("a program").to_string();
    assert!(said.contains("a program (ELF); expected a capture (pcap or pcapng) or text"), "{said}");
    let said = slow(&[0xde, 0xad, 0xbe, 0xef, 0], 99).expect_err("binary").to_string();
    assert!(said.contains("it starts with de ad be ef 00"), "{said}");
    let nested = (0..6).fold(b"text\n".to_vec(), |inner, _| gz(&inner));
    assert!(slow(&nested, 99).expect_err("nested").to_string().contains("inside 4 other"));

    let input = open(&file.0).expect("opened");
    let progress = input.progress();
    let input = input.into_capture().expect("a capture");
    let stored = std::fs::metadata(&file.0).expect("there").len();
    assert_eq!((progress.total(), drain(input).0.len()), (Some(stored), frames().len()));
    assert_eq!(progress.read(), stored);
}

#[test]
fn whole_texts_are_utf8_and_bounded() {
    let text = "permit src 10.0.0.0/8\n# né\n";
    for content in [text.as_bytes().to_vec(), gz(text.as_bytes()), zst(text.as_bytes())] {
        assert_eq!(read_text(&Temporary::new("text", &content).0).as_deref(), Ok(text));
    }
    let marked = Temporary::new("marked", &[b"\xef\xbb\xbf", text.as_bytes()].concat());
    assert_eq!(read_text(&marked.0).as_deref(), Ok(text));
    let small = Limits { max_text: 20, ..Limits::default() };
    let error = read_text_with(&marked.0, &small).expect_err("too large");
    assert!(error.to_string().ends_with("there are more than 20 bytes in it, the most allowed"), "{error}");
    let plain = Temporary::new("plain", text.as_bytes());
    let most = |max_text| read_text_with(&plain.0, &Limits { max_text, ..Limits::default() });
    assert_eq!(most(text.len()).as_deref(), Ok(text));
    assert!(most(text.len() - 1).is_err());

    let latin = Temporary::new("latin", b"permit\r\n# n\xc3\xa9 caf\xe9 ol\xc3\xa9\r\ndeny\r\n");
    let error = read_text(&latin.0).expect_err("latin-1");
    let shown = error.diagnostic().expect("a place");
    assert_eq!((shown.line, shown.column, shown.text.as_str()), (2, 9, "# né caf\u{fffd} olé"));
    assert!(shown.message.starts_with("the byte 0xe9 (byte 17 of the text)"), "{shown}");

    // Half a rule file is no rule file.
    let mut half = gz("deny\n".repeat(5000).as_bytes());
    half.truncate(half.len() - 9);
    let error = read_text(&Temporary::new("half", &half).0).expect_err("cut");
    assert!(error.to_string().contains("the gzip stream ends before its end mark"), "{error}");
}
