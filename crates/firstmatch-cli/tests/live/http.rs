//! Requests to the page of the program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    /// Lines before the text.
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Gets a path, which must be there.
pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    let reply = request(address, "GET", path, &[]);
    assert_eq!(reply.code, 200, "{path}: {reply:?}");
    reply
}

/// Sends a request with more header lines, and returns the answer, whatever it is.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, lines: &[&str]) -> Reply {
    let host = format!("Host: {address}");
    let has_host = lines.iter().any(|line| line.starts_with("Host:"));
    let lines: Vec<&str> = lines.iter().copied().chain((!has_host).then_some(&*host)).collect();
    send(address, &format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n{}\r\n\r\n", lines.join("\r\n")))
}

/// Sends the text of a request, and returns the answer.
pub(crate) fn send(address: SocketAddr, text: &str) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    // Nothing here takes so long, and a test that hangs says nothing.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, text) = reply.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{reply:?}"));
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(!head.to_lowercase().contains("chunked"), "{head}");
    Reply { code, head: head.to_lowercase(), text: text.to_owned() }
}

/// Asks for the state until `packets` are decided, and returns it.
pub(crate) fn state_after(address: SocketAddr, packets: u64) -> Value {
    state_when(address, |state| {
        let now = state["packets"].as_u64().unwrap();
        assert!(now <= packets, "{now} packets");
        now == packets
    })
}

/// Asks for the state until `is_there` is true of it, and returns it.
pub(crate) fn state_when(address: SocketAddr, is_there: impl Fn(&Value) -> bool) -> Value {
    loop {
        let state = get(address, "/api/state").json();
        if is_there(&state) {
            return state;
        }
        std::thread::yield_now();
    }
}
