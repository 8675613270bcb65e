//! Paths of the page: who may ask, and what they answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::http::{get, request, send, state_after, state_when};
use crate::namespace::{Folder, inside, ip};
use crate::traffic::{Sender, frame, rules};
use crate::watch::{Watch, command};

/// Other names, methods, paths and texts are refused, each with its code, and nothing can be changed.
#[test]
fn other_requests_are_refused() {
    inside("web::other_requests_are_refused", || {
        let folder = Folder::new("requests");
        let path = folder.write("x.rules", rules());
        let (watch, address) = Watch::listen(&path, "vb", &["--allow-host", "fw.example"]);
        let code = |method: &str, path: &str, lines: &[&str]| request(address, method, path, lines).code;
        for (host, expected) in [
            (format!("Host: localhost:{}", address.port()), 200),
            ("Host: FW.example".to_owned(), 200),
            ("Host: evil.example".to_owned(), 421),
            (format!("Host: evil.example:{}", address.port()), 421),
            ("Host: 192.0.2.1".to_owned(), 421),
            ("Host: localhost\r\nHost: evil.example".to_owned(), 421),
        ] {
            for path in ["/", "/healthz", "/metrics", "/api/state"] {
                assert_eq!(code("GET", path, &[&host]), expected, "{host} {path}");
            }
        }
        let proxied = format!("GET http://evil.example/ HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        assert_eq!(send(address, &proxied).code, 421);
        assert_eq!(send(address, "GET / HTTP/1.0\r\n\r\n").code, 421);
        let all = ["/", "/healthz", "/metrics", "/api/state", "/api/rules", "/api/denied", "/api/explain"];
        for path in all {
            for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
                assert_eq!(code(method, path, &["X-Firstmatch: 1"]), 405, "{method} {path}");
            }
        }
        for method in ["GET", "POST"] {
            assert_eq!(code(method, "/api/reload", &["X-Firstmatch: 1"]), 405, "reloads were not allowed");
        }
        for (path, expected) in [
            ("/other", 404),
            ("/api", 404),
            ("/../etc/passwd", 404),
            ("/api/explain", 400),
            ("/api/explain?packet=tcp", 400),
            ("/api/explain?packet=%FF", 400),
            ("/api/rules?top=x", 400),
            ("/api/rules?top=-1", 400),
        ] {
            assert_eq!(code("GET", path, &[]), expected, "{path}");
        }
        let error = request(address, "GET", "/api/explain?packet=tpc+1+%3E+2", &[]).json();
        assert!(error["error"].as_str().unwrap().contains("tpc"), "{error}");
        let page = get(address, "/");
        for line in ["content-security-policy: default-src 'none'; script-src 'sha256-", "cache-control: no-store"] {
            assert!(page.head.contains(line), "{}", page.head);
        }
        assert_eq!(watch.finish().json["reloads"]["done"], 0);
        let refused = |listen: &str, options: &[&str]| {
            let line = [&["watch", path.to_str().unwrap(), "vb", "--listen", listen], options].concat();
            let output = command(&line).output().unwrap();
            assert_eq!(output.status.code(), Some(2));
            String::from_utf8(output.stderr).unwrap()
        };
        assert!(refused("0.0.0.0:0", &[]).contains("--listen-anywhere"));
        assert!(refused("[::]:0", &[]).contains("--listen-anywhere"));
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        assert!(refused(&address, &["--listen-anywhere"]).contains(&address));
        let (watch, address) = Watch::listen_at("0.0.0.0:0", &path, "vb", &["--listen-anywhere"]);
        assert_eq!(get(SocketAddr::new([127, 0, 0, 1].into(), address.port()), "/healthz").text, "ok\n");
        watch.finish();
    });
}

/// Idle connections keep nobody out, cost no frame, and end.
#[test]
fn idle_connections_keep_nobody_out() {
    inside("web::idle_connections_keep_nobody_out", || {
        let folder = Folder::new("idle");
        let path = folder.write("x.rules", rules());
        let (watch, address) = Watch::listen(&path, "vb", &[]);
        let mut idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        let sender = Sender::new("va");
        (0..1_000).for_each(|number| sender.send(&frame(number)));
        assert_eq!(get(address, "/healthz").text, "ok\n");
        state_after(address, 1_000);
        let ends = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // A connection that was reset has ended, too.
            stream
                .read(&mut [0; 1000])
                .map_or_else(|error| error.kind() != std::io::ErrorKind::WouldBlock, |read| read == 0)
        };
        assert!(idle[..100].iter_mut().all(ends), "the oldest make room");
        let youngest = idle.last_mut().unwrap();
        youngest.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
        assert!(ends(youngest), "headers that do not end");
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!((answer.loss("received"), answer.loss("lost")), (1_000, 0));
    });
}

