//! Refusal of requests that a page from elsewhere could make a browser send.
//!
//! Such a page can have its own name resolve to 127.0.0.1 and then read what it gets. But the browser still says which
//! name it asked for, in the header `Host`.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Address of this host that a connection came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Local(pub(super) SocketAddr);

/// Whether a request may ask `local` by the name `host`, which may have a port.
///
/// The port is not compared: behind a tunnel it is another one.
pub(super) fn is_allowed(host: &str, local: IpAddr, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host();
    if authority.as_str().contains('@') {
        return false;
    }
    let local = local.to_canonical();
    let name = host.strip_suffix('.').unwrap_or(host);
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse::<IpAddr>() {
        Ok(address) => address == local || (address.is_loopback() && local.is_loopback()) || is_named(names, host),
        Err(_) => (name.eq_ignore_ascii_case("localhost") && local.is_loopback()) || is_named(names, name),
    }
}

fn is_named(names: &[String], host: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// Passes on requests with an allowed host, and adds headers that keep the answer from other pages.
pub(super) async fn check(names: std::sync::Arc<[String]>, request: Request, next: Next) -> Response {
    let local = request.extensions().get::<Local>().map(|Local(address)| address.ip());
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    let is_allowed = |host: &str| local.is_some_and(|local| is_allowed(host, local, &names));
    // A request to a proxy names the host in its first line, too.
    let is_other = request.uri().authority().is_some_and(|authority| !is_allowed(authority.as_str()));
    let mut response = match host {
        Some(host) if is_allowed(host) && !is_other => next.run(request).await,
        _ => {
            let text = "this address answers only to its own names; --allow-host adds one\n";
            (StatusCode::MISDIRECTED_REQUEST, text).into_response()
        }
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_allowed() {
        let (v4, v6) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
        let other = IpAddr::from([192, 0, 2, 7]);
        let names = ["fw.example".to_owned()];
        for (host, local, expected) in [
            ("127.0.0.1:8080", v4, true),
            ("localhost:9", v4, true),
            ("LOCALHOST.", v6, true),
            ("[::1]:8080", v4, true),
            ("[::1]", v6, true),
            ("127.0.0.1", IpAddr::from([0, 0, 0, 0, 0, 0xFFFF, 0x7F00, 1]), true),
            ("Fw.Example:80", v4, true),
            ("fw.example.", other, true),
            ("192.0.2.7:80", other, true),
            ("192.0.2.8:80", other, false),
            ("127.0.0.1", other, false),
            ("localhost", other, false),
            ("192.0.2.7", v4, false),
            ("evil.example", v4, false),
            ("localhost.evil.example", v4, false),
            ("127.0.0.1.evil.example", v4, false),
            ("localhost@evil.example", v4, false),
            ("evil.example@localhost", v4, false),
            ("", v4, false),
            (":80", v4, false),
            ("localhost/x", v4, false),
        ] {
            assert_eq!(is_allowed(host, local, &names), expected, "{host} at {local}");
        }
    }
}
