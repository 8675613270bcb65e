//! The page in a browser.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::browser::{Browser, program};
use crate::http::{get, state_when};
use crate::namespace::{Folder, inside};
use crate::traffic::{Sender, frame, rules};
use crate::watch::Watch;

const LABEL: &str = "<img src=x onerror='document.title=1'>";

/// Sends frames until 20 denied packets are shown; one is kept per 20 ms.
fn send_until_shown(address: SocketAddr, sender: &Sender) {
    let mut number = 0;
    while get(address, "/api/denied").json().as_array().unwrap().len() < 20 {
        (0..100).for_each(|_| {
            // Every second one is for the rule with the label.
            sender.send(&frame(if number % 2 == 0 { number } else { 7 }));
            number += 1;
        });
    }
}

/// The page shows rates, rules, losses and packets at both widths, runs nothing of a label, and asks nobody else.
#[test]
fn the_page_shows_the_traffic() {
    let name = "page::the_page_shows_the_traffic";
    inside(name, || {
        let Some(program) = program(name) else { return };
        let folder = Folder::new("page");
        let text = rules().replace("dport 1007\n", &format!("dport 1007 label \"{LABEL}\"\n"));
        let path = folder.write("x.rules", &text);
        let (watch, address) = Watch::listen(&path, "vb", &["--allow-reload", "--no-watch-file"]);
        let sender = Sender::new("va");
        send_until_shown(address, &sender);
        let mut browser = Browser::start(program);
        for (width, scheme) in [(1_200, "light"), (390, "dark")] {
            browser.resize(width, scheme);
            browser.call("Page.navigate", serde_json::json!({ "url": format!("http://{address}/") }));
            browser.wait_for("document.querySelectorAll('#samples details').length === 20");
            browser.wait_for("document.getElementById('passed-path')?.getAttribute('d')?.includes('L')");
            let shown = |browser: &mut Browser, id: &str| {
                browser.value(&format!("document.getElementById('{id}').innerText")).as_str().unwrap().to_owned()
            };
            let rules = shown(&mut browser, "rules");
            assert!(
                rules.contains(LABEL) && rules.contains("deny udp dport 1007") && rules.contains("line 8"),
                "{rules}"
            );
            assert_eq!(browser.value("document.querySelectorAll('img').length"), 0);
            assert_eq!(browser.value("document.title"), "vb – firstmatch watch");
            for id in ["passed", "denied", "lost", "most"] {
                let text = shown(&mut browser, id);
                assert!(text.replace(',', "").parse::<f64>().is_ok(), "{id}: {text}");
            }
            let lanes = shown(&mut browser, "lanes");
            assert!(lanes.contains("vb (up)"), "{lanes}");
            browser.value("document.querySelector('#samples details').open = true");
            let packet = browser.value("document.querySelector('#samples pre').innerText");
            assert!(packet.as_str().unwrap().contains("deny: rule"), "{packet}");
            let wide = browser.value("document.documentElement.scrollWidth");
            assert!(wide.as_u64().unwrap() <= width.into(), "{wide} of {width}");
            let columns = "new Set([...document.querySelectorAll('main > div')].map((of) => of.getBoundingClientRect().left)).size";
            assert_eq!(browser.value(columns), if width > 720 { 2 } else { 1 });
            let dark = browser.value("getComputedStyle(document.body).backgroundColor");
            assert_eq!(dark, if scheme == "dark" { "rgb(17, 21, 28)" } else { "rgb(245, 246, 248)" });
        }
        // Everything that can be used is reached by the tab key, in order.
        let order = "[...document.querySelectorAll('input, button, summary, a')].every((of) => of.tabIndex === 0)";
        assert_eq!(browser.value(order), true);
        browser.value("document.getElementById('packet').value = 'udp 10.0.0.1:5 > 192.0.2.7:1007'");
        browser.value("document.getElementById('explain').requestSubmit()");
        browser.wait_for("document.getElementById('explanation').innerText.includes('deny, by ')");
        folder.write("x.rules", text.replacen("permit udp", "permit upd", 2));
        browser.value("document.getElementById('reload-now').click()");
        let alert = "document.querySelector('[role=alert]').innerText";
        browser.wait_for(&format!("{alert}.includes('line 1, column 8')"));
        folder.write("x.rules", format!("# one line more\n{text}"));
        browser.wait_for("!document.getElementById('reload-now').disabled");
        browser.value("document.getElementById('reload-now').click()");
        browser.wait_for("document.getElementById('reload').innerText.includes('100 kept, 0 new, 0 removed')");
        assert_eq!(browser.value(alert), "");
        check_events(&browser.events, address);
        let answer = watch.finish();
        answer.assert_exact();
        assert_eq!((&answer.json["reloads"]["done"], &answer.json["reloads"]["refused"]), (&1.into(), &1.into()));
    });
}

/// Asserts that the page has asked its own origin alone, and that nothing went wrong in it.
fn check_events(events: &[Value], address: SocketAddr) {
    let of =
        |name: &'static str| events.iter().filter(move |event| event["method"] == name).map(|event| &event["params"]);
    let urls: Vec<&str> =
        of("Network.requestWillBeSent").map(|event| event["request"]["url"].as_str().unwrap()).collect();
    assert!(urls.len() > 4, "{urls:?}");
    let own = format!("http://{address}/");
    assert!(urls.iter().all(|url| url.starts_with(&own)), "{urls:?}");
    // The answer to the refused reload is an error of the network to the browser.
    let is_fault = |event: &&Value| event["entry"]["level"] == "error" && event["entry"]["source"] != "network";
    let faults: Vec<&Value> = of("Log.entryAdded").filter(is_fault).chain(of("Runtime.exceptionThrown")).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// Writes a picture of the page after five minutes of traffic to `FIRSTMATCH_PICTURE`, if that is set.
#[test]
fn a_picture_is_drawn_on_request() {
    let name = "page::a_picture_is_drawn_on_request";
    let Some(picture) = env::var_os("FIRSTMATCH_PICTURE").map(PathBuf::from) else { return };
    let (picture, examples) =
        (std::path::absolute(picture).unwrap(), PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples"));
    inside(name, || {
        let Some(program) = program(name) else { return };
        env::set_current_dir(examples).unwrap();
        let (watch, address) = Watch::listen("edge.rules".as_ref(), "vb", &[]);
        let frames = crate::counts::frames_of("edge.pcapng".as_ref());
        let frames: Vec<Vec<u8>> = frames.into_iter().filter(|frame| (14..=1_514).contains(&frame.len())).collect();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (sender, start) = (Sender::new("va"), Instant::now());
                let mut frames = frames.iter().cycle();
                while !is_over.load(Ordering::Relaxed) {
                    // The rate rises and falls, as over a day.
                    let many = 60.0 + 25.0 * (start.elapsed().as_secs_f64() / 17.0).sin();
                    frames.by_ref().take(many as usize).for_each(|frame| sender.send(frame));
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            state_when(address, |state| {
                std::thread::sleep(Duration::from_millis(500));
                state["history"].as_array().unwrap().len() == 300
            });
            let mut browser = Browser::start(program);
            browser.resize(1_200, "light");
            browser.call("Page.navigate", serde_json::json!({ "url": format!("http://{address}/") }));
            browser.wait_for("document.getElementById('passed-path')?.getAttribute('d')?.includes('L')");
            browser.value("document.getElementById('explain').requestSubmit()");
            browser.wait_for("document.getElementById('explanation').innerText");
            browser.picture(&picture);
            is_over.store(true, Ordering::Relaxed);
        });
        watch.finish();
    });
}