/// The state has the counts, rules come by their rate, and packets are explained as `explain` does.
#[test]
fn answers_are_those_of_the_commands() {
    inside("web::answers_are_those_of_the_commands", || {
        let folder = Folder::new("answers");
        let path = folder.write("x.rules", rules());
        let (watch, address) = Watch::listen(&path, "vb", &["--workers", "2"]);
        let sender = Sender::new("va");
        (0..2_000).for_each(|number| sender.send(&frame(number)));
        (0..50).for_each(|_| sender.send(&frame(7)));
        let state = state_after(address, 2_050);
        for (name, expected) in [
            ("command", Value::from("watch")),
            ("rules_file", path.to_str().unwrap().into()),
            ("rules", 100.into()),
            ("matched", 2_050.into()),
            ("bytes", (2_050 * 60).into()),
            ("failed_open", false.into()),
            ("faults", Value::Array(Vec::new())),
        ] {
            assert_eq!(state[name], expected, "{name}");
        }
        let verdicts = &state["verdicts"];
        assert_eq!((&verdicts["permit"]["packets"], &verdicts["deny"]["packets"]), (&1_000.into(), &1_050.into()));
        assert_eq!(state["outcomes"].as_object().unwrap().len(), 15);
        assert_eq!((&state["losses"]["received"], &state["losses"]["lost"]), (&2_050.into(), &0.into()));
        assert_eq!(state["lanes"].as_array().unwrap().len(), 2);
        let rules = get(address, "/api/rules?top=1000").json();
        let rules = rules.as_array().unwrap();
        assert_eq!(rules.len(), 100);
        assert!(rules.is_sorted_by(|one, other| one["rate"].as_f64() >= other["rate"].as_f64()), "{rules:?}");
        let first = &rules[0];
        assert_eq!((&first["line"], &first["packets"]), (&8.into(), &70.into()), "{first}");
        assert_eq!(first["text"], "deny udp dport 1007");
        assert_eq!(get(address, "/api/rules?top=3").json().as_array().unwrap().len(), 3);
        // The history has a point a second, and all packets are in it.
        let sum = |state: &Value, of: &str| {
            let points = state["history"].as_array().unwrap();
            points.iter().map(|point| point[of].as_f64().unwrap()).sum::<f64>()
        };
        state_when(address, |state| sum(state, "passed") > 0.0 && sum(state, "denied") > 0.0);
        for packet in ["udp 10.0.0.1:5 > 192.0.2.7:1007", "src 10.0.0.1, dst 192.0.2.7, proto udp, dport 9"] {
            let asked = packet.replace(' ', "+").replace('>', "%3E");
            let answer = get(address, &format!("/api/explain?packet={asked}")).json();
            let output = command(&["explain", path.to_str().unwrap(), packet]).output().unwrap();
            assert_eq!(answer["explanation"], String::from_utf8(output.stdout).unwrap(), "{packet}");
        }
        ip(&["link", "set", "vb", "down"]).unwrap();
        state_when(address, |state| state["interfaces"][0]["link"] == "down");
        assert_eq!(get(address, "/healthz").text, "ok\n");
        watch.finish().assert_exact();
    });
}

/// Denied packets have the decision at their time and an explanation of now, and a reload shows how these differ.
#[test]
fn denied_packets_and_reloads_are_shown() {
    inside("web::denied_packets_and_reloads_are_shown", || {
        let folder = Folder::new("denied");
        let path = folder.write("x.rules", rules());
        let (watch, address) = Watch::listen(&path, "vb", &["--allow-reload", "--no-watch-file"]);
        assert_eq!(get(address, "/api/denied").json(), Value::Array(Vec::new()));
        Sender::new("va").send(&frame(7));
        state_after(address, 1);
        let denied = || get(address, "/api/denied").json()[0].clone();
        let first = denied();
        let data: String = frame(7).iter().map(|byte| format!("{byte:02x}")).collect();
        for (name, expected) in
            [("interface", Value::from("vb")), ("bytes", 60.into()), ("data", data.into()), ("differs", false.into())]
        {
            assert_eq!(first[name], expected, "{name}: {first}");
        }
        let then = &first["then"];
        assert_eq!(
            (&then["line"], &then["text"], &then["generation"]),
            (&8.into(), &"deny udp dport 1007".into(), &0.into())
        );
        assert!(first["now"]["explanation"].as_str().unwrap().contains("dport 1007"), "{first}");
        let reload = |lines: &[&str]| request(address, "POST", "/api/reload", lines);
        assert_eq!(reload(&[]).code, 403);
        assert_eq!(reload(&["Host: evil.example", "X-Firstmatch: 1"]).code, 421);
        assert_eq!(request(address, "GET", "/api/reload", &["X-Firstmatch: 1"]).code, 405);
        folder.write("x.rules", format!("permit udp dport 1007\n{}", rules()));
        let done = reload(&["X-Firstmatch: reload"]);
        assert_eq!((done.code, done.json()["inserted"].as_u64()), (200, Some(1)), "{done:?}");
        let second = denied();
        assert_eq!((&second["then"]["generation"], &second["now"]["generation"]), (&0.into(), &1.into()), "{second}");
        assert_eq!((&second["differs"], &second["now"]["verdict"]), (&true.into(), &"permit".into()), "{second}");
        // The explanation is of the new rules, too.
        let answer = get(address, "/api/explain?packet=udp+10.0.0.1:5+%3E+192.0.2.7:1007").json();
        assert!(answer["explanation"].as_str().unwrap().contains("permit"), "{answer}");
        folder.write("x.rules", "permit u");
        let refused = reload(&["X-Firstmatch: reload"]);
        let json = refused.json();
        assert_eq!((refused.code, &json["line"], &json["column"]), (422, &1.into(), &8.into()), "{json}");
        let answer = watch.finish();
        assert_eq!((&answer.json["reloads"]["done"], &answer.json["reloads"]["refused"]), (&1.into(), &1.into()));
    });
}
